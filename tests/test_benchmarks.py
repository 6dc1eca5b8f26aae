"""The benchmarks run: tiny sizes, nothing judged, nothing written."""

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


def test_a_dry_run_passes_through_every_benchmark_and_writes_nothing():
    pytest.importorskip("threadpoolctl")
    before = results()
    done = run("--dry")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "dry run: 4 benchmarks ran" in done.stdout
    assert "not judged in a dry run" in done.stdout
    assert results() == before


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--only", "nothing"), "nothing"),
        (("--repeat", "0"), "at least 1"),
        (("--name", "a/b"), "a/b"),
    ],
)
def test_bad_options_are_refused(options, word):
    done = run("--dry", *options)
    assert done.returncode == 2
    assert word in done.stderr
