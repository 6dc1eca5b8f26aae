"""The temperature of the class probabilities, by the leave-one-out log predictive."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from gpclass.estimator.leave_one_out import log_left_out
from gpclass.estimator.prediction import tempered
from gpclass.montecarlo import Samples

Array = NDArray[np.float64]

# Standard errors that the gain is reduced by, and the deviation of the logarithm's normal prior:
# 95 % between a half and two. Chosen in docs/quality.md.
SURENESS: Final = 2.0
DEVIATION: Final = 0.35
# Beyond this the logarithm is not looked for, and below it the gain is its slope.
FARTHEST: Final = 3.0
NEAREST: Final = 1e-6


def temperature_of(model: Any) -> float:
    """Temperature of a fitted classifier by its argument ``calibration``; see `best_temperature`.

    A row of weight w is w rows, of which one is left out.
    """
    if model.calibration is None:
        return 1.0
    samples = isinstance(model.models_[0].sites, Samples)
    if model.calibration == "auto" and (model.kernel is not None or samples):
        return 1.0
    if len(np.unique(model.y_train_)) < len(model.classes_):
        return 1.0  # of a collection a sample, without the rarest class
    log_p, rows, weights = log_left_out(model, 1.0, one_copy=True)
    return best_temperature(log_p, model.y_train_[rows], weights)


def best_temperature(log_p: Array, codes: NDArray[np.intp], weights: Array) -> float:
    """Temperature T whose gain of log predictive is the largest, less two standard errors of it.

    The gain of a row is ``log p_T(y_i) - log p(y_i)``, where ``p_T`` is the power 1 / T divided by
    its sum; that of all is their sum by the weights. ``log T`` has a normal prior of mean 0 and
    deviation 0.35. T is 1 unless a gain is there that is hardly one by chance; of few rows that are
    all right the error says little, and the prior holds T.

    Parameters
    ----------
    log_p : ndarray of shape (n, C)
        Finite log probabilities of rows that they have not seen.
    codes : ndarray of shape (n,)
    weights : ndarray of shape (n,)
        How often each row is given.

    References
    ----------
    Guo, Pleiss, Sun & Weinberger, *On calibration of modern neural networks*, 2017, for the
    temperature, which they choose on rows that were kept aside.

    Examples
    --------
    >>> log_p, row = np.log(np.tile([0.7, 0.3], (100, 1))), np.arange(100)
    >>> round(best_temperature(log_p, (row % 10 < 1).astype(int), np.ones(100)), 3)
    0.586
    >>> best_temperature(log_p, (row % 4 < 1).astype(int), np.ones(100))
    1.0
    """
    rows, total = np.arange(len(codes)), float(weights.sum())
    if total <= 1.0:
        return 1.0
    share = weights / total
    start = log_p[rows, codes]

    def slope(t: float) -> float:
        """Derivative of the gain less its error and prior, by t = -log T."""
        log_q = tempered(log_p, float(np.exp(-t)))
        gain = log_q[rows, codes] - start
        by_t = np.exp(t) * (start - (np.exp(log_q) * log_p).sum(axis=1))
        away = gain - share @ gain
        spread = float(share @ away**2)
        error = 0.0 if spread == 0.0 else float(share @ (away * by_t)) / np.sqrt(spread)
        scale = total / np.sqrt(total - 1.0)
        return float(total * (share @ by_t) - SURENESS * scale * error - t / DEVIATION**2)

    side = 1.0 if share @ (start - (np.exp(log_p) * log_p).sum(axis=1)) > 0.0 else -1.0

    def along(distance: float) -> float:
        return side * slope(side * distance)

    if along(NEAREST) <= 0.0:
        return 1.0
    if along(FARTHEST) >= 0.0:
        return float(np.exp(-side * FARTHEST))
    return float(np.exp(-side * brentq(along, NEAREST, FARTHEST, xtol=1e-12)))
