"""The python blocks of a page run, on a small table if it brings none, and print its text."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
# run by tests/test_docs_sessions.py
SESSIONS = ("decisions.md", "tutorial.md")
BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n+^```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
BEFORE = """
from pathlib import Path
import pandas as pd
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from gpclass import GaussianProcessClassifier
from gpclass.estimator.inputs import TableEncoder
iris = load_iris(as_frame=True).frame.iloc[50::3]
Path("patients.csv").write_text(iris.rename(columns={"target": "outcome"}).to_csv(index=False))
X, y = iris.drop(columns="target"), iris["target"]
X_new = X[:2]
model = GaussianProcessClassifier().fit(X, y)
"""

pages = [
    page.name
    for page in sorted(DOCS.glob("*.md"))
    if page.name not in SESSIONS and "```python" in page.read_text(encoding="utf-8")
]


@pytest.mark.slow
@pytest.mark.parametrize("name", pages)
def test_the_blocks_of_a_page_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(DOCS / "parts"))
    names = {"__name__": "page"}
    exec(BEFORE, names)
    for code, output in BLOCK.findall((DOCS / name).read_text(encoding="utf-8")):
        if "arviz" in code:  # of a model of learning="nuts", which takes minutes
            continue
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(code, name, "exec"), names)
        assert not output or printed.getvalue() == output
