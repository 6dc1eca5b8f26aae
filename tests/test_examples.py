"""Every example runs; each checks its own claims."""

import runpy
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_runs_and_its_claims_hold(path, capsys, monkeypatch):
    matplotlib.use("agg")
    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out
