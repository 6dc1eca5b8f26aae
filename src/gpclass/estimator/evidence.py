"""The evidence of learnt models as a function of their hyperparameters."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpclass.estimator.binary_model import Model

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
    k = len(models)
    given, shared = _split(theta, models)
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
    gradients = [e.gradient[: len(part)] / k for e, part in zip(evaluations, given, strict=True)]
    gradient = np.sum(gradients, axis=0) if shared else np.concatenate(gradients)
    return EvidenceAt(value, gradient, there)


def _split(theta: Array, models: Sequence[Model]) -> tuple[list[Array], bool]:
    """Theta of each model, and whether all have the one that was given."""
    k = len(models)
    sizes = [len(model.problem.theta) for model in models]
    of_kernel = [model.problem.n_kernel for model in models]
    p, p_kernel = sizes[0], of_kernel[0]
    alike = len(set(sizes)) == len(set(of_kernel)) == 1
    if alike and theta.shape in ((p,), (p_kernel,)):
        return [theta] * k, True
    for parts in (sizes, of_kernel):
        if theta.shape == (sum(parts),):
            return np.split(theta, np.cumsum(parts)[:-1]), False
    if alike:
        lengths = f"{p}" + (f" (or {k * p}, {p} for each of the {k} binary problems)" * (k > 1))
        alone = f"{p_kernel} for the kernel's alone"
    else:
        lengths = f"{sum(sizes)}, {sizes} for the {k} binary problems"
        alone = f"{sum(of_kernel)} for the kernels' alone"
    raise ValueError(
        f"theta must have length {lengths}"
        + (f", or {alone}" if sum(sizes) > sum(of_kernel) else "")
        + f", got shape {theta.shape}"
    )
