"""Peak memory of one evidence and gradient, each taken in a process of its own.

``python -m benchmarks.memory WHO N D`` measures once and prints JSON; WHO is scikit-learn, or a
method of `benchmarks.ours` with ``-cold`` or ``-warm`` behind its name. Two instruments are read:
tracemalloc, to which numpy reports its arrays, and the largest resident size of the process,
which also sees what LAPACK allocates by itself.
"""

import argparse
import contextlib
import json
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.evidence import DISTANCE, their_model
from benchmarks.figures import Figures, Limit
from benchmarks.multiclass import joint_problem
from benchmarks.ours import METHODS, our_problem
from benchmarks.problems import make_problem, nearby

OURS_N, THEIRS_N, COLUMNS = 3000, 1000, 20
LIMIT = 6.0
# Joint models of many classes: rows and classes; in n^2 doubles, two a class and six more.
JOINT_N, CLASSES = 1500, 10
JOINT_LIMIT = 2.0 * CLASSES + 6.0
JOINT: Final = ("softmax", "nested")
# Run once at this size before the measurement: imports, and the work space of the BLAS threads.
WARM_UP = 400
SKLEARN: Final = "scikit-learn"
ROWS: Final = (
    "laplace-logit-warm",
    "laplace-logit-cold",
    "ep-probit-warm",
    "ep-probit-cold",
    "ep-sequential-probit-cold",
    "pl-probit-cold",
    "vi-probit-cold",
    "vi-ep-probit-cold",
    *(f"{model}-{how}" for model in JOINT for how in ("warm", "cold")),
    SKLEARN,
)


def task(who: str, n: int, d: int) -> Callable[[], Any]:
    """Something to call, with all that it needs made already."""
    problem = make_problem(n, d)
    if who == SKLEARN:
        model = their_model(problem)
        theta = model.kernel_.theta
        return lambda: model.log_marginal_likelihood(theta, eval_gradient=True)
    method, _, how = who.rpartition("-")
    ours: Any = (
        joint_problem(problem, method, CLASSES) if method in JOINT else our_problem(problem, method)
    )
    if how == "cold":
        return lambda: ours.evaluate(ours.theta)
    start = ours.evaluate(nearby(ours.theta, DISTANCE), gradient=False).approximation.sites
    return lambda: ours.evaluate(ours.theta, init=start)


def measure(who: str, n: int, d: int) -> dict[str, float]:
    """Peaks above the start in bytes.

    The making of the problem may itself have set the process's largest resident size; it is
    therefore done before the process forgets its peak, where the system can make it forget.
    """
    task(who, min(n, WARM_UP), d)()
    return peaks(task(who, n, d))


def peaks(call: Callable[[], Any]) -> dict[str, float]:
    """Peaks of a call above its start, in bytes."""
    _forget_peak()
    resident = _resident()
    tracemalloc.start()
    call()
    _, traced = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"traced": float(traced), "resident": float(_peak() - resident)}


def _forget_peak() -> None:
    # Linux: 5 resets the high-water mark of the resident size
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _status(key: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    return None


def _ru_maxrss() -> int:
    # The fallback where there is no /proc. On Linux it may be the parent's peak: what a process
    # had reached before exec counts.
    # kilobytes on Linux, bytes on macOS
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024


def _resident() -> int:
    current = _status("VmRSS")
    return _ru_maxrss() if current is None else current


def _peak() -> int:
    peak = _status("VmHWM")
    return _ru_maxrss() if peak is None else peak


def measure_apart(who: str, n: int, d: int) -> dict[str, float]:
    """Measure in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory", who, str(n), str(d)],
        cwd=Path(__file__).resolve().parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the measurement of {who} at n = {n} failed:\n{done.stderr}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def run(repeat: int, dry: bool, rows: Sequence[str] = ROWS) -> Figures:
    """Every row once, in units of n^2 doubles."""
    figures = Figures(
        f"Peak memory above the start of one evidence and gradient, {COLUMNS} columns, ARD",
        ("what", "n", "tracemalloc, n^2 doubles", "resident, n^2 doubles", "resident, MB"),
        notes=[
            "each in a fresh process after a warm-up on a small table; resident: the largest "
            "resident size of the process less that before the call",
            f"softmax, nested: joint models of {CLASSES} classes that share a kernel",
        ],
    )
    ours_n, joint_n, theirs_n = (200, 100, 100) if dry else (OURS_N, JOINT_N, THEIRS_N)
    if dry and tuple(rows) == ROWS:
        # a process each takes its time: one of each kind shows that they run
        rows = ("laplace-logit-warm", "ep-probit-cold", "nested-cold", SKLEARN)
    for who in rows:
        joint = who.rpartition("-")[0] in JOINT
        n = theirs_n if who == SKLEARN else joint_n if joint else ours_n
        found = measure_apart(who, n, COLUMNS)
        unit = 8.0 * n**2
        record = {
            "who": who,
            "n": n,
            "d": COLUMNS,
            "traced_bytes": found["traced"],
            "resident_bytes": found["resident"],
            "traced_units": found["traced"] / unit,
            "resident_units": found["resident"] / unit,
        }
        figures.records.append(record)
        figures.rows.append(
            (
                who,
                str(n),
                f"{record['traced_units']:.2f}",
                f"{record['resident_units']:.2f}",
                f"{found['resident'] / 1e6:.0f}",
            )
        )
        if who != SKLEARN:
            larger = max(record["traced_units"], record["resident_units"])
            what = f"{who}, n^2 doubles, the larger reading, at n = {n}"
            figures.limits.append(Limit(what, larger, JOINT_LIMIT if joint else LIMIT))
    return figures


def main() -> None:
    """Measure once and print JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    who = [f"{method}-{how}" for method in (*METHODS, *JOINT) for how in ("warm", "cold")]
    parser.add_argument("who", choices=[*who, SKLEARN])
    parser.add_argument("n", type=int)
    parser.add_argument("d", type=int)
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.who, arguments.n, arguments.d)))


if __name__ == "__main__":
    main()
