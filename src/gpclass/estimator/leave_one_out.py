"""Class probabilities of the training rows, each given all the others."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpclass.estimator.inputs import CovarianceMatrix
from gpclass.estimator.joint_model import JointModel
from gpclass.estimator.prediction import combined, log_combined, predicted

Array = NDArray[np.float64]


def training_rows(model: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows of the training table, as new rows of a fitted classifier."""
    X = model.X_train_
    new = X[rows] if isinstance(X, np.ndarray) else [X[i] for i in rows]
    if isinstance(model._inputs, CovarianceMatrix):
        return np.column_stack([new, np.diagonal(X)[rows]])
    return new


def loo_probabilities(model: Any) -> Array:
    """Class probabilities of all N rows of the training table, each left out, shape (N, C)."""
    rows = np.arange(len(model.y_train_))
    found = _of_each(model, rows, one_copy=False)
    return combined(
        model.models_, model._decomposition, model.n_classes_, found, model.temperature_
    )


def loo_log_loss(model: Any) -> float:
    """Mean of ``-log p(y_i | y_-i)`` by the weights of the fit, in nats."""
    log_p, used, weights = log_left_out(model, model.temperature_, one_copy=False)
    scores = log_p[np.arange(len(used)), model.y_train_[used]]
    return float(-np.average(scores, weights=weights))


def log_left_out(
    model: Any, temperature: float, *, one_copy: bool
) -> tuple[Array, NDArray[np.intp], Array]:
    """Log probabilities (n, C) of the rows that have a weight, those rows, and their weights.

    A row goes with its whole weight, or with one copy of it.
    """
    weights = np.zeros(len(model.y_train_))
    for one in model.models_:
        given = one.problem.weights
        weights[_rows(one)] = 1.0 if given is None else given
    used = np.flatnonzero(weights)
    found = _of_each(model, used, one_copy)
    parts = model.models_, model._decomposition, model.n_classes_
    log_p = log_combined(*parts, found, temperature)
    return log_p, used, weights[used]


def _rows(one: Any) -> Any:
    """Rows of the table that a problem has."""
    return slice(None) if one.problem.rows is None else one.problem.rows


def _of_each(model: Any, rows: NDArray[np.intp], one_copy: bool) -> list[Array]:
    """What each problem says of some rows: of those that are not its own, its prediction."""
    found, n = [], len(model.y_train_)
    for one in model.models_:
        joint = isinstance(one, JointModel)
        own = one.left_out(one_copy)
        table = np.empty((n, own.shape[1]))
        table[_rows(one)] = np.exp(own) if joint else own
        if one.problem.rows is not None:
            others = np.setdiff1d(rows, one.problem.rows)
            if len(others):
                table[others] = predicted(one, training_rows(model, others))
        found.append(table[rows])
    return found
