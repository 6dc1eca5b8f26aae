"""The argument ``inducing``: what it may be, and the inducing points of a problem."""

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

import numpy as np
from sklearn.base import BaseEstimator

from gpclass.estimator.inputs import CovarianceMatrix, Inputs, Objects
from gpclass.kernels import take
from gpclass.learning import (
    BinaryProblem,
    CentralComposite,
    KeepFixed,
    Learner,
    MaximiseEvidence,
    NoUTurn,
)
from gpclass.linalg import Array
from gpclass.priors import Inducing
from gpclass.priors.points import choose_inducing

# Rows that inducing points are chosen from: 20 s for 2000 points.
MOST_CANDIDATES: Final = 20_000


@final
@dataclass(frozen=True, eq=False)
class InducingPoints:
    """Inducing points as they were given: a number, or m rows as the kernels take them."""

    given: int | Array

    @property
    def count(self) -> int:
        """How many, at most."""
        return self.given if isinstance(self.given, int) else len(self.given)

    def chosen_again(self, learner: Learner) -> bool:
        """Whether what is learnt changes them: a number, and not a fixed kernel."""
        return isinstance(self.given, int) and not isinstance(learner, KeepFixed)

    def placed(self, problems: Sequence[Any], starts: Sequence[Array]) -> list[Any]:
        """The binary problems with FITC's prior, by the kernels at the first of their starts."""
        return [self._place(one, at[0]) for one, at in zip(problems, starts, strict=True)]

    def _place(self, problem: BinaryProblem, theta: Array) -> BinaryProblem:
        """With rows that leave little variance: of many, a sample that is always the same."""
        if not isinstance(self.given, int):
            return replace(problem, prior_form=Inducing(self.given))
        kernel, X = problem.at(theta).kernel, problem.inputs
        if len(X) > MOST_CANDIDATES:
            drawn = np.random.default_rng(0).choice(len(X), MOST_CANDIDATES, replace=False)
            X = take(kernel, X, np.sort(drawn))
        rows = choose_inducing(kernel, X, self.given).rows
        return replace(problem, prior_form=Inducing(np.array(take(kernel, X, rows))))


def first_learner(learner: Learner) -> Learner:
    """What finds the kernel that points are chosen again by: of averages, their centre."""
    if isinstance(learner, CentralComposite | NoUTurn):
        return MaximiseEvidence(learner.optimizer, learner.hyperprior, learner.settings)
    return learner


def check_inducing(inducing: Any) -> None:
    """Refuse what is neither None, nor a positive integer, nor rows; X is not needed for it."""
    if inducing is None:
        return
    wanted = "expected None, a number of inducing points, or an array (m, d) of them, rows like X's"
    if isinstance(inducing, bool | np.bool_ | str) or (
        np.ndim(inducing) == 0 and not isinstance(inducing, numbers.Integral)
    ):
        raise TypeError(f"inducing={inducing!r}: {wanted}")
    if isinstance(inducing, numbers.Integral) and inducing < 1:
        raise ValueError(f"inducing={inducing!r} must be at least 1: {wanted}")


def inducing_points(
    inducing: Any, inputs: Inputs, estimator: BaseEstimator, n_rows: int
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
    if isinstance(inducing, numbers.Integral):
        points = InducingPoints(int(inducing))
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
    if isinstance(inducing, numbers.Integral):
        return repr(inducing)
    return f"<{type(inducing).__name__} of {len(inducing)} rows>"
