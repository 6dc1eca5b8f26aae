import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpclass.decision import REJECT, decide, error_reject_curve


def dirichlet(n, C, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(C), size=n)


def test_default_loss_takes_the_most_probable_class():
    p = dirichlet(50, 4)
    np.testing.assert_array_equal(decide(p), p.argmax(axis=1))


def test_least_expected_loss_by_hand():
    p = dirichlet(30, 3)
    loss = np.random.default_rng(1).uniform(size=(3, 4))
    expected = [
        min(range(4), key=lambda j, row=row: sum(row[k] * loss[k, j] for k in range(3)))
        for row in p
    ]
    np.testing.assert_array_equal(decide(p, loss), np.where(np.array(expected) == 3, -1, expected))


def test_constant_reject_cost_is_a_threshold_on_the_largest_probability():
    p = dirichlet(200, 3)
    decision = decide(p, reject_cost=0.4)
    np.testing.assert_array_equal(decision == REJECT, p.max(axis=1) < 0.6)
    column = np.column_stack([1 - np.eye(3), np.full(3, 0.4)])
    np.testing.assert_array_equal(decision, decide(p, column))


def test_ties_go_to_the_first_class_and_never_to_rejecting():
    assert decide([0.5]).tolist() == [0]
    assert decide([0.5], reject_cost=0.5).tolist() == [0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": np.ones((3, 3))}, r"shape \(2, 2\)"),
        ({"loss": [[0, np.inf], [1, 0]]}, "infinity"),
        ({"loss": np.ones((2, 3)), "reject_cost": 1.0}, "not both"),
        ({"reject_cost": np.nan}, "finite"),
    ],
)
def test_decide_mistakes(options, message):
    with pytest.raises(ValueError, match=message):
        decide([0.1, 0.9], **options)


def naive_area(y, p, n_orders=4000):
    """Area with ties broken at random, the slow way."""
    rng = np.random.default_rng(0)
    wrong = p.argmax(axis=1) != y
    areas = []
    for _ in range(n_orders):
        order = np.lexsort([rng.uniform(size=y.size), -p.max(axis=1)])
        areas.append(np.mean(np.cumsum(wrong[order]) / np.arange(1, y.size + 1)))
    return np.mean(areas)


def test_curve_against_the_definition():
    p = dirichlet(60, 3)
    y = np.random.default_rng(2).integers(3, size=60)
    curve = error_reject_curve(y, p)
    for fraction, error, threshold in zip(
        curve.reject_fraction, curve.error_rate, curve.thresholds, strict=True
    ):
        accepted = p.max(axis=1) >= threshold
        assert fraction == pytest.approx(1 - accepted.mean())
        assert error == pytest.approx((p.argmax(axis=1) != y)[accepted].mean())
    assert curve.reject_fraction[0] == 0
    assert (np.diff(curve.reject_fraction) > 0).all()
    assert curve.n_cases == 60


def test_ties_are_one_point_and_the_area_is_their_expectation():
    p = np.array([0.9, 0.1, 0.8, 0.2, 0.8, 0.5])
    y = np.array([1, 0, 0, 0, 1, 1])
    curve = error_reject_curve(y, p)
    assert curve.thresholds.tolist() == [0.5, 0.8, 0.9]
    np.testing.assert_allclose(curve.error_rate, [2 / 6, 1 / 5, 0])
    two = np.column_stack([1 - p, p])
    assert curve.area == pytest.approx(naive_area(y, two), abs=3e-3)


def test_uninformative_probabilities_are_one_point_with_the_error_as_area():
    y = np.repeat([0, 1], [30, 10])
    curve = error_reject_curve(y, np.full(40, 0.4))
    assert curve.reject_fraction.tolist() == [0]
    # The expected error of k cases drawn at random is the error rate, whatever k.
    assert curve.area == pytest.approx(0.25)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.sampled_from([0.0, 0.2, 0.5, 0.7, 1.0])), min_size=1)
)
def test_curve_laws(rows):
    y, p = map(np.array, zip(*rows, strict=True))
    curve = error_reject_curve(y, p, labels=[0, 1])
    assert curve.error_rate[0] == pytest.approx(np.mean((p > 0.5) != y))
    assert 0 <= curve.area <= 1
    assert ((curve.error_rate >= 0) & (curve.error_rate <= 1)).all()


def test_error_at():
    curve = error_reject_curve([0, 0, 1, 1], [0.1, 0.55, 0.2, 0.9])
    assert curve.error_at(0) == 0.5
    assert curve.error_at(0.3) == pytest.approx(1 / 3)
    assert curve.error_at(1) == 0
    with pytest.raises(ValueError, match="reject_fraction"):
        curve.error_at(1.1)
