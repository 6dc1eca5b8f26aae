"""How sure class probabilities are: their intervals from the latent's mean and covariance."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from gpclass.estimator.binary_model import log_probabilities
from gpclass.estimator.joint_model import JointModel, probabilities_of
from gpclass.estimator.prediction import combined

Array = NDArray[np.float64]


class Intervals(NamedTuple):
    """Of m rows and C classes: ends of each probability, and deviations of the latents, (m, C)."""

    lower: Array
    upper: Array
    deviation: Array


def probability_intervals(model: Any, X: Any, confidence: float = 0.95) -> Intervals:
    """Intervals that hold the classes' probabilities, given the latents, so often.

    The latent of a class is ``g = f_c`` less the mean of the other classes' (of two classes the one
    latent, or minus it). An end is the probability of c where g is at its quantile, averaged over
    what g leaves open of the latents; the probability rises with g.

    Parameters
    ----------
    model : GaussianProcessClassifier
        Fitted. One against one has no latent of a class: ValueError.
    X : table of m rows
    confidence : float, default=0.95

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpclass import GaussianProcessClassifier
    >>> from gpclass.estimator.intervals import probability_intervals
    >>> X, y = load_iris(return_X_y=True)
    >>> found = probability_intervals(GaussianProcessClassifier().fit(X, y), X[:1])
    >>> bool(found.lower[0, 0] > 0.5), found.deviation.shape
    (True, (1, 3))
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}.")
    mean, covariance = model.predict_latent(X)
    n_classes = mean.shape[1]
    z = float(ndtri(0.5 + 0.5 * confidence))
    ends = np.empty((2, *mean.shape))
    deviation = np.empty(mean.shape)
    for c in range(n_classes):
        a = np.full(n_classes, -1.0 / (n_classes - 1))
        a[c] = 1.0
        Sa = covariance @ a
        deviation[:, c] = np.sqrt(np.maximum(Sa @ a, 0.0))
        known = deviation[:, c] > 0.0
        # by the root, so that the largest variances do not overflow
        u = np.divide(Sa, deviation[:, [c]], out=np.zeros_like(Sa), where=known[:, None])
        left = covariance - u[:, :, None] * u[:, None, :]
        for end, shift in zip(ends, (-z * u, z * u), strict=True):
            end[:, c] = _given_latents(model, mean + shift, left)[:, c]
    return Intervals(ends[0], ends[1], deviation)


def _given_latents(model: Any, mean: Array, covariance: Array) -> Array:
    """Class probabilities (m, C) where the latents of the classes are N(mean, covariance)."""
    models, n_classes = model.models_, mean.shape[1]
    if isinstance(models[0], JointModel):
        found = [probabilities_of(models[0].problem, mean, covariance)]
        return combined(models, model._decomposition, n_classes, found, model.temperature_)
    if len(models) == 1:
        mean, variances = mean[:, 1:] - mean[:, :1], np.zeros((len(mean), 1))
    else:
        variances = np.diagonal(covariance, axis1=1, axis2=2)
    found = [
        log_probabilities(one.problem.likelihood, mean[:, k], np.maximum(variances[:, k], 0.0))
        for k, one in enumerate(models)
    ]
    return combined(models, model._decomposition, n_classes, found, model.temperature_)
