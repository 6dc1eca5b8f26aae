"""The evidence of learnt models as a function of their hyperparameters."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpclass.model import Model

Array = NDArray[np.float64]


class EvidenceAt(NamedTuple):
    """Mean evidence of the models at other hyperparameters, and the models there.

    ``log_evidence`` is a numpy number, as scikit-learn's is. ``gradient`` has the shape of the
    theta that was given; None where it was not asked for.
    """

    log_evidence: Any
    gradient: Array | None
    models: list[Any]


def evidence_at(models: Sequence[Model], theta: ArrayLike, eval_gradient: bool) -> EvidenceAt:
    """Evaluate the mean evidence of k models.

    Parameters
    ----------
    models : sequence of k Model
    theta : array-like of shape (p,), (k * p,), or without the likelihood's hyperparameters
        Of all models, or of each in turn.
    eval_gradient : bool

    Raises
    ------
    TypeError
        For a theta that is no numbers.
    ValueError
        For a theta of another length.
    """
    try:
        theta = np.asarray(theta, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"theta must be numbers, got {theta!r}") from error
    k, first = len(models), models[0].problem
    p, p_kernel = len(first.theta), first.n_kernel
    if theta.shape not in ((p,), (k * p,), (p_kernel,), (k * p_kernel,)):
        raise ValueError(
            f"theta must have length {p}"
            + (f" (or {k * p}, {p} for each of the {k} binary problems)" if k > 1 else "")
            + (f", or {p_kernel} for the kernel's alone" if p > p_kernel else "")
            + f", got shape {theta.shape}"
        )
    shared = theta.shape in ((p,), (p_kernel,))
    given = np.tile(theta, (k, 1)) if shared else theta.reshape(k, -1)
    thetas = [
        np.concatenate([t, model.problem.theta[len(t) :]])
        for t, model in zip(given, models, strict=True)
    ]
    evaluations = [
        model.problem.evaluate(t, gradient=eval_gradient, init=model.start)
        for model, t in zip(models, thetas, strict=True)
    ]
    there = [
        type(model).of(model.problem.at(t), evaluation.approximation)
        for model, t, evaluation in zip(models, thetas, evaluations, strict=True)
    ]
    value = np.mean([e.log_evidence for e in evaluations])
    if not eval_gradient:
        return EvidenceAt(value, None, there)
    gradients = np.array([e.gradient for e in evaluations])[:, : given.shape[1]] / k
    return EvidenceAt(value, gradients.sum(axis=0) if shared else gradients.ravel(), there)
