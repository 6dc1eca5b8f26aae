"""Every experiment: what it declares, a quick run of it, and the record of its full run."""

import json
from pathlib import Path

import pytest

from gpclass.app.reproduce import load
from gpclass.experiments import experiments
from gpclass.experiments.pages import INDEX, write_page
from gpclass.experiments.runner import run

ALL = experiments()
RECORDS = Path(__file__).resolve().parents[2] / "docs" / "reproduction"
each = pytest.mark.parametrize("name", ALL)


@each
def test_declarations(name):
    one = ALL[name]
    places = [(cell.row, cell.column) for cell in one.published]
    assert len(set(places)) == len(places)
    assert all(cell.resolution > 0 for cell in one.published)
    # a remark that names no cell would never be shown
    known = {"", *places, *(row for row, _ in places), *(column for _, column in places)}
    assert set(one.remarks) <= known
    full = {piece.name for piece in one.pieces("full")}
    assert 0 < len(list(one.pieces("quick"))) <= len(full)


@pytest.mark.slow
@each
def test_a_quick_run(name, tmp_path):
    (one,) = run([ALL[name]], "quick", load, tmp_path / "cache", lambda _: None)
    assert not one.failed, one.left_out
    record = write_page(one, tmp_path)
    if one.left_out:
        pytest.skip(next(iter(one.left_out.values())))
    assert any("ours" in cell for cell in record["cells"])
    for picture in tmp_path.glob("*.png"):
        assert picture.stat().st_size > 5000


@each
@pytest.mark.skipif(not RECORDS.is_dir(), reason="this copy has no docs folder")
def test_the_record_of_the_full_run(name):
    if not (RECORDS / f"{name}.json").exists():
        assert name in (RECORDS / INDEX).read_text().partition("Not run here yet: ")[2]
        pytest.skip("it was not run in full yet, as the summary says")
    record = json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))
    assert record["size"] == "full"
    published = {(cell.row, cell.column): cell.value for cell in ALL[name].published}
    kept = {(c["row"], c["column"]): c["published"] for c in record["cells"] if "published" in c}
    assert kept == pytest.approx(published)
    reasons = [c for c in record["cells"] if c.get("verdict") == "missed" and not c["remark"]]
    assert not reasons, "a miss says its likely reason"
