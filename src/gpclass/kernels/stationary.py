"""Kernels of the distance: RBF, Matern, rational quadratic and periodic."""

import math
from collections.abc import Callable
from typing import NamedTuple, final

import numpy as np
from scipy.special import gamma, kv, kve
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, Kernel, Matern, RationalQuadratic

from gpclass.kernels.distances import Distances
from gpclass.kernels.theta import n_free
from gpclass.kernels.tiles import BoundKernel, LogDifferentiable, binds
from gpclass.linalg import Array, inner

# exp(-700) = 1e-304 and below is taken as 0: there exp is a hundred times slower, as is every
# sum and product with the denormal numbers it would return.
_UNDERFLOW = 700.0


def exp_of_minus(t: Array) -> Array:
    """``exp(-t)`` for t >= 0, in place."""
    np.negative(t, out=t)
    if t.size and t.min() < -_UNDERFLOW:
        vanishes = t < -_UNDERFLOW
        np.copyto(t, 0.0, where=vanishes)
        np.exp(t, out=t)
        np.copyto(t, 0.0, where=vanishes)
        return t
    return np.exp(t, out=t)


class Profile(NamedTuple):
    """``k(r^2)``, overwriting r^2, and ``w = -2 dlog k / d(r^2)``; None: w is 1.

    By the chain rule ``dlog k / dlog l_k = w D_k`` for the k-th length-scale. ``smooth`` says that
    ``dk / d(r^2)`` is bounded at 0.
    """

    value: Callable[[Array], Array]
    weight: Callable[[Array], Array] | None
    smooth: bool


def _rbf(r2: Array) -> Array:
    r2 *= 0.5
    return exp_of_minus(r2)


def _matern12(r2: Array) -> Array:
    return exp_of_minus(np.sqrt(r2, out=r2))


def _matern12_weight(r2: Array) -> Array:
    r = np.sqrt(r2)
    # w D_k = D_k / r -> 0 as r -> 0
    return np.divide(1.0, r, out=np.zeros_like(r), where=r > 0.0)


def _matern32(r2: Array) -> Array:
    s = np.sqrt(r2 * 3.0)
    polynomial = s + 1.0
    polynomial *= exp_of_minus(s)
    return polynomial


def _matern32_weight(r2: Array) -> Array:
    return np.asarray(3.0 / (np.sqrt(r2 * 3.0) + 1.0))


def _matern52(r2: Array) -> Array:
    s = np.sqrt(r2 * 5.0)
    # 1 + s + s^2 / 3 with s^2 = 5 r^2
    polynomial: Array = r2 * (5.0 / 3.0) + s + 1.0
    polynomial *= exp_of_minus(s)
    return polynomial


def _matern52_weight(r2: Array) -> Array:
    s = np.sqrt(r2 * 5.0)
    return np.asarray((s + 1.0) * (5.0 / 3.0) / (r2 * (5.0 / 3.0) + s + 1.0))


def _matern(nu: float) -> Profile:
    """RW06 eq. 4.14: ``2^(1-nu) / Gamma(nu) z^nu K_nu(z)``, ``z = sqrt(2 nu) r``."""

    def argument(r2: Array) -> Array:
        # K_nu is 0 to rounding long before 1e4, and not defined at 1e140
        return np.minimum(np.sqrt(r2 * (2.0 * nu)), 1e4)

    def value(r2: Array) -> Array:
        z = argument(r2)
        bessel = kv(nu, z)
        k: Array = (2.0 ** (1.0 - nu) / gamma(nu)) * z**nu * bessel
        # 0^nu times an infinite K_nu: the limit is 1; the other end: infinite z^nu times 0
        k[(z == 0.0) | (~np.isfinite(k) & (z < 1e-6))] = 1.0
        k[bessel == 0.0] = 0.0
        return k

    def weight(r2: Array) -> Array:
        # d/dz [z^nu K_nu] = -z^nu K_{nu-1}; kve drops the common factor exp(-z)
        z = argument(r2)
        w: Array = 2.0 * nu * kve(nu - 1.0, z) / (z * kve(nu, z))
        # w D_k -> 0 as r -> 0
        w[~np.isfinite(w) & (z < 1e-6)] = 0.0
        return w

    return Profile(value, weight, smooth=False)


_RBF = Profile(_rbf, None, smooth=True)
_MATERN = {
    0.5: Profile(_matern12, _matern12_weight, smooth=False),
    1.5: Profile(_matern32, _matern32_weight, smooth=True),
    2.5: Profile(_matern52, _matern52_weight, smooth=True),
    math.inf: _RBF,
}


@final
class _Radial(LogDifferentiable):
    """``k(r^2)`` with one length-scale or one a column."""

    def __init__(self, kernel: Kernel, X: Array, X_new: Array | None, profile: Profile) -> None:
        self.n_theta = n_free(kernel)
        self._ard = bool(kernel.anisotropic)
        self._profile = profile
        self._distances = Distances(X, X_new, kernel.length_scale, gram=profile.smooth)

    def value(self, rows: slice, cols: slice) -> Array:
        return self._profile.value(self._distances.squared(rows, cols))

    def pull_log(self, rows: slice, cols: slice, M: Array) -> Array:
        if self.n_theta == 0:
            return np.zeros(0)
        weight = self._profile.weight
        if self._ard:
            if weight is not None:
                M = M * weight(self._distances.squared(rows, cols))
            return self._distances.contract(rows, cols, M)
        r2 = self._distances.squared(rows, cols)
        if weight is not None:
            M = M * weight(r2)
        return np.array([inner(M, r2)])


@final
class _RationalQuadratic(LogDifferentiable):
    """``(1 + q)^-alpha``, ``q = r^2 / (2 alpha)`` (RW06 eq. 4.19)."""

    def __init__(self, kernel: Kernel, X: Array, X_new: Array | None) -> None:
        self.n_theta = n_free(kernel)
        self._alpha = float(kernel.alpha)
        settings = kernel.hyperparameter_alpha, kernel.hyperparameter_length_scale
        self._free = [not setting.fixed for setting in settings]
        self._distances = Distances(X, X_new, kernel.length_scale, gram=True)

    def _q(self, rows: slice, cols: slice) -> Array:
        q = self._distances.squared(rows, cols)
        q *= 0.5 / self._alpha
        return q

    def value(self, rows: slice, cols: slice) -> Array:
        # log1p keeps the digits of a small q under a large alpha
        t = self._q(rows, cols)
        np.log1p(t, out=t)
        t *= self._alpha
        return exp_of_minus(t)

    def pull_log(self, rows: slice, cols: slice, M: Array) -> Array:
        q = self._q(rows, cols)
        share = q / (1.0 + q)
        by_scale = self._alpha * inner(M, share)
        gradient = []
        if self._free[0]:
            gradient.append(by_scale - self._alpha * inner(M, np.log1p(q, out=q)))
        if self._free[1]:
            gradient.append(2.0 * by_scale)
        return np.array(gradient)


@final
class _ExpSineSquared(LogDifferentiable):
    """``exp(-2 sin^2(a) / l^2)``, ``a = pi r / p`` (RW06 eq. 4.31); valid in one column only."""

    def __init__(self, kernel: Kernel, X: Array, X_new: Array | None) -> None:
        self.n_theta = n_free(kernel)
        self._scale = float(kernel.length_scale)
        self._period = float(kernel.periodicity)
        settings = kernel.hyperparameter_length_scale, kernel.hyperparameter_periodicity
        self._free = [not setting.fixed for setting in settings]
        # the sine multiplies the error of r by 1 / p: only differences are exact enough
        self._distances = Distances(X, X_new, 1.0, gram=False)

    def _angle(self, rows: slice, cols: slice) -> Array:
        a = self._distances.squared(rows, cols)
        np.sqrt(a, out=a)
        a *= np.pi
        a /= self._period
        return a

    def value(self, rows: slice, cols: slice) -> Array:
        s = self._angle(rows, cols)
        np.sin(s, out=s)
        s /= self._scale
        s *= s
        s *= 2.0
        return exp_of_minus(s)

    def pull_log(self, rows: slice, cols: slice, M: Array) -> Array:
        a = self._angle(rows, cols)
        s = np.sin(a)
        gradient = []
        if self._free[0]:
            gradient.append(4.0 / self._scale**2 * inner(M, s * s))
        if self._free[1]:
            s *= np.cos(a)
            s *= a
            gradient.append(4.0 / self._scale**2 * inner(M, s))
        return np.array(gradient)


@binds(RBF)
def _bind_rbf(kernel: Kernel, X: Array, X_new: Array | None) -> BoundKernel:
    return _Radial(kernel, X, X_new, _RBF)


@binds(Matern)
def _bind_matern(kernel: Kernel, X: Array, X_new: Array | None) -> BoundKernel:
    return _Radial(kernel, X, X_new, _profile(kernel))


def _profile(kernel: Kernel) -> Profile:
    """Profile of an RBF or a Matern."""
    nu = kernel.nu if isinstance(kernel, Matern) else math.inf
    return _MATERN[nu] if nu in _MATERN else _matern(nu)


def radial_weight(kernel: Kernel, X: Array, X_new: Array) -> Array | None:
    """``-2 dlog k / d(r^2)`` of an RBF or a Matern between the rows, (n, m); None: 1."""
    weight = _profile(kernel).weight
    if weight is None:
        return None
    distances = Distances(X, X_new, kernel.length_scale, gram=False)
    return weight(distances.squared(slice(0, len(X)), slice(0, len(X_new))))


@binds(RationalQuadratic)
def _bind_rational_quadratic(kernel: Kernel, X: Array, X_new: Array | None) -> BoundKernel:
    if np.size(kernel.length_scale) > 1:
        raise ValueError("RationalQuadratic takes one length_scale, not one a column")
    return _RationalQuadratic(kernel, X, X_new)


@binds(ExpSineSquared)
def _bind_exp_sine_squared(kernel: Kernel, X: Array, X_new: Array | None) -> BoundKernel:
    return _ExpSineSquared(kernel, X, X_new)
