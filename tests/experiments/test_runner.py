"""Verdicts, the runner that goes on where it stopped, and the pages that it writes."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpclass.experiments import Experiment, Found, Piece, Published, judge, panels
from gpclass.experiments.pages import INDEX, read_run, write_page, write_summary
from gpclass.experiments.runner import run

CALLS: list[str] = []
TABLE = np.arange(3.0)


def add(x, seed):
    CALLS.append(f"add-{seed}")
    return {"sum": np.array([x, seed]).sum(), "range": np.arange(2)}


def total(table, scale):
    CALLS.append("total")
    return {"sum": scale * table.sum()}


def breaks(again):
    CALLS.append("breaks")
    raise KeyboardInterrupt if again else RuntimeError("no luck")


def toy(*more):
    """Two pieces, one of which needs a table; more pieces at the end."""

    def pieces(size):
        yield Piece("add", add, {"x": 1.5, "seed": 2 if size == "full" else 1})
        yield Piece("total", total, {"scale": 2.0}, data=("small",))
        yield from more

    def found(results):
        cells = {("add", "sum"): Found(results["add"]["sum"], error=0.1)}
        if "total" in results:
            cells["total", "sum"] = results["total"]["sum"]
        return cells | {("beyond", "sum"): 1.0}

    def figures(results):
        figure, axes = panels(1, 1)
        axes[0, 0].plot(results["add"]["range"])
        return {"A line": figure}

    published = (
        Published("add", "sum", 3.5, 0.1),
        Published("total", "sum", 9.0),
        Published("never", "sum", 1.0),
    )
    remarks = {"total": "a reason", "": "another"}
    return Experiment(
        "toy-1", "Toy", "None, p. 1", "None.", published, pieces, found, figures, remarks
    )


def load(name):
    if name == "small":
        return TABLE
    raise FileNotFoundError(f"get {name} somewhere")


@pytest.fixture(autouse=True)
def no_calls():
    CALLS.clear()


def start(experiment, folder, size="full", load=load):
    finished = []
    (one,) = run([experiment], size, load, folder / "cache", finished.append)
    assert finished == [one]
    return one


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (Found(3.149), "matched"),
        (Found(3.151), "near"),
        (Found(2.945), "near"),
        (Found(3.31), "missed"),
        (Found(3.31, error=0.11), "matched"),
        (Found(3.31, spread=(3.0, 3.6)), "matched"),
        (Found(3.31, spread=(3.2, 3.6)), "missed"),
        (Found(math.nan), "missed"),
        (None, "not run"),
    ],
)
def test_the_rule_of_the_verdicts(found, verdict):
    assert judge(Published("a", "b", 3.1, 0.1), found) == verdict


def test_the_published_error_counts_too():
    assert judge(Published("a", "b", 3.1, 0.1, error=0.2), Found(3.45)) == "matched"


def test_a_claim_holds_or_is_missed():
    claim = Published("a", "b", True)
    assert judge(claim, Found(np.True_)) == "matched"
    assert judge(claim, Found(False)) == "missed"


def test_results_are_as_json_gives_them_back(tmp_path):
    one = start(toy(), tmp_path)
    assert one.results == {"add": {"sum": 3.5, "range": [0, 1]}, "total": {"sum": 6.0}}
    assert not one.failed
    assert not one.left_out


def test_what_is_finished_is_not_run_again(tmp_path):
    first = start(toy(), tmp_path)
    assert CALLS == ["add-2", "total"]
    again = start(toy(), tmp_path)
    assert CALLS == ["add-2", "total"]
    assert again.pieces == first.pieces
    # another size has other arguments of one piece
    start(toy(), tmp_path, "quick")
    assert CALLS == ["add-2", "total", "add-1"]


def test_an_interrupted_run_goes_on(tmp_path):
    stop = Piece("breaks", breaks, {"again": True})
    with pytest.raises(KeyboardInterrupt) as interruption:
        start(toy(stop), tmp_path)
    assert "interrupted: 2 of 3 pieces" in interruption.value.__notes__[-1]
    CALLS.clear()
    start(toy(), tmp_path)
    assert CALLS == []


def test_an_error_is_reported_and_the_rest_runs(tmp_path):
    bad = Piece("breaks", breaks, {"again": False})
    one = start(toy(bad), tmp_path)
    assert one.failed
    assert one.left_out == {"breaks": "RuntimeError: no luck"}
    assert list(one.results) == ["add", "total"]
    # and is tried again
    start(toy(bad), tmp_path)
    assert CALLS.count("breaks") == 2


def test_missing_data_say_how_to_get_them_and_the_rest_runs(tmp_path):
    def nothing(name):
        raise FileNotFoundError(f"get {name} somewhere")

    one = start(toy(), tmp_path, load=nothing)
    assert one.left_out == {"total": "get small somewhere"}
    assert not one.failed
    record = write_page(one, tmp_path)
    verdicts = {cell["row"]: cell.get("verdict") for cell in record["cells"]}
    assert verdicts == {
        "add": "matched", "total": "not run", "never": "not run", "beyond": None,
    }  # fmt: skip
    assert "1 of the pieces: get small somewhere" in (tmp_path / "toy-1.md").read_text()


def test_pieces_need_names_of_their_own(tmp_path):
    with pytest.raises(ValueError, match="two pieces of one name"):
        start(toy(Piece("add", add, {"x": 0.0, "seed": 0})), tmp_path)


def test_pages_and_summary(tmp_path):
    write_page(start(toy(), tmp_path), tmp_path)
    counts = write_summary(tmp_path, ["other", "toy-1"])
    assert "Not run here yet: other." in (tmp_path / INDEX).read_text()
    assert counts == {"matched": 1, "missed": 1, "not run": 1}
    page = (tmp_path / "toy-1.md").read_text()
    assert "| add | sum | 3.5 | 3.50 ± 0.10 | matched |" in page
    assert "- total, sum: published 9, ours 6.0. a reason" in page
    assert "![A line](toy-1-1.png)" in page
    assert (tmp_path / "toy-1-1.png").stat().st_size > 1000
    assert (tmp_path / "toy-1-1.svg").read_text().startswith("<?xml")
    summary = (tmp_path / INDEX).read_text()
    assert "| [Toy](toy-1.md) | None, p. 1 | 1 | 0 | 1 | 1 | 0 s |" in summary
    assert "- toy-1, total, sum: published 9, ours 6.0. a reason" in summary
    record = json.loads((tmp_path / "toy-1.json").read_text())
    assert record["pieces"]["add"]["arguments"] == {"x": 1.5, "seed": 2}
    assert record["pieces"]["add"]["seconds"] >= 0.0
    assert record["size"] == "full"


def test_tables_and_pieces_that_were_not_run_in_this_form(tmp_path):
    def tables(results):
        return {"sums": ("Sums:", ("piece", "sum"), [["add", str(results["add"]["sum"])]])}

    own = replace(toy(), name="toy-2", published=(), figures=lambda _: {}, tables=tables)
    one = start(own, tmp_path)
    one.pieces["add"]["origin"] = "they are of commit abc."
    write_page(one, tmp_path)
    table = "<!-- table sums -->\n\n| piece | sum |\n| --- | --- |\n| add | 3.5 |\n\n<!-- end -->"
    page = tmp_path / "toy-2.md"
    for _ in range(2):
        assert table in page.read_text()
        assert (
            "1 of the pieces were not run in this form: they are of commit abc." in page.read_text()
        )
        # the origin is kept where pages are written again
        write_page(read_run(own, tmp_path), tmp_path)
    write_summary(tmp_path, ["toy-2"])
    assert (
        "no number is published:\n\n| experiment | source | CPU time |"
        in (tmp_path / INDEX).read_text()
    )
    one.left_out["add"] = "lost"
    write_page(one, tmp_path)
    assert "## Tables" not in page.read_text()


def test_pages_of_the_results_on_record(tmp_path):
    write_page(start(toy(), tmp_path), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.glob("toy-1*")}
    CALLS.clear()
    write_page(read_run(toy(), tmp_path), tmp_path)
    assert before == {path: path.read_bytes() for path in tmp_path.glob("toy-1*")}
    assert CALLS == []
    # a piece that came later is not on record
    more = read_run(toy(Piece("later", add, {"x": 0.0, "seed": 3})), tmp_path)
    assert more.left_out == {"later": "it is not on record"}
    with pytest.raises(FileNotFoundError):
        read_run(toy(), tmp_path / "elsewhere")


def test_the_same_run_gives_the_same_files(tmp_path):
    def written():
        one = start(toy(), tmp_path)
        write_page(one, tmp_path)
        return {path.name: path.read_bytes() for path in Path(tmp_path).glob("toy-1*")}

    assert written() == written()
