"""Losses of decisions from a file."""

import numpy as np
import pytest

from gpclass.app.losses import decisions, read_loss

CLASSES = np.array(["ill", "well"])


@pytest.fixture
def saved(tmp_path):
    def save(content):
        path = tmp_path / "loss.csv"
        path.write_text(content)
        return path

    return save


def test_classes_may_come_in_any_order(saved):
    expected = [[0, 10], [1, 0]]
    for content in ("class,ill,well\nill,0,10\nwell,1,0\n", ";well;ill\nwell;0;1\nill;10;0\n"):
        assert read_loss(saved(content), CLASSES).tolist() == expected
    with_reject = ",reject,ill,well\nill,2,0,10\nwell,.5,1,0\n"
    assert read_loss(saved(with_reject), CLASSES).tolist() == [[0, 10, 2], [1, 0, 0.5]]
    numbers = "c,1,2\n1,0,3\n2,4,0\n"
    assert read_loss(saved(numbers), np.array([1, 2])).tolist() == [[0, 3], [4, 0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (",ill,well\nill,0,10\n", "the rows of the losses in loss.csv lack class well; the model"),
        (",ill\nill,0\nwell,1\n", "the columns of the losses in loss.csv lack class well"),
        (",ill,well,dead\nill,0,1,9\nwell,1,0,9\n", "columns .* have an unknown class dead"),
        (",ill,well\nill,0,1\nwell,1,0\nill,2,2\n", "rows .* repeat class ill"),
        (",ill,well\nill,0,ten\nwell,1,0\n", "deciding 'well' for the class 'ill' is ten"),
        (",ill,well\nill,,1\nwell,1,0\n", "deciding 'ill' for the class 'ill' is nan"),
    ],
)
def test_mistakes_are_named(saved, content, message):
    with pytest.raises(ValueError, match=message):
        read_loss(saved(content), CLASSES)


def test_a_class_called_as_a_rejection():
    P = np.array([[0.6, 0.4]])
    with pytest.raises(ValueError, match="a class is called 'reject'"):
        decisions(P, np.array(["reject", "x"]), None, 0.1)
    assert decisions(P, np.array(["reject", "x"]), None, None).tolist() == ["reject"]
