"""Class probabilities of many rows, in units of one solve and one kernel evaluation."""

import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier as Theirs

from benchmarks.figures import Figures, Limit, seconds, times
from benchmarks.floor import prediction_floor_contestants
from benchmarks.problems import learnt_kernel, make_problem
from benchmarks.turns import Contestant, median, ratio, take_turns
from gpclass import GaussianProcessClassifier as Ours

N, ROWS, COLUMNS = 1000, 10_000, 10
LIMIT = 3.0
FLOOR = ("dtrsm", "kernel")
CONTESTANTS = ("ours", "scikit-learn")


def run(repeat: int, dry: bool) -> Figures:
    """Both classifiers at the same hyperparameters."""
    n, rows = (60, 100) if dry else (N, ROWS)
    problem = make_problem(n, COLUMNS)
    X_new = make_problem(rows, COLUMNS, seed=1).X
    kernel = learnt_kernel(COLUMNS)
    ours = Ours(kernel, likelihood="logit", inference="laplace", optimizer=None)
    ours.fit(problem.X, problem.y)
    theirs = Theirs(kernel, optimizer=None).fit(problem.X, problem.y)
    spent = take_turns(
        [
            *prediction_floor_contestants(problem, X_new),
            Contestant("ours", lambda _: ours.predict_proba(X_new)),
            Contestant("scikit-learn", lambda _: theirs.predict_proba(X_new)),
        ],
        repeat,
    )
    difference = float(np.abs(ours.predict_proba(X_new) - theirs.predict_proba(X_new)).max())
    figures = Figures(
        f"predict_proba of {rows} rows at n = {n}, {COLUMNS} columns, Laplace, logit",
        ("what", "time", "/ floor"),
        notes=[
            f"floor = one triangular solve ({n} x {rows}) in place + one kernel(X, X_new) of "
            "scikit-learn",
            "scikit-learn approximates the average over the latent; the largest difference of a "
            f"probability from ours is {difference:.1e}",
        ],
    )
    figures.rows = [(part, seconds(median(spent, part)), "") for part in FLOOR]
    figures.rows += [
        (who, seconds(median(spent, who)), times(ratio(spent, who, *FLOOR))) for who in CONTESTANTS
    ]
    figures.records = [
        {
            "n": n,
            "rows": rows,
            "d": COLUMNS,
            "seconds": spent,
            "ratio": {who: ratio(spent, who, *FLOOR) for who in CONTESTANTS},
            "largest_difference": difference,
        }
    ]
    figures.limits = [Limit("ours, in floors", ratio(spent, "ours", *FLOOR), LIMIT)]
    return figures
