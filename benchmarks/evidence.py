"""One evidence and its gradient, in units of the floor and beside scikit-learn."""

from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier as Theirs

from benchmarks.figures import Figures, Limit, seconds, times
from benchmarks.floor import PARTS, floor_contestants
from benchmarks.ours import our_problem
from benchmarks.problems import Problem, learnt_kernel, make_problem, nearby
from benchmarks.turns import Contestant, median, ratio, take_turns

SIZES = (500, 1000, 2000, 4000)
JUDGED_SIZE = 2000
COLUMNS = 10
DISTANCE = 0.02
WARM_LIMIT, COLD_LIMIT, RIVAL_LIMIT = 2.5, 4.0, 10.0
# scikit-learn's peak is 36 n^2 doubles for ten columns (``benchmarks.memory`` at n = 2000).
THEIR_LARGEST, THEIR_UNITS = 2000, 36
THEIR_REPEAT = 3


def their_model(problem: Problem) -> Any:
    """scikit-learn's classifier with hyperparameters that stay where they are."""
    kernel = learnt_kernel(problem.X.shape[1])
    return Theirs(kernel, optimizer=None).fit(problem.X, problem.y)


def compare(n: int, repeat: int, with_theirs: bool) -> dict[str, Any]:
    """Time the floor, ours and theirs at one size."""
    problem = make_problem(n, COLUMNS)
    ours = our_problem(problem)
    theta = ours.theta
    start = ours.evaluate(nearby(theta, DISTANCE), gradient=False).approximation.sites
    contestants = [
        *floor_contestants(problem),
        Contestant("warm", lambda _: ours.evaluate(theta, init=start)),
        Contestant("cold", lambda _: ours.evaluate(theta)),
    ]
    if with_theirs:
        theirs = their_model(problem)
        contestants.append(
            Contestant(
                "scikit-learn",
                lambda _: theirs.log_marginal_likelihood(theta, eval_gradient=True),
                repeat=THEIR_REPEAT,
            )
        )
    spent = take_turns(contestants, repeat)
    warm, cold = ours.evaluate(theta, init=start), ours.evaluate(theta)
    record: dict[str, Any] = {
        "n": n,
        "d": COLUMNS,
        "seconds": spent,
        "floor": {part: median(spent, part) for part in PARTS},
        "warm": {
            "ratio": ratio(spent, "warm", *PARTS),
            "newton_steps": warm.approximation.n_iter,
            "factorisations": warm.approximation.n_factorisations,
        },
        "cold": {
            "ratio": ratio(spent, "cold", *PARTS),
            "newton_steps": cold.approximation.n_iter,
            "factorisations": cold.approximation.n_factorisations,
        },
        "log_evidence": cold.log_evidence,
    }
    if with_theirs:
        value, gradient = theirs.log_marginal_likelihood(theta, eval_gradient=True)
        assert cold.gradient is not None
        record["scikit-learn"] = {
            "ratio": ratio(spent, "scikit-learn", *PARTS),
            "to_warm": ratio(spent, "scikit-learn", "warm"),
            "to_cold": ratio(spent, "scikit-learn", "cold"),
            "log_evidence": float(value),
            "largest_gradient_difference": float(np.abs(gradient - cold.gradient).max()),
        }
    return record


def run(repeat: int, dry: bool) -> Figures:
    """Every size, and the limits at n = 2000."""
    figures = Figures(
        f"One Laplace evidence (logit) and gradient, {COLUMNS} columns, ARD",
        (
            "n",
            "dpotrf",
            "dpotri",
            "kernel",
            "warm / floor",
            "cold / floor",
            "sklearn / floor",
            "sklearn / warm",
            "sklearn / cold",
        ),
        notes=[
            "floor = dpotrf + dpotri in place + one kernel(X) of scikit-learn; medians over "
            f"{repeat} repetitions in turns, ratios formed within a repetition",
            f"warm: started from the sites of hyperparameters {DISTANCE} away in every component "
            "(logarithms); cold: from f = 0",
        ],
    )
    sizes = (60, 120) if dry else SIZES
    for n in sizes:
        record = compare(n, repeat, n <= THEIR_LARGEST)
        figures.records.append(record)
        theirs = record.get("scikit-learn")
        figures.rows.append(
            (
                str(n),
                *(seconds(record["floor"][part]) for part in PARTS),
                times(record["warm"]["ratio"]),
                times(record["cold"]["ratio"]),
                *(
                    (times(theirs[key]) for key in ("ratio", "to_warm", "to_cold"))
                    if theirs
                    else ("skipped",) * 3
                ),
            )
        )
    if not dry:
        gigabytes = THEIR_UNITS * 8 * SIZES[-1] ** 2 / 1e9
        figures.notes.append(
            f"scikit-learn runs {THEIR_REPEAT} times at most, and not at n = {SIZES[-1]}: its peak "
            f"of {THEIR_UNITS} n^2 doubles, measured at n = 2000, would be {gigabytes:.1f} GB there"
        )
    judged = next((r for r in figures.records if r["n"] == JUDGED_SIZE), figures.records[-1])
    at = f"at n = {judged['n']}"
    figures.limits = [
        Limit(f"warm, in floors, {at}", judged["warm"]["ratio"], WARM_LIMIT),
        Limit(f"cold, in floors, {at}", judged["cold"]["ratio"], COLD_LIMIT),
        Limit(
            f"scikit-learn's time by ours (warm), {at}",
            judged["scikit-learn"]["to_warm"],
            RIVAL_LIMIT,
            at_most=False,
        ),
    ]
    return figures
