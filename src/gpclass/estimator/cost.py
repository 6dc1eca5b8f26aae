"""Time and memory of a fit, estimated before it starts.

Both are lower estimates: a kernel without a rule of `gpclass.kernels.pullback` holds an n x n
matrix for each hyperparameter, and slow kernels and Monte Carlo's draws are not counted.
"""

import time
import warnings
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from gpclass.blocks.base import SIZE
from gpclass.blocks.local import BUDGET
from gpclass.estimator.inducing import InducingPoints
from gpclass.estimator.memory import free_memory
from gpclass.estimator.progress import duration
from gpclass.exceptions import CostWarning, NotEnoughMemoryError
from gpclass.inference import EP, Laplace, TangentBound
from gpclass.inference.joint import MultinomialProbit, Softmax
from gpclass.kernels import uses_precomputed
from gpclass.learning import (
    CentralComposite,
    InducingProblem,
    JointProblem,
    KeepFixed,
    Learner,
    NoUTurn,
    Problem,
)
from gpclass.linalg import product
from gpclass.montecarlo import MonteCarlo

# Bytes and operations. Below both nothing is measured, as that would slow a fit of seconds.
FEW_BYTES: Final = 1e8
FEW_FLOPS: Final = 2e12
# Seconds from which a fit is long enough for a warning.
LONG: Final = 600.0
# Inducing points that are suggested, where there are so many times as many rows.
SUGGESTED: Final = 500
FEWER: Final = 4
# Operations, in n m^2, of forming features that are not kept again, four times an evaluation.
AGAIN: Final = 6.0
# Factorisations run at about this part of the rate of products.
EFFICIENCY: Final = 0.7


class Cost(NamedTuple):
    """Estimated cost of a fit.

    ``n_rows`` are those of the largest problem, ``evaluations`` those of the evidence, ``n_bytes``
    the memory of this process and ``flops`` the operations of all of them, on so many ``threads``
    where a Dask collection has the rows. ``advice`` says what needs less, and ``cheaper`` what that
    costs, where this is known.
    """

    n_rows: int
    evaluations: int
    n_bytes: float
    flops: float
    advice: str
    cheaper: "Cost | None" = None
    threads: int = 1

    @classmethod
    def of(
        cls,
        problems: Sequence[Problem],
        learner: Learner,
        starts: Sequence[NDArray[np.float64]],
        n_jobs: int | None,
        points: InducingPoints | None = None,
    ) -> "Cost":
        """Estimate the cost of a fit of problems, each from ``starts`` of shape (r, p).

        ``points`` will hold their priors; None: they are exact.
        """
        n_starts, n_free = starts[0].shape
        tasks = len(problems) if len(problems) > 1 else n_starts
        at_a_time = 1 if tasks == 1 else min(tasks, effective_n_jobs(n_jobs))
        m = None if points is None else points.count
        costs = [
            _of_evaluation(problem) if m is None else _by_points(problem, m) for problem in problems
        ]
        runs = 1 if isinstance(learner, KeepFixed) else n_starts * _usual(n_free)
        n_rows, first_runs, kept = max(problem.n_rows for problem in problems), 0, 0.0
        if points is not None and points.needs_first_search(learner):
            first_runs, runs = runs, _usual(n_free)
        if isinstance(learner, CentralComposite | NoUTurn):
            runs += learner.n_evaluations(n_free)
            # K and a factor of each setting, or U, for predictions
            each = (
                16.0 * one.n_sites**2 if m is None else 8.0 * one.n_sites * m for one in problems
            )
            kept = learner.n_settings(n_free) * sum(each)
        cheaper = None
        if m is None and _takes_points(problems):
            cheaper = cls.of(problems, learner, starts, n_jobs, InducingPoints(SUGGESTED))
        sources = [getattr(one, "source", None) for one in problems]
        share = 0.0 if points is None else first_runs * min(1.0, points.first_rows / n_rows)
        return cls(
            n_rows,
            (runs + first_runs) * len(problems),
            at_a_time * max(n_bytes for n_bytes, _ in costs) + kept,
            (runs + share) * sum(flops for _, flops in costs),
            _advice(problems, m),
            cheaper,
            max(1 if one is None else one.n_threads for one in sources),
        )

    def warn(self) -> None:
        """Warn of a fit that is long or needs half of the memory; refuse what needs more than all.

        NotEnoughMemoryError or CostWarning. Where the free memory is unknown it is not judged.
        """
        if self.n_bytes < FEW_BYTES and self.flops < FEW_FLOPS:
            return
        free, rate = free_memory(), EFFICIENCY * _rate() * self.threads
        what = "" if self.cheaper is None else " for the exact method"
        needs = f"n = {self.n_rows} needs {_size(self.n_bytes)}{what}"
        advice = self.advice
        if self.cheaper is not None:
            seconds = duration(self.cheaper.flops / rate)
            advice = f"{advice} (about {_size(self.cheaper.n_bytes)}, {seconds})"
        if free is not None and self.n_bytes > free:
            raise NotEnoughMemoryError(
                f"{needs}, and this machine has {_size(free)} free; {advice}"
            )
        reasons = []
        if free is not None and self.n_bytes > 0.5 * free:
            reasons.append(f"{needs} of the {_size(free)} that are free")
        if self.flops / rate > LONG:
            reasons.append(
                f"n = {self.n_rows} may take {duration(self.flops / rate)} ({self.evaluations} "
                "evaluations of the evidence are usual)"
            )
        if reasons:
            warnings.warn(f"{'; '.join([*reasons, advice])}", CostWarning, stacklevel=4)


def _usual(n_free: int) -> int:
    """Evaluations of a search over so many: 14 for 2, 20 to 53 for 11 to 13, 99 for 31."""
    return 12 + 2 * min(n_free, 40)


def _of_evaluation(problem: Problem) -> tuple[float, float]:
    """Bytes and operations of one evidence with its gradient.

    In n x n matrices and in floors of n^3 operations, as docs/benchmarks.md measures them.
    """
    n, method = problem.n_rows, problem.inference
    if isinstance(problem, JointProblem):
        C = problem.n_classes
        if isinstance(problem.scheme, Softmax):
            return 8.0 * (C + 5) * n**2, 2.5 * (C + 1) * n**3
        if isinstance(problem.scheme, MultinomialProbit):
            return 8.0 * (2 * C + 6) * n**2, 12.0 * (C + 1) * n**3
        n = problem.n_sites
    matrices, floors = (4.0, 2.0) if isinstance(method, Laplace) else (5.5, 6.0)
    if isinstance(method, EP | TangentBound):
        floors = 4.0
    return 8.0 * matrices * n**2, floors * n**3


def _by_points(problem: Problem, m: int) -> tuple[float, float]:
    """Bytes and operations of one evidence with its gradient, by m inducing points.

    In n x m and m x m matrices and in n m^2 operations, measured at 20,000 rows of 10 columns, 100
    and 500 points; what is linear in m costs as much as 100 more of them.
    """
    n, method = problem.n_rows, problem.inference
    m = min(m, n)
    if isinstance(problem, InducingProblem):
        # features where they are kept, and a few blocks; of a collection those of its sample
        C, here = problem.terms.n_latents, problem.in_memory.n_rows
        fits = 8.0 * n * m <= BUDGET
        kept = 8.0 * here * m if fits or here < n else 0.0
        floors = 10.0 * C + (0.0 if fits else AGAIN)
        return kept + 32.0 * SIZE * m + 8.0 * (12.0 * C + 6.0) * m**2, floors * n * m * (m + 100)
    floors = {Laplace: 12.0, EP: 12.0, TangentBound: 24.0}.get(type(method), 48.0)
    if isinstance(problem, JointProblem):  # one against the rest
        floors *= problem.n_classes
    return 8.0 * (2.5 * n * m + 6.0 * m**2), floors * n * m * (m + 100)


def _takes_points(problems: Sequence[Problem]) -> bool:
    """Whether inducing points are an answer: so many rows of numbers that they are fewer by far."""
    first = problems[0]
    numbers = all(one.requires_vector_input and not uses_precomputed(one) for one in first.kernels)
    return (
        numbers
        and first.n_rows >= FEWER * SUGGESTED
        and not isinstance(first.inference, MonteCarlo)
    )


def _advice(problems: Sequence[Problem], m: int | None) -> str:
    """What needs less time and memory."""
    if m is not None:
        return "take fewer inducing points, or a subset of the rows"
    if _takes_points(problems):
        several = "multi_class='one_vs_rest' and " * isinstance(problems[0], JointProblem)
        return f"set {several}inducing={SUGGESTED}"
    less = ", or inference='laplace', which needs less"
    return "take a subset of the rows" + less * (not isinstance(problems[0].inference, Laplace))


def _rate() -> float:
    """Operations a second of a product of matrices, the best of three: 30 ms."""
    A = np.ones((768, 768))
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        product(A, A)
        best = min(best, time.perf_counter() - start)
    return 2.0 * 768**3 / best


def _size(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:.0f} GB" if n_bytes > 9.5e9 else f"{n_bytes / 1e9:.1f} GB"
