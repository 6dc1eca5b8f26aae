"""One evidence and its gradient by EP, PL and variational inference, in units of the floor."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from benchmarks.evidence import COLUMNS, DISTANCE
from benchmarks.figures import Figures, Limit, seconds, times
from benchmarks.floor import PARTS, floor_contestants
from benchmarks.ours import EPSILON, our_problem
from benchmarks.problems import make_problem, nearby
from benchmarks.turns import Contestant, median, ratio, take_turns
from gpclass.learning import Evaluation

N, DRY_N = 2000, 60
# Larger, the threshold is a matter of minutes (`benchmarks.ours.EPSILON`).
THRESHOLD_N: Final = 500
# A cold evaluation takes two or three times as long as a warm one, and no limit hangs on it.
COLD_REPEAT: Final = 3


class Row(NamedTuple):
    """Size of the problem, and the limit of a warm evaluation in floors."""

    n: int
    limit: float | None


TABLE: Final[dict[str, Row]] = {
    "ep-probit": Row(N, 8.0),
    "ep-logit": Row(N, 12.0),
    "pl-probit": Row(N, 10.0),
    "pl-logit": Row(N, None),
    "vi-probit": Row(N, 12.0),
    "vi-logit": Row(N, None),
    "vi-ep-probit": Row(N, None),
    "ep-threshold": Row(THRESHOLD_N, None),
    "pl-threshold": Row(THRESHOLD_N, None),
}
ROWS: Final = tuple(TABLE)


def measure(method: str, n: int, repeat: int) -> dict[str, Any]:
    """Floor, warm and cold evaluations of one method, in turns."""
    problem = make_problem(n, COLUMNS)
    ours = our_problem(problem, method)
    theta = ours.theta
    start = ours.evaluate(nearby(theta, DISTANCE), gradient=False).approximation.sites
    counts: dict[str, dict[str, Any]] = {}

    def note(how: str, found: Evaluation) -> None:
        q = found.approximation
        counts[how] = {
            "iterations": q.n_iter,
            "factorisations": q.n_factorisations,
            "outcome": q.outcome.name,
            "log_evidence": found.log_evidence,
        }

    spent = take_turns(
        [
            *floor_contestants(problem),
            Contestant("warm", lambda _: note("warm", ours.evaluate(theta, init=start))),
            Contestant("cold", lambda _: note("cold", ours.evaluate(theta)), repeat=COLD_REPEAT),
        ],
        repeat,
    )
    record: dict[str, Any] = {
        "method": method,
        "n": n,
        "d": COLUMNS,
        "seconds": spent,
        "floor": {part: median(spent, part) for part in PARTS},
    }
    for how in ("warm", "cold"):
        record[how] = {"ratio": ratio(spent, how, *PARTS), **counts[how]}
    return record


def run(repeat: int, dry: bool, rows: Sequence[str] = ROWS) -> Figures:
    """One row a method, each beside a floor of its own."""
    figures = Figures(
        f"One evidence and gradient by each method, {COLUMNS} columns, ARD",
        (
            "method",
            "n",
            "floor",
            "warm",
            "warm / floor",
            "factors",
            "cold / floor",
            "factors",
            "end",
        ),
        notes=[
            "floor, warm and cold: as for Laplace's evidence; each row has its own floor, measured "
            f"in the same turns; {repeat} warm and {min(repeat, COLD_REPEAT)} cold repetitions",
            "factors: factorisations in one evaluation; the rest of the time goes into one-"
            "dimensional integrals and products with K",
            f"threshold: epsilon {EPSILON}, at n = {THRESHOLD_N} because larger problems may take "
            "minutes; a learner never starts it warm, since it may have several fixed points",
        ],
    )
    for method in rows:
        n, limit = TABLE[method]
        record = measure(method, DRY_N if dry else n, repeat)
        figures.records.append(record)
        warm, cold = record["warm"], record["cold"]
        figures.rows.append(
            (
                method,
                str(record["n"]),
                seconds(sum(record["floor"].values())),
                seconds(median(record["seconds"], "warm")),
                times(warm["ratio"]),
                str(warm["factorisations"]),
                times(cold["ratio"]),
                str(cold["factorisations"]),
                cold["outcome"].lower(),
            )
        )
        if limit is not None:
            what = f"{method}, warm, in floors, at n = {record['n']}"
            figures.limits.append(Limit(what, warm["ratio"], limit))
    return figures
