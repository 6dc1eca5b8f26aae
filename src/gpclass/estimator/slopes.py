"""Derivatives of class probabilities by the inputs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpclass.estimator.binary_model import BinaryModel
from gpclass.estimator.inputs import FloatTable, Inputs, MixedTable
from gpclass.estimator.inputs.columns import listed
from gpclass.estimator.model import CHUNK, Setting, cross_covariance
from gpclass.inference import SitePosterior
from gpclass.kernels import diagonal_slope, input_pullback
from gpclass.likelihoods import Likelihood
from gpclass.linalg import blocks

Array = NDArray[np.float64]


def probability_slopes(models: Sequence[Any], X: Any) -> Array:
    """``dP(c) / dz`` of m rows as the kernel takes them, shape (m, C, k).

    Raises
    ------
    ValueError
        For what has no such derivative here: a joint model of many classes, one against one, a
        posterior held as samples, a kernel without a rule.
    """
    if not all(isinstance(model, BinaryModel) and model.problem.rows is None for model in models):
        raise ValueError(
            "the gradient of class probabilities by the inputs is there for two classes, and for "
            "more with multi_class='one_vs_rest'"
        )
    p, slopes = zip(*(_of_binary(model, X) for model in models), strict=True)
    if len(models) == 1:
        return np.stack([-slopes[0], slopes[0]], axis=1)
    odds, slope = np.stack(p, axis=1), np.stack(slopes, axis=1)
    total = odds.sum(axis=1)[:, None, None]
    P = odds[:, :, None] / total
    return np.asarray((slope - P * slope.sum(axis=1, keepdims=True)) / total)


def _of_binary(model: BinaryModel, X: Array) -> tuple[Array, Array]:
    """P(+1) and its gradient by the rows, averaged over the settings, (m,) and (m, k)."""
    weights, found = model.at_settings(_at_setting, X)
    p, slopes = (np.stack(part) for part in zip(*found, strict=True))
    return weights @ p, np.einsum("s,sik->ik", weights, slopes)


def _at_setting(setting: Setting, X: Array) -> tuple[Array, Array]:
    """By the latent's mean and variance: ``dm = dk^T a``, ``dv = dk(z, z) - 2 dk^T R k``."""
    _, problem, posterior = setting
    if not isinstance(posterior, SitePosterior):
        raise ValueError("the gradient needs a Gaussian posterior: inference='mcmc' has samples")
    kernel, inputs, factor = problem.kernel, problem.inputs, posterior.factor
    p, slope = np.empty(len(X)), np.empty(X.shape)
    for rows in blocks(len(X), CHUNK):
        Z = X[rows]
        K_cross, k_diag = cross_covariance(problem, Z)
        reduced = np.stack([factor.solve(factor.tau * column) for column in K_cross.T], axis=1)
        weights = np.repeat(posterior.mean_weights[:, None], len(Z), axis=1)
        by_mean = input_pullback(kernel, inputs, Z, weights)
        by_variance = diagonal_slope(kernel, Z) - 2.0 * input_pullback(kernel, inputs, Z, reduced)
        mean, variance = posterior.predict(K_cross, k_diag)
        p[rows], d_mean, d_variance = _proba_slopes(problem.likelihood, mean, variance)
        slope[rows] = d_mean[:, None] * by_mean + d_variance[:, None] * by_variance
    return p, slope


def _proba_slopes(likelihood: Likelihood, mean: Array, variance: Array) -> tuple[Array, ...]:
    """P(+1) and its derivatives by mean and variance: ``dZ/dv = d2Z/dm2 / 2``."""
    p = likelihood.predict_proba(mean, variance)
    # of the rarer label, whose logarithm keeps its digits
    y = np.where(p > 0.5, -1.0, 1.0)
    rare = likelihood.tilted_moments(y, mean, variance)
    z = np.exp(rare.log_z)
    return p, y * z * rare.d_mean, 0.5 * y * z * (rare.d2_mean + rare.d_mean**2)


def in_units_of_the_table(inputs: Inputs, slopes: Array) -> Array:
    """Derivatives by the columns of X, (m, C, d), from those by the kernel's columns.

    ValueError where X has columns, or entries, that are no numbers, and for other kinds of X.
    """
    if isinstance(inputs, FloatTable):
        return slopes
    if not isinstance(inputs, MixedTable):
        raise ValueError("only a table of numbers has derivatives by its columns")
    refuse_columns(inputs)
    found = np.zeros((*slopes.shape[:2], len(inputs.names)))
    found[:, :, inputs.numeric] = np.ldexp(
        slopes[:, :, : len(inputs.numeric)] / inputs.scales, inputs.exponents
    )
    return found


def refuse_columns(inputs: MixedTable) -> None:
    """Raise the ValueError of columns that are not plain numbers."""
    other = [
        name
        for j, (name, kind) in enumerate(zip(inputs.names, inputs.kinds, strict=True))
        if kind not in ("numbers", "numerals", "nothing") or j in inputs.gaps
    ]
    if other:
        raise ValueError(
            f"the columns {listed(other)} have levels, dates or missing entries, and a derivative "
            "or an export takes numbers alone: give a kernel and a table of numbers"
        )
