"""A whole fit from the same start, by this library and by scikit-learn."""

import time
import warnings
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier as Theirs

from benchmarks.figures import Figures, Limit, seconds
from benchmarks.problems import Problem, make_problem, starting_kernel
from benchmarks.turns import PAUSE
from gpclass import GaussianProcessClassifier as Ours

N, COLUMNS = 1000, 10
SPEED_LIMIT = 10.0
# Both optimisers stop by a relative change of the evidence; ends closer than this are equal.
EVIDENCE_TOLERANCE = 1e-6


class CountingOptimizer:
    """scikit-learn's own call of L-BFGS-B, which does not say how often it evaluated."""

    def __init__(self) -> None:
        self.evaluations = 0

    def __call__(self, objective: Any, theta: Any, bounds: Any) -> tuple[Any, float]:
        """Minimise as `sklearn.gaussian_process` does by default."""
        found = minimize(objective, theta, method="L-BFGS-B", jac=True, bounds=bounds)
        self.evaluations += int(found.nfev)
        return found.x, float(found.fun)


def timed_fit(model: Any, problem: Problem) -> float:
    """Seconds of one fit; a length-scale of an irrelevant column may end on its bound."""
    time.sleep(PAUSE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.perf_counter()
        model.fit(problem.X, problem.y)
        return time.perf_counter() - start


def run(repeat: int, dry: bool) -> Figures:
    """Theirs once, because it takes a minute, with fits of ours before and after it."""
    n = 60 if dry else N
    problem = make_problem(n, COLUMNS)
    kernel = starting_kernel(COLUMNS)
    ours = Ours(kernel, likelihood="logit", inference="laplace")
    counting = CountingOptimizer()
    theirs = Theirs(kernel, optimizer=counting)
    our_times = [timed_fit(ours, problem)]
    their_time = timed_fit(theirs, problem)
    our_times += [timed_fit(ours, problem) for _ in range(min(repeat, 3) - 1)]

    our_evidence = float(ours.log_marginal_likelihood_value_)
    their_evidence = float(theirs.log_marginal_likelihood_value_)
    our_time = float(np.median(our_times))
    our_evaluations = ours.optimizer_report_.n_evaluations
    figures = Figures(
        f"A full fit at n = {n}, {COLUMNS} columns, ARD, Laplace, logit, no restarts",
        ("who", "time", "evaluations", "time / evaluation", "log evidence"),
        notes=[
            "both start at unit variance and length-scales of sqrt(d), within scikit-learn's "
            "default bounds",
            f"ours was fitted before and after scikit-learn's: {min(our_times):.3g} to "
            f"{max(our_times):.3g} s, the table has the median",
        ],
    )
    for who, spent, evaluations, evidence in (
        ("ours", our_time, our_evaluations, our_evidence),
        ("scikit-learn", their_time, counting.evaluations, their_evidence),
    ):
        figures.rows.append(
            (
                who,
                seconds(spent),
                str(evaluations),
                seconds(spent / max(evaluations, 1)),
                f"{evidence:.6f}",
            )
        )
    figures.records = [
        {
            "who": "ours",
            "n": n,
            "d": COLUMNS,
            "seconds": our_times,
            "evaluations": our_evaluations,
            "log_evidence": our_evidence,
            "kernel": str(ours.kernel_),
        },
        {
            "who": "scikit-learn",
            "n": n,
            "d": COLUMNS,
            "seconds": [their_time],
            "evaluations": counting.evaluations,
            "log_evidence": their_evidence,
            "kernel": str(theirs.kernel_),
        },
    ]
    figures.limits = [
        Limit("scikit-learn's time by ours", their_time / our_time, SPEED_LIMIT, at_most=False),
        Limit(
            "our log evidence less scikit-learn's",
            our_evidence - their_evidence,
            -EVIDENCE_TOLERANCE * abs(their_evidence),
            at_most=False,
        ),
    ]
    return figures
