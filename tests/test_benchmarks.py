"""Options and pages of the benchmarks; `make bench-dry`, part of .ci/run, runs them all once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (ROOT / "benchmarks").is_dir(), reason="this copy has no benchmarks folder"
    ),
]


def results() -> set[Path]:
    return set((ROOT / "benchmarks" / "results").glob("*"))


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.run", *options],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--only", "nothing"), "nothing"),
        (("--only", "methods/nothing"), "ep-probit"),
        (("--only", "fit/nothing"), "one row only"),
        (("--only", "methods/"), "ep-probit"),
        (("--repeat", "0"), "at least 1"),
        (("--name", "a/b"), "a/b"),
    ],
)
def test_bad_options_are_refused(options, word):
    done = run("--dry", *options)
    assert done.returncode == 2
    assert word in done.stderr


def test_a_row_can_be_run_alone():
    pytest.importorskip("threadpoolctl")
    before = results()
    done = run("--dry", "--only", "methods/pl-probit", "--only", "methods/ep-probit")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "dry run: 1 benchmarks ran" in done.stdout
    assert done.stdout.index("ep-probit") < done.stdout.index("pl-probit")
    assert "vi-probit" not in done.stdout
    assert "not judged in a dry run" in done.stdout
    assert results() == before


def test_what_is_not_installed_is_a_row_with_the_reason():
    pytest.importorskip("threadpoolctl")
    done = run("--dry", "--only", "rivals/bayesnewton")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "BayesNewton is" in done.stdout
    assert "GPML" not in done.stdout


def as_page(page: Path, *results: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.page", *map(str, results), "--page", str(page)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_page_takes_the_tables_of_a_run(tmp_path):
    limit = {"what": "a|b", "value": 3.14159, "bound": 8.0, "sense": "at most", "kept": True}
    machine = dict.fromkeys(("commit", "processor", "python", "numpy", "scipy"), "x")
    result = {
        "machine": {**machine, "date": "2000-01-02T00:00", "cores": 2, "scikit-learn": "x"},
        "omp_num_threads": "2",
        "repeat": 5,
        "benchmarks": {
            "methods": {
                "title": "Title",
                "columns": ["method", "n"],
                "rows": [["ep", "2000"]],
                "limits": [limit],
                "notes": ["a note"],
            }
        },
    }
    path, page = tmp_path / "run.json", tmp_path / "page.md"
    path.write_text(json.dumps(result))
    begin, end = "<!-- tables: written by benchmarks.page -->", "<!-- end of the tables -->"
    page.write_text(f"# Before\n{begin}\nold\n{end}\nafter\n")
    done = as_page(page, path)
    assert done.returncode == 0, done.stderr
    written = page.read_text()
    assert written.startswith("# Before\n")
    assert written.endswith("after\n")
    assert "old" not in written
    assert "| ep | 2000 |" in written
    assert "| a\\|b | 3.142 | at most 8 | kept |" in written
    again = as_page(page, path)
    assert again.returncode == 0, again.stderr
    assert page.read_text() == written
    result["machine"]["commit"] = "later"
    result["benchmarks"]["methods"]["rows"] = [["vi", "3000"]]
    other = tmp_path / "other.json"
    other.write_text(json.dumps(result))
    merged = as_page(page, path, other)
    assert merged.returncode == 0, merged.stderr
    written = page.read_text()
    assert "| ep |" not in written
    assert "| vi | 3000 |" in written
    assert written.count("at commit x") == written.count("at commit later") == 1


def test_a_run_of_an_older_form_is_refused(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"benchmarks": {"fit": {"records": []}}}))
    done = as_page(tmp_path / "page.md", path)
    assert done.returncode == 2
    assert "older form" in done.stderr
