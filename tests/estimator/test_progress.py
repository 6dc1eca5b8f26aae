"""The progress line goes to standard error, with rich and without."""

import sys

import pytest

from gpclass.estimator.progress import EvidenceProgress


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
    assert captured.err.splitlines()[-1].endswith("evidence evaluation 3: best log evidence -3.5")
    assert captured.err.endswith("\n")
    assert (progress.count, progress.best) == (3, -3.5)


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
