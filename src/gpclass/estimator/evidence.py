"""The evidence of learnt models as a function of their hyperparameters."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpclass.estimator.model import Model
from gpclass.learning import Learned, Node
from gpclass.learning.hyperparameters import split

Array = NDArray[np.float64]


class EvidenceAt(NamedTuple):
    """The mean evidence, its gradient if asked for (shaped as theta), and the models there."""

    log_evidence: float
    gradient: Array | None
    models: list[Model]


def evidence_at(models: Sequence[Model], theta: ArrayLike, eval_gradient: bool) -> EvidenceAt:
    """Evaluate the mean evidence of k models, without a prior over hyperparameters.

    ``theta`` has shape (p,), for all models, or (k * p,), each in turn; the likelihood's
    hyperparameters may be left out. TypeError or ValueError otherwise.
    """
    try:
        theta = np.asarray(theta, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"theta must be numbers, got {theta!r}") from error
    given, shared = _of_each(theta, models)
    total, gradients, there = [], [], []
    for model, part in zip(models, given, strict=True):
        problem = model.problem
        full = problem.hyperparameters.completed(part)
        found = problem.evaluate(full, gradient=eval_gradient, init=model.start)
        total.append(found.log_evidence)
        there.append(type(model).of(problem, Learned((Node.of(full, found),))))
        if found.gradient is not None:
            gradients.append(found.gradient[: len(part)] / len(models))
    # numpy's float, as in scikit-learn: a plain one becomes float32 beside a float32
    mean = np.float64(np.mean(total))
    if not eval_gradient:
        return EvidenceAt(mean, None, there)
    gradient = np.sum(gradients, axis=0) if shared else np.concatenate(gradients)
    return EvidenceAt(mean, gradient, there)


def _of_each(theta: Array, models: Sequence[Model]) -> tuple[list[Array], bool]:
    """Theta of each model, and whether all have the one that was given."""
    k = len(models)
    free = [model.problem.hyperparameters for model in models]
    sizes, of_kernel = [len(one.theta) for one in free], [one.n_kernel for one in free]
    p, p_kernel = sizes[0], of_kernel[0]
    alike = len(set(sizes)) == len(set(of_kernel)) == 1
    if alike and theta.shape in ((p,), (p_kernel,)):
        return [theta] * k, True
    for parts in (sizes, of_kernel):
        if theta.shape == (sum(parts),):
            return split(theta, parts), False
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
