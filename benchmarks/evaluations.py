"""Time of two hundred evaluations on an optimiser's way, the same way for every method."""

import gc
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from benchmarks.evidence import COLUMNS
from benchmarks.figures import Figures, seconds, times
from benchmarks.ours import our_problem
from benchmarks.problems import Array, learnt_kernel, make_problem, starting_kernel
from benchmarks.turns import PAUSE
from gpclass.inference.sites import Sites
from gpclass.learning import BinaryProblem

N, COUNT = 500, 200
DRY_N, DRY_COUNT = 40, 20
# Steps between two looks at the clock: methods take turns after so many.
CHUNK: Final = 20
# Distance to the end that is left by each step: 0.1 in the first, 0.0003 in the last of 200.
SHRINK: Final = 0.97
# Sequential methods take a fraction of a second a step: a few steps are timed in each chunk.
SAMPLED: Final = (9, 19)
# name -> (method, method whose sites start the sampled steps)
TABLE: Final[dict[str, tuple[str, str | None]]] = {
    "laplace": ("laplace-probit", None),
    "ep": ("ep-probit", None),
    "ep-sequential": ("ep-sequential-probit", "ep"),
    "pl": ("pl-probit", None),
    "pl-sequential": ("pl-sequential-probit", "pl"),
    "vi": ("vi-probit", None),
    "vi-ep": ("vi-ep-probit", None),
}
ROWS: Final = tuple(TABLE)


def way(count: int) -> Array:
    """Hyperparameters from where a fit starts to near the maximum, shape (count, p).

    The distance that is left shrinks by a constant factor: large steps first, small ones at the
    end, as an optimiser takes them.
    """
    start, end = starting_kernel(COLUMNS).theta, learnt_kernel(COLUMNS).theta
    left = SHRINK ** np.arange(count)
    return end + left[:, None] * (start - end)


def run(repeat: int, dry: bool, rows: Sequence[str] = ROWS) -> Figures:
    """All methods on the same way, in turns of a few steps each; ``repeat`` does not matter."""
    n, count = (DRY_N, DRY_COUNT) if dry else (N, COUNT)
    problem = make_problem(n, COLUMNS)
    thetas = way(count)
    ours = {name: our_problem(problem, TABLE[name][0]) for name in TABLE}
    # a sampled method is started from the sites of its parallel sibling, which must run too
    names = [name for name in TABLE if name in rows or any(TABLE[row][1] == name for row in rows)]
    names.sort(key=lambda name: TABLE[name][1] is not None)
    spent: dict[str, list[float]] = {name: [] for name in names}
    factors: dict[str, list[int]] = {name: [] for name in names}
    sites: dict[str, list[Sites]] = {name: [] for name in names}
    for begin in range(0, count, CHUNK):
        for name in names:
            sibling = TABLE[name][1]
            steps = range(begin, min(begin + CHUNK, count))
            if sibling is not None:
                steps = [begin + k for k in SAMPLED if begin + k < count]
            gc.collect()
            time.sleep(PAUSE)
            for k in steps:
                last = sites[sibling or name][k - 1] if k else None
                step = _step(ours[name], thetas[k], last)
                spent[name].append(step["seconds"])
                factors[name].append(step["factorisations"])
                sites[name].append(step["sites"])
    figures = Figures(
        f"{count} evaluations of the evidence and gradient at n = {n}, probit, warm",
        ("method", "time", "an evaluation", "factors", "/ laplace", "evaluations timed"),
        notes=[
            "every method goes the same way from a fit's start to near the maximum, in steps from "
            f"0.1 down to {3.4 * SHRINK ** (count - 1) * (1 - SHRINK):.1g}; each evaluation starts "
            "from the sites of the last, the first one cold",
            "sequential: a sample of the evaluations, each from the sites that its parallel "
            "sibling found before, is timed, and the mean taken times the number of all",
        ],
    )
    totals = {name: float(np.mean(spent[name])) * count for name in names}
    for name in (row for row in TABLE if row in rows):
        total = totals[name]
        figures.rows.append(
            (
                name,
                seconds(total),
                seconds(total / count),
                f"{np.mean(factors[name]):.1f}",
                times(total / totals["laplace"]) if "laplace" in totals else "",
                str(len(spent[name])),
            )
        )
        figures.records.append(
            {
                "method": name,
                "n": n,
                "d": COLUMNS,
                "evaluations": count,
                "total_seconds": total,
                "seconds": spent[name],
                "factorisations": factors[name],
            }
        )
    return figures


def _step(problem: BinaryProblem, theta: Array, init: Sites | None) -> dict[str, Any]:
    start = time.perf_counter()
    found = problem.evaluate(theta, init=init)
    return {
        "seconds": time.perf_counter() - start,
        "factorisations": found.approximation.n_factorisations,
        "sites": found.approximation.sites,
    }
