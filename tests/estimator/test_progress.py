"""The progress line goes to standard error, with rich and without."""

import sys
import threading

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from gpclass import GaussianProcessClassifier
from gpclass.estimator.progress import EvidenceProgress, LiveLine, left


@pytest.fixture(params=["rich", "plain"])
def console(request, monkeypatch):
    """Whether rich is there."""
    if request.param == "rich":
        pytest.importorskip("rich", reason="the progress line of rich needs rich")
    else:
        # what `import rich` finds where rich is not installed
        monkeypatch.setitem(sys.modules, "rich", None)
    return request.param


def test_the_line_counts_evaluations_and_keeps_the_best(console, capsys):
    with EvidenceProgress(1) as progress:
        for value in (-7.25, -3.5, -9.0):
            progress.update(value)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1] == "evidence evaluation 3 (0 s): best log evidence -3.5"
    assert captured.err.endswith("\n")
    assert (progress.count, progress.best) == (3, -3.5)


def test_a_pipe_gets_a_line_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr("gpclass.estimator.progress.ELSEWHERE", 0.02)
    seen = threading.Event()

    def text():
        seen.set()
        return "at work"

    with LiveLine(text):
        assert seen.wait(30)
    assert set(capsys.readouterr().err.splitlines()) == {"at work"}


def test_a_terminal_gets_one_line(console, capsys, monkeypatch):
    monkeypatch.setattr("gpclass.estimator.progress.ON_TERMINAL", 0.02)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    looks = []
    enough = threading.Event()

    def text():
        looks.append(len(looks))
        if len(looks) > 3:
            enough.set()
        return f"at work {len(looks)}"

    with LiveLine(text):
        assert enough.wait(30)
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.endswith(f"at work {len(looks)}")


def test_work_inside_of_other_work_adds_to_its_line(console, capsys, monkeypatch):
    monkeypatch.setattr("gpclass.estimator.progress.ELSEWHERE", 0.02)
    enough = threading.Event()
    looks = []

    def inner():
        looks.append(None)
        if len(looks) > 1:
            enough.set()
        return "the inner"

    with LiveLine(lambda: "the outer"), LiveLine(inner):
        assert enough.wait(30)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "the outer; the inner"
    assert set(said[:-1]) <= {"the outer; the inner", "the outer"}
    assert said[-1] == "the outer"


def test_the_time_left_is_shown_while_it_is_known():
    assert left(10.0, 2, 6) == ", about 20 s left"
    assert left(10.0, 0, 6) == left(10.0, 6, 6) == left(10.0, 7, 6) == ""


def test_an_interruption_says_how_far_it_was(console, capsys):
    def interrupted():
        with EvidenceProgress(0) as progress:
            progress.update(-1.0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        interrupted()
    assert stopped.value.__notes__ == ["interrupted after 1 evaluation of the evidence"]


def test_nothing_is_said_unless_asked_for(console, capsys):
    with EvidenceProgress(0) as progress:
        progress.update(-1.0)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    assert progress.count == 1


def test_an_error_passes_through_and_the_line_ends(console, capsys):
    def interrupted():
        with EvidenceProgress(1) as progress:
            progress.update(-1.0)
            raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        interrupted()
    assert capsys.readouterr().err.endswith("\n")


def test_no_evaluation_claims_no_evidence(console, capsys):
    with EvidenceProgress(1):
        pass
    assert "inf" not in capsys.readouterr().err


def test_failed_evaluations_do_not_become_the_best(console):
    with EvidenceProgress(0) as progress:
        for value in (-2.0, float("nan"), -3.0):
            progress.update(value)
    assert progress.best == -2.0


def test_evidences_of_some_rows_are_not_the_best_of_all(capsys):
    with EvidenceProgress(1) as progress:
        progress.update(-1.0)
        progress.forget_best()
        assert "log evidence" not in progress._text()
        progress.update(-9.0)
    assert capsys.readouterr().err.endswith("evidence evaluation 2 (0 s): best log evidence -9\n")


def test_the_line_of_a_fit_by_points_is_of_all_rows(capsys):
    X = np.random.default_rng(0).normal(size=(6000, 2))
    y = X[:, 0] > X[:, 1] ** 2
    kernel = 1.0 * RBF()
    model = GaussianProcessClassifier(kernel, inference="vi", inducing=5, verbose=1, random_state=0)
    model.fit(X, y)
    # learning begins with 5000 of the rows
    said = float(capsys.readouterr().err.split()[-1])
    assert said == pytest.approx(model.log_marginal_likelihood_value_, rel=0.02)
