"""The argument ``inducing``: what it may be, and the inducing points of a problem."""

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

import numpy as np
from sklearn.base import BaseEstimator

from gpclass.estimator.inputs import CovarianceMatrix, Inputs, Objects
from gpclass.learning import (
    BinaryProblem,
    CentralComposite,
    InducingProblem,
    KeepFixed,
    Learner,
    MaximiseEvidence,
    MaximiseLeaveOneOut,
    NoUTurn,
)
from gpclass.learning.inducing import rows_for
from gpclass.linalg import Array
from gpclass.priors import Inducing
from gpclass.priors.base import as_weights
from gpclass.priors.points import MOST, MOST_CANDIDATES, inducing_inputs

# Gain of a step, in nats, at which the coarse first search ends; the points are then chosen again,
# by the kernel that it found.
COARSE: Final = 1e-2


@final
@dataclass(frozen=True, eq=False)
class InducingPoints:
    """Inducing points as they were given: a number, or m rows as the kernels take them.

    None is "auto". ``seed`` draws the rows that points of the variational form are chosen from.
    """

    given: int | Array | None
    seed: int = 0

    @property
    def count(self) -> int:
        """How many, at most."""
        if self.given is None:
            return MOST
        return self.given if isinstance(self.given, int) else len(self.given)

    @property
    def rows(self) -> Array | None:
        """Those that were given, which stay; None where they are chosen."""
        return None if self.given is None or isinstance(self.given, int) else self.given

    def needs_first_search(self, learner: Learner) -> bool:
        """Whether a first search finds the kernel that they are chosen by: not a fixed one."""
        return self.rows is None and not isinstance(learner, KeepFixed)

    @property
    def first_rows(self) -> int:
        """Rows of the coarse first search."""
        return rows_for(self.count)

    def for_first_search(self, problems: Sequence[Any]) -> list[Any]:
        """The problems of the coarse first search, of fewer rows: it saves a third of a fit."""
        return [_thinned(one, self.first_rows) for one in problems]

    def placed(self, problems: Sequence[Any], starts: Sequence[Array]) -> list[Any]:
        """The problems with their points, by the kernels at the first of their starts."""
        return [self._place(one, at[0]) for one, at in zip(problems, starts, strict=True)]

    def _place(self, problem: BinaryProblem | InducingProblem, theta: Array) -> Any:
        """With rows that leave little variance: of many, a sample that is always the same."""
        if isinstance(problem, InducingProblem):
            return problem.placed(theta, self.given, self.seed)
        if self.rows is not None:
            return replace(problem, prior_form=Inducing(self.rows))
        X, weights = problem.inputs, as_weights(problem.weights, problem.n_rows)
        if len(X) > MOST_CANDIDATES:
            drawn = np.random.default_rng(0).choice(len(X), MOST_CANDIDATES, replace=False)
            X, weights = X[drawn], weights[drawn]
        m = None if self.given is None else self.count
        # FITC's evidence is no bound, and it does better with rows
        Z = inducing_inputs(problem.at(theta).kernel, X, weights, m, means=False)
        return replace(problem, prior_form=Inducing(Z))


def _thinned(problem: BinaryProblem | InducingProblem, n_rows: int) -> Any:
    """Every k-th row of each class, about ``n_rows`` of all; of rows in blocks, a random sample."""
    if isinstance(problem, InducingProblem):
        return problem.sampled(n_rows) or problem
    step = problem.n_rows // n_rows
    if step < 2:
        return problem
    classes = [np.flatnonzero(problem.y == label)[::step] for label in (-1.0, 1.0)]
    chosen = np.sort(np.concatenate(classes))
    return replace(
        problem,
        y=problem.y[chosen],
        weights=None if problem.weights is None else problem.weights[chosen],
        rows=chosen if problem.rows is None else problem.rows[chosen],
    )


def coarse_learner(learner: Learner) -> Learner:
    """Learner of the coarse first search: in place of averages, the mode alone."""
    if isinstance(learner, CentralComposite | NoUTurn):
        learner = MaximiseEvidence(learner.optimizer, learner.hyperprior, learner.settings)
    if not isinstance(learner, MaximiseEvidence | MaximiseLeaveOneOut):
        return learner
    return replace(learner, settings=replace(learner.settings, gain=COARSE, max_refinements=0))


def check_inducing(inducing: Any) -> None:
    """Refuse what is none of the values, nor rows; X is not needed for it."""
    if inducing is None or (isinstance(inducing, str) and inducing == "auto"):
        return
    wanted = (
        "expected None, 'auto', a number of inducing points, or an array (m, d) of them, rows like "
        "X's"
    )
    try:
        single = np.ndim(inducing) == 0
    except ValueError as error:
        raise ValueError(f"inducing has rows of different lengths: {wanted}") from error
    if isinstance(inducing, bool | np.bool_ | str) or (
        single and not isinstance(inducing, numbers.Integral)
    ):
        raise TypeError(f"inducing={inducing!r}: {wanted}")
    if isinstance(inducing, numbers.Integral) and inducing < 1:
        raise ValueError(f"inducing={inducing!r} must be at least 1: {wanted}")


def inducing_points(
    inducing: Any, inputs: Inputs, estimator: BaseEstimator, n_rows: int, seed: int
) -> InducingPoints | None:
    """Inducing points of a checked argument, for a table of n rows that ``inputs`` has learnt from.

    ``estimator`` has the columns of that table. ValueError for more points than rows, for points
    that are no rows of such a table, or are equal, and for kernels whose X is no table.
    """
    if inducing is None:
        return None
    if isinstance(inputs, CovarianceMatrix | Objects):
        given = "kernel='precomputed'" if isinstance(inputs, CovarianceMatrix) else "such a kernel"
        raise ValueError(
            f"inducing={_short(inducing)} needs a table X, of which inducing points are rows, and "
            f"{given} takes none: leave inducing=None"
        )
    if isinstance(inducing, str):
        return InducingPoints(None, seed)
    if isinstance(inducing, numbers.Integral):
        points = InducingPoints(int(inducing), seed)
    else:
        try:
            Z = np.array(inputs.transform(estimator, inducing))
        except (TypeError, ValueError) as error:
            raise ValueError(f"inducing cannot be used as rows of X: {error}") from error
        _, first, counts = np.unique(Z, axis=0, return_index=True, return_counts=True)
        if (counts > 1).any():
            i = int(first[counts > 1].min())
            j = int(np.flatnonzero((Z[i] == Z).all(axis=1))[1])
            raise ValueError(f"inducing has equal rows, {i} and {j} (of {len(Z)}): give each once")
        points = InducingPoints(Z)
    if points.count > n_rows:
        raise ValueError(
            f"inducing={_short(inducing)} asks for {points.count} points, and X has {n_rows} rows "
            "(of positive weight): take fewer, or inducing=None, which is exact"
        )
    return points


def _short(inducing: Any) -> str:
    if isinstance(inducing, numbers.Integral | str):
        return repr(inducing)
    return f"<{type(inducing).__name__} of {len(inducing)} rows>"
