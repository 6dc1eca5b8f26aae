"""What learnt models say of new rows: probabilities, latents and draws of all classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from gpclass.estimator.binary_model import BinaryModel, log_probabilities
from gpclass.estimator.decomposition import Decomposition, OneVsOne, OneVsRest
from gpclass.estimator.joint_model import JointModel, probabilities_of

Array = NDArray[np.float64]
Models = Sequence[BinaryModel | JointModel]

# Two classes have one latent f; as latents of the classes, f / 2 is the second's and -f / 2 the
# first's.
HALVES = np.array([-0.5, 0.5])


def predicted(model: BinaryModel | JointModel, X: Any) -> Array:
    """Class probabilities of m rows under a joint model (m, C), logarithms of a binary's (m, 2)."""
    return model.probabilities(X) if isinstance(model, JointModel) else model.log_probabilities(X)


def class_probabilities(
    models: Models, decomposition: Decomposition, n_classes: int, X: Any, temperature: float
) -> Array:
    """Class probabilities at a temperature, shape (m, C)."""
    found = [predicted(model, X) for model in models]
    return combined(models, decomposition, n_classes, found, temperature)


def combined(
    models: Models,
    decomposition: Decomposition,
    n_classes: int,
    found: Sequence[Array],
    temperature: float = 1.0,
) -> Array:
    """Class probabilities, shape (m, C), from what `predicted` says of each model."""
    if temperature != 1.0:
        return np.exp(log_combined(models, decomposition, n_classes, found, temperature))
    if isinstance(models[0], JointModel):
        return found[0]
    return decomposition.combine(np.stack(found, axis=1), n_classes)


def class_log_probabilities(
    models: Models, decomposition: Decomposition, n_classes: int, X: Any, temperature: float
) -> Array:
    """Logarithms of the class probabilities at a temperature, shape (m, C); finite."""
    found = [predicted(model, X) for model in models]
    return log_combined(models, decomposition, n_classes, found, temperature)


def log_combined(
    models: Models,
    decomposition: Decomposition,
    n_classes: int,
    found: Sequence[Array],
    temperature: float = 1.0,
) -> Array:
    """Logarithms of `combined`; finite."""
    if temperature != 1.0:
        return tempered(log_combined(models, decomposition, n_classes, found), temperature)
    if not isinstance(models[0], JointModel) and isinstance(decomposition, OneVsRest):
        if n_classes == 2:
            return found[0]
        log_p = np.stack(found, axis=1)[:, :, 1]
        return np.asarray(log_p - logsumexp(log_p, axis=1, keepdims=True))
    P = combined(models, decomposition, n_classes, found)
    return np.asarray(np.log(np.maximum(P, np.finfo(np.float64).tiny)))


def tempered(log_p: Array, temperature: float) -> Array:
    """Logarithms of ``P^(1/T)``, divided by their sum, of log probabilities (m, C)."""
    # probabilities of any size, whose logarithms stay finite
    log_p = np.maximum(log_p, -1e300) / temperature
    return np.asarray(log_p - logsumexp(log_p, axis=1, keepdims=True))


def tempered_slopes(log_p: Array, slopes: Array, temperature: float) -> Array:
    """Derivatives of P^(1/T), divided by their sum, from those of P, (m, C, k)."""
    P, tempered_P = np.exp(log_p)[:, :, None], np.exp(tempered(log_p, temperature))[:, :, None]
    relative = np.divide(slopes, temperature * P, out=np.zeros_like(slopes), where=P > 0.0)
    return np.asarray(tempered_P * (relative - (tempered_P * relative).sum(axis=1, keepdims=True)))


def map_probabilities(
    models: Models, decomposition: Decomposition, n_classes: int, X: Any
) -> Array:
    """Class probabilities of the latents' means, shape (m, C)."""
    first = models[0]
    if isinstance(first, JointModel):
        mean, covariance = first.latent(X)
        return probabilities_of(first.problem, mean, np.zeros_like(covariance))
    found = []
    for model in models:
        mean, variance = model.latent(X)
        found.append(log_probabilities(model.problem.likelihood, mean, np.zeros_like(variance)))
    return decomposition.combine(np.stack(found, axis=1), n_classes)


def class_latents(
    models: Models, decomposition: Decomposition, n_classes: int, X: Any
) -> tuple[Array, Array]:
    """Means (m, C) and covariances (m, C, C) of the classes' latents; none for one against one."""
    if isinstance(models[0], JointModel):
        return models[0].latent(X)
    _check_latents(decomposition, n_classes)
    found = [model.latent(X) for model in models]
    means, variances = (np.stack(part, axis=1) for part in zip(*found, strict=True))
    if n_classes == 2:
        return means * HALVES, variances[:, :, None] * np.outer(HALVES, HALVES)
    return means, variances[:, :, None] * np.eye(n_classes)


def class_samples(
    models: Models,
    decomposition: Decomposition,
    n_classes: int,
    X: Any,
    n_samples: int,
    rng: np.random.RandomState,
) -> Array:
    """Draws of the classes' latents at all rows together, shape (m, C, n_samples)."""
    if isinstance(models[0], JointModel):
        return models[0].sample(X, n_samples, rng)
    _check_latents(decomposition, n_classes)
    found = np.stack([model.sample(X, n_samples, rng) for model in models], axis=1)
    return found * HALVES[:, None] if n_classes == 2 else found


def _check_latents(decomposition: Decomposition, n_classes: int) -> None:
    if n_classes > 2 and isinstance(decomposition, OneVsOne):
        raise ValueError(
            "one against one has a latent function for each pair of classes, none for a "
            "class: take multi_class='joint', 'differences' or 'one_vs_rest'"
        )
