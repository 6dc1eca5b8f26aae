"""From the problems of a table to learnt models: starts, learning, warnings."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_random_state

from gpclass.estimator.binary_model import BinaryModel
from gpclass.estimator.bounds import warn_of_bounds
from gpclass.estimator.checkpoint import Checkpoint
from gpclass.estimator.cost import Cost
from gpclass.estimator.division import Division
from gpclass.estimator.inducing import InducingPoints, coarse_learner
from gpclass.estimator.inputs import is_precomputed
from gpclass.estimator.joint_model import JointModel
from gpclass.estimator.model import Model
from gpclass.estimator.progress import EvidenceProgress
from gpclass.estimator.report import OptimizerReport, ReportedRun, names_of_theta
from gpclass.exceptions import ConvergenceWarning, JitterWarning
from gpclass.kernels import Precomputed, default_kernel, resolved
from gpclass.learning import (
    HyperPrior,
    InducingProblem,
    JointProblem,
    KeepFixed,
    Learned,
    Learner,
    Problem,
    draw_starts,
    learn_all,
    spread_sites,
    weak_hyperprior,
)
from gpclass.linalg import Array
from gpclass.priors.points import MOST_CANDIDATES, TRACE_LEFT

# Rows by which it is said whether inducing points serve other rows too.
ROWS_OF_TRACE: Final = 1000


def starting_kernels(
    kernel: object,
    X: Any,
    names: Sequence[str] | None = None,
    shared: Sequence[int] | None = None,
) -> list[Kernel]:
    """Kernels that learning starts from: one for all classes, or one a class.

    ``names`` are those of the columns of X, for kernels that name some of them; ``shared`` says
    which of its columns have a length-scale of the default kernel together.
    """
    if kernel is None:
        return [default_kernel(X, shared)]
    if isinstance(kernel, list | tuple):
        return [resolved(clone(one), names) for one in kernel]
    return [Precomputed() if is_precomputed(kernel) else resolved(clone(kernel), names)]


def learn_models(
    estimator: BaseEstimator,
    division: Division,
    learner: Learner,
    points: InducingPoints | None = None,
) -> tuple[list[Model], OptimizerReport]:
    """Learn the problems with the settings of the estimator, and report every run.

    With ``warm_start`` inference starts from the sites of the last fit, and learning from its
    hyperparameters, where these fit. Where ``points`` are chosen by the kernel, they are chosen
    again by the one that was learnt, and learning goes on from there.
    """
    problems = division.problems
    n_restarts = 0 if isinstance(learner, KeepFixed) else int(estimator.n_restarts_optimizer)
    random_state = check_random_state(estimator.random_state)
    last = getattr(estimator, "models_", []) if estimator.warm_start else []
    starts = [draw_starts(problem, n_restarts, random_state) for problem in problems]
    inits: list[object] = [None] * len(problems)
    cost = Cost.of(problems, learner, starts, estimator.n_jobs, points)
    cost.warn()
    if len(last) == len(problems):
        problems = [_with_points_of(*one, points) for one in zip(problems, last, strict=True)]
        if all(isinstance(one, InducingProblem) and one.Z is not None for one in problems):
            points = None
        inits = [_sites_for(problem, model) for problem, model in zip(problems, last, strict=True)]
        for start, problem, model in zip(starts, problems, last, strict=True):
            start[0] = _theta_for(problem, model)
    checkpoint = Checkpoint.of(estimator, problems)
    resumed = checkpoint.theta() if checkpoint is not None and estimator.warm_start else None
    if resumed is not None:
        starts[0][0] = resumed
    learners = [_with_hyperprior(estimator, learner, problem) for problem in problems]
    runs: list[ReportedRun] = []
    source = getattr(problems[0], "source", None)
    passes = None if source is None else lambda: int(source.passes)
    with EvidenceProgress(int(estimator.verbose), cost.evaluations, passes) as progress:
        update = progress.update if checkpoint is None else checkpoint.after(progress.update)
        learn = partial(learn_all, n_jobs=estimator.n_jobs, progress=update)
        if points is not None and points.needs_first_search(learner) and resumed is None:
            few = points.placed(points.for_first_search(problems), starts)
            first = learn(
                [coarse_learner(one) for one in learners], few, starts, _fitting(few, inits)
            )
            runs += _reported(division.names, few, first)
            starts = [one.theta[None] for one in first]
            inits = _fitting(problems, [one.best.sites for one in first])
            progress.forget_best()
        if points is not None:
            problems = points.placed(problems, starts)
        learned = learn(learners, problems, starts, inits)
    runs += _reported(division.names, problems, learned)
    models: list[Model] = [
        _model_of(problem).of(problem, result)
        for problem, result in zip(problems, learned, strict=True)
    ]
    names = names_of_theta(problems, listed=division.kernel_a_class)
    return models, OptimizerReport(names, tuple(runs))


def _reported(
    names: Sequence[str], problems: Sequence[Problem], learned: Sequence[Learned]
) -> list[ReportedRun]:
    """Every run of what was learnt."""
    return [
        ReportedRun(name, run, names_of_theta([problem], listed=False))
        for name, problem, result in zip(names, problems, learned, strict=True)
        for run in result.runs
    ]


def _model_of(problem: Problem) -> type[JointModel] | type[BinaryModel]:
    """What predicts: of all classes together, or of two."""
    joint = isinstance(problem, JointProblem) or (
        isinstance(problem, InducingProblem) and problem.n_classes > 2
    )
    return JointModel if joint else BinaryModel


def _with_points_of(problem: Problem, model: Model, points: InducingPoints | None) -> Problem:
    """The problem with the inducing points of a learnt model, whose sites are about them.

    The problem itself where there are none, where other points are asked for, or where those of the
    model leave more of these rows' variance than of those that they were chosen for.
    """
    old = model.problem
    if points is None or not (
        isinstance(problem, InducingProblem) and isinstance(old, InducingProblem)
    ):
        return problem
    if isinstance(points.given, int) and len(old.Z) != points.given:
        return problem
    if points.rows is not None:
        return problem.placed(problem.theta, points.rows, points.seed)
    alike = model.problem.hyperparameters.names == problem.hyperparameters.names
    if not alike or np.shape(problem.inputs)[1:] != old.Z.shape[1:]:
        return problem
    placed = problem.placed(problem.theta, old.Z, points.seed)
    left = placed.at(_theta_for(problem, model)).trace_left(ROWS_OF_TRACE)
    serve = left <= max(TRACE_LEFT, 2.0 * old.trace_left(ROWS_OF_TRACE))
    return placed if serve else problem


def _fitting(problems: Sequence[Problem], inits: Sequence[Any]) -> list[object]:
    """Sites to start from where they are of as many rows, else None."""
    return [
        init if init is not None and len(init) == problem.n_sites else None
        for problem, init in zip(problems, inits, strict=True)
    ]


def _with_hyperprior(estimator: BaseEstimator, learner: Learner, problem: Problem) -> Learner:
    """The learner with the prior that the estimator's argument names for a problem."""
    wanted = estimator.hyperprior
    if wanted is None or isinstance(learner, KeepFixed):
        return learner
    if not isinstance(wanted, HyperPrior):
        own = getattr(learner, "hyperprior", learner)
        if wanted == "auto" and (estimator.kernel is not None or own is not None):
            return learner
        example = problem
        if isinstance(problem, InducingProblem) and problem.source is None:
            # rows are sorted: 1 s for 200,000 of them
            example = problem.sampled(MOST_CANDIDATES) or problem
        wanted = weak_hyperprior(problem.hyperparameters, example.inputs)
    return replace(learner, hyperprior=wanted)  # type: ignore[type-var]


def _theta_for(problem: Problem, model: Model) -> Array:
    """Hyperparameters of a learnt model within the bounds of a problem that has the same ones."""
    if model.problem.hyperparameters.names != problem.hyperparameters.names:
        return problem.theta
    return np.clip(model.learned.theta, *problem.bounds.T)


def _sites_for(problem: Problem, model: Model) -> Any:
    """Sites of a learnt model where they fit a problem with the same rows or more, else None.

    Rows that were added stand last; they start at the mean of the sites of their class.
    """
    old, sites = model.problem, model.start
    if sites is None or type(old) is not type(problem):
        return None
    if len(sites) == problem.n_sites:
        return sites
    k = old.n_rows
    alike = len(sites) * problem.n_rows == problem.n_sites * k
    if not (alike and k < problem.n_rows and np.array_equal(problem.labels[:k], old.labels)):
        return None
    return spread_sites(sites, problem.labels, np.arange(k))


def warn_of_fit(names: Sequence[str], models: Sequence[Model], *, bounds: bool) -> None:
    """Warn of jitter, of inferences that did not converge, and of values on a bound."""
    for name, model in zip(names, models, strict=True):
        jitter = model.problem.jitter
        if jitter > 0:
            warnings.warn(
                f"{jitter:.3g} was added to the diagonal of the kernel "
                f"{model.problem.kernel} for {name}: its values are so large that their "
                "rounding alone could make its matrix indefinite; scale the columns of X",
                JitterWarning,
                stacklevel=3,
            )
        if not model.outcome.converged:
            warnings.warn(
                f"inference ({name}) {model.outcome.value}", ConvergenceWarning, stacklevel=3
            )
    if bounds:
        warn_of_bounds(names, models)
