"""The sequential schedules beside the parallel ones, from a cold start."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from benchmarks.evidence import COLUMNS
from benchmarks.figures import Figures, Limit, seconds, times
from benchmarks.ours import our_problem
from benchmarks.problems import make_problem
from benchmarks.turns import Contestant, median, ratio, take_turns
from gpclass.inference import Approximation
from gpclass.priors import DensePrior

N, DRY_N = 2000, 60
REPEAT: Final = 3
# name -> limit of sequential by parallel
TABLE: Final[dict[str, float | None]] = {"ep": 4.0, "pl": None}
ROWS: Final = tuple(TABLE)


def measure(method: str, n: int, repeat: int) -> dict[str, Any]:
    """Both schedules in turns on one kernel matrix: inference alone, no kernel, no gradient."""
    problem = make_problem(n, COLUMNS)
    parallel = our_problem(problem, f"{method}-probit")
    sequential = our_problem(problem, f"{method}-sequential-probit")
    K = parallel.prior().K
    found: dict[str, Approximation] = {}

    def solve(how: str) -> None:
        ours = parallel if how == "parallel" else sequential
        found[how] = ours.inference(DensePrior(K), ours.y, ours.likelihood)

    spent = take_turns(
        [
            Contestant("parallel", lambda _: solve("parallel"), repeat=REPEAT),
            Contestant("sequential", lambda _: solve("sequential"), repeat=REPEAT),
        ],
        repeat,
    )
    one, other = found["parallel"].sites, found["sequential"].sites
    return {
        "method": method,
        "n": n,
        "d": COLUMNS,
        "seconds": spent,
        "ratio": ratio(spent, "sequential", "parallel"),
        "sweeps": {how: q.n_iter for how, q in found.items()},
        "factorisations": {how: q.n_factorisations for how, q in found.items()},
        "outcomes": {how: q.outcome.name for how, q in found.items()},
        "difference": max(
            float(np.abs(one.nu - other.nu).max()), float(np.abs(one.tau - other.tau).max())
        ),
    }


def run(repeat: int, dry: bool, rows: Sequence[str] = ROWS) -> Figures:
    """EP and PL with the probit."""
    figures = Figures(
        f"Sequential and parallel schedules, probit, cold, {COLUMNS} columns",
        (
            "method",
            "n",
            "parallel",
            "sequential",
            "sequential / parallel",
            "sweeps",
            "largest difference",
        ),
        notes=[
            "inference alone on a kernel matrix that is there already, without gradient; "
            f"{min(repeat, REPEAT)} repetitions in turns, not warmed up",
            "sweeps: of the sequential schedule over all rows; difference: of the natural "
            "parameters of any site between the two",
        ],
    )
    for method in rows:
        record = measure(method, DRY_N if dry else N, repeat)
        figures.records.append(record)
        figures.rows.append(
            (
                method,
                str(record["n"]),
                seconds(median(record["seconds"], "parallel")),
                seconds(median(record["seconds"], "sequential")),
                times(record["ratio"]),
                str(record["sweeps"]["sequential"]),
                f"{record['difference']:.0e}",
            )
        )
        limit = TABLE[method]
        if limit is not None:
            what = f"sequential by parallel {method}, cold, at n = {record['n']}"
            figures.limits.append(Limit(what, record["ratio"], limit))
    return figures
