"""Derivatives of class probabilities by the inputs."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpclass.estimator.binary_model import BinaryModel
from gpclass.estimator.decomposition import Decomposition
from gpclass.estimator.inputs import FloatTable, Inputs, MixedTable
from gpclass.estimator.inputs.columns import listed
from gpclass.estimator.joint_model import JointModel
from gpclass.estimator.model import CHUNK, Setting, cross_covariance
from gpclass.inference import SitePosterior
from gpclass.inference.joint import LatentPosterior
from gpclass.inference.weights import ClassWeightPrediction, WeightPrediction
from gpclass.kernels import diagonal_slope, input_pullback
from gpclass.likelihoods import Likelihood
from gpclass.linalg import blocks, product
from gpclass.priors.differences import one_a_class

Array = NDArray[np.float64]

# Numbers in the (n, C, rows, C) arrays worked on together: 40 MB.
LARGEST: Final = 5_000_000


def probability_slopes(
    models: Sequence[Any], decomposition: Decomposition, n_classes: int, X: Any
) -> Array:
    """``dP(c) / dz`` of m rows as the kernel takes them, shape (m, C, k).

    Raises
    ------
    ValueError
        For what has no such derivative here: a posterior held as samples, a kernel without a rule.
    """
    first = models[0]
    if isinstance(first, JointModel):
        weights, found = first.at_settings(_joint_at_setting, X)
        return np.asarray(np.einsum("s,sick->ick", weights, np.stack(found)))
    p, slopes = zip(*(_of_binary(model, X) for model in models), strict=True)
    return decomposition.combine_slopes(np.stack(p, axis=1), np.stack(slopes, axis=1), n_classes)


def _of_binary(model: BinaryModel, X: Array) -> tuple[Array, Array]:
    """P(+1) and its gradient by the rows, averaged over the settings, (m,) and (m, k)."""
    weights, found = model.at_settings(_at_setting, X)
    p, slopes = (np.stack(part) for part in zip(*found, strict=True))
    return weights @ p, np.einsum("s,sik->ik", weights, slopes)


def _at_setting(setting: Setting, X: Array) -> tuple[Array, Array]:
    """By the latent's mean and variance: ``dm = dk^T a``, ``dv = dk(z, z) - 2 dk^T R k``."""
    _, problem, posterior = setting
    if not isinstance(posterior, SitePosterior | WeightPrediction):
        raise ValueError("the gradient needs a Gaussian posterior: inference='mcmc' has samples")
    kernel, inputs = problem.kernel, problem.points
    p, slope = np.empty(len(X)), np.empty(X.shape)
    R = explained_precision(posterior)
    for rows in blocks(len(X), CHUNK):
        Z = X[rows]
        K_cross, k_diag = cross_covariance(problem, Z)
        reduced = product(R, K_cross)
        weights = np.repeat(posterior.new_weights[:, None], len(Z), axis=1)
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


def _joint_at_setting(setting: Setting, X: Array) -> Array:
    """By the latents' means and covariances, ``dP(c) / dz``, shape (m, C, k).

    With a cotangent A of the means and a symmetric B of the covariances, the cotangent of class c's
    ``k_c`` is ``a_c A_c - 2 sum_d B_cd F_cd k_d``, with the F of `explained_precisions`.
    """
    _, problem, posterior = setting
    C, inputs, kernels = problem.n_classes, problem.points, problem.kernels
    slope = np.zeros((len(X), C, X.shape[1]))
    n = len(inputs)
    F = explained_precisions(posterior)
    by_class = [np.ascontiguousarray(F[..., d]).reshape(n * C, n) for d in range(C)]
    for rows in blocks(len(X), max(1, LARGEST // (C * C * n))):
        Z = X[rows]
        K_cross, k_diag = cross_covariance(problem, Z)
        flows = problem.scheme.flows(*posterior.predict(K_cross, k_diag), problem.likelihood)
        by_mean, by_covariance = flows.by_mean(), flows.by_covariance()
        crosses = one_a_class(K_cross, C, n)
        parts = [product(F_d, K) for F_d, K in zip(by_class, crosses, strict=True)]
        explained = np.stack([part.reshape(n, C, -1) for part in parts], axis=3)
        for k, kernel in enumerate(kernels):
            own = slice(None) if len(kernels) == 1 else slice(k, k + 1)
            own_slope = diagonal_slope(kernel, Z)
            for p in range(C):
                A, B = by_mean[:, p, own], by_covariance[:, p, own]
                G = np.einsum("nc,ic->ni", posterior.mean_weights[:, own], A)
                G -= 2.0 * np.einsum("ncid,icd->ni", explained[:, own], B)
                by_own = np.einsum("icc->i", B[:, :, own])
                slope[rows, p] += input_pullback(kernel, inputs, Z, G)
                slope[rows, p] += by_own[:, None] * own_slope
    return slope


def explained_precision(posterior: SitePosterior | WeightPrediction) -> Array:
    """R of shape (r, r): the latent variance is ``k(z, z) - k^T R k`` (RW06 eq. 3.24).

    Minus what the posterior leaves of inputs whose covariances with the problem's r points are unit
    vectors and that have no variance of their own.
    """
    if isinstance(posterior, WeightPrediction):
        return posterior.explained_precision()
    return posterior.factor.explained_precision(len(posterior.new_weights))


def explained_precisions(posterior: LatentPosterior | ClassWeightPrediction) -> Array:
    """F of shape (n, C, n, C): ``S_cd = [c = d] k_c(z, z) - k_c^T F_cd k_d`` at new inputs.

    As `explained_precision`, of the classes.
    """
    if isinstance(posterior, ClassWeightPrediction):
        return posterior.explained_precisions()
    n = len(posterior.mean_weights)
    return -posterior.joint(np.eye(n), np.zeros((n, n)))[1]


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


def refuse_columns(inputs: MixedTable, *, gaps: bool = False) -> None:
    """Raise the ValueError of columns that are not numbers, or have gaps that are not allowed."""
    other = [
        name
        for j, (name, kind) in enumerate(zip(inputs.names, inputs.kinds, strict=True))
        if kind not in ("numbers", "numerals", "nothing") or (j in inputs.gaps and not gaps)
    ]
    if other:
        missing = "" if gaps else " or missing entries"
        raise ValueError(
            f"the columns {listed(other)} have levels, dates{missing}, and a derivative or an "
            "export takes numbers alone: make them numbers, or give a kernel and a table of numbers"
        )
