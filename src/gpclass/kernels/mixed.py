"""The squared exponential of continuous and discrete columns."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import (
    Hyperparameter,
    Kernel,
    NormalizedKernelMixin,
    StationaryKernelMixin,
)

from gpclass.kernels.distances import Distances
from gpclass.kernels.selection import Columns, as_list, part, pick
from gpclass.kernels.stationary import exp_of_minus
from gpclass.kernels.theta import n_free
from gpclass.kernels.tiles import BoundKernel, LogDifferentiable, binds, shape_of
from gpclass.linalg import Array, inner

# Weights 1 / l^2 of mismatches beyond this make every covariance 0; their sums stay finite.
_LARGEST_WEIGHT = 1e280


@final
class MixedRBF(StationaryKernelMixin, NormalizedKernelMixin, Kernel):  # type: ignore[misc]
    r"""Squared exponential of continuous and of discrete columns (KG06 eq. 13 and 14).

    .. math::

        k(x, x') = \exp\Bigl(-\frac12 \sum_{c} \frac{(x_c - x'_c)^2}{l_c^2}
        -\frac12 \sum_{d} \frac{[x_d \ne x'_d]}{s_d^2}\Bigr)

    with length-scales :math:`l` of the continuous and :math:`s` of the discrete columns; KG06's
    inverse length-scales are :math:`1 / l^2` and :math:`1 / s^2`. Its variance, bias and noise are
    `ConstantKernel` and `WhiteKernel` around this one.

    Parameters
    ----------
    length_scale : float or array-like of shape (n_continuous,), default=1.0
        One for all continuous columns, or one each, in the order of X.
    discrete : int, str, or sequence of these, default=()
        Positions or names of the discrete columns. Their values are codes: only whether two are
        equal matters. A code of no training row, such as -1, differs from all of them.
    discrete_length_scale : float or array-like of shape (n_discrete,), default=1.0
        One for all discrete columns, or one each, in the order of ``discrete``.
    length_scale_bounds, discrete_length_scale_bounds : pair of float, array-like of shape (k, 2) \
            or "fixed", default=(1e-5, 1e5)
    positions : sequence of int, default=None
        Where the columns named in ``discrete`` are; a fit notes it here.

    References
    ----------
    KG06 section 3.2, eq. 13 and 14.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.kernels import MixedRBF
    >>> X = np.array([[0.0, 1.0], [0.0, 2.0], [1.0, 2.0]])
    >>> MixedRBF(1.0, discrete=1, discrete_length_scale=0.5)(X).round(3)
    array([[1.   , 0.135, 0.082],
           [0.135, 1.   , 0.607],
           [0.082, 0.607, 1.   ]])
    """

    def __init__(
        self,
        length_scale: ArrayLike = 1.0,
        discrete: Columns = (),
        discrete_length_scale: ArrayLike = 1.0,
        length_scale_bounds: ArrayLike = (1e-5, 1e5),
        discrete_length_scale_bounds: ArrayLike = (1e-5, 1e5),
        positions: Sequence[int] | None = None,
    ) -> None:
        self.length_scale = length_scale
        self.discrete = discrete
        self.discrete_length_scale = discrete_length_scale
        self.length_scale_bounds = length_scale_bounds
        self.discrete_length_scale_bounds = discrete_length_scale_bounds
        self.positions = positions

    @property
    def hyperparameter_length_scale(self) -> Hyperparameter:
        """Length-scales of the continuous columns."""
        size = np.size(self.length_scale)
        return Hyperparameter("length_scale", "numeric", self.length_scale_bounds, size)

    @property
    def hyperparameter_discrete_length_scale(self) -> Hyperparameter:
        """Length-scales of the discrete columns; fixed where there is none."""
        name, size = "discrete_length_scale", np.size(self.discrete_length_scale)
        bounds = self.discrete_length_scale_bounds if as_list(self.discrete) else "fixed"
        return Hyperparameter(name, "numeric", bounds, size)

    def parts(self, X: Any) -> tuple[Array, Array]:
        """Continuous columns of X (n, d), and discrete ones; ValueError where X lacks one."""
        discrete = pick(self.discrete, self.positions, X.shape[1])
        return part(X, np.setdiff1d(np.arange(X.shape[1]), discrete)), part(X, discrete)

    def __call__(
        self, X: Any, Y: Any = None, eval_gradient: bool = False
    ) -> Array | tuple[Array, Array]:
        """Covariances (n, n), or (n, m) to the rows of Y, and their gradient (n, n, n_theta)."""
        X = np.atleast_2d(X)
        Y = None if Y is None else np.atleast_2d(Y)
        bound = _Mixed(self, X, Y)
        rows, cols = slice(0, len(X)), slice(0, len(X if Y is None else Y))
        K = bound.value(rows, cols)
        if not eval_gradient:
            return K
        if Y is not None:
            raise ValueError("the gradient can only be evaluated when Y is None")
        return K, K[:, :, None] * bound.log_gradient()

    def __repr__(self) -> str:
        scales = f"length_scale={_shown(self.length_scale)}"
        if not as_list(self.discrete):
            return f"MixedRBF({scales})"
        discrete = f"discrete={as_list(self.discrete)}"
        shown = _shown(self.discrete_length_scale)
        return f"MixedRBF({scales}, {discrete}, discrete_length_scale={shown})"


def _shown(scale: Any) -> str:
    if np.ndim(scale) == 0:
        return f"{scale:.3g}"
    return "[" + ", ".join(f"{one:.3g}" for one in np.ravel(scale)) + "]"


@final
class _Mixed(LogDifferentiable):
    """Scaled squared distances of the continuous columns plus weighted mismatches of the others."""

    def __init__(self, kernel: Kernel, X: Array, X_new: Array | None) -> None:
        self.n_theta = n_free(kernel)
        numbers, self._left = kernel.parts(X)
        new, self._right = (None, self._left) if X_new is None else kernel.parts(X_new)
        lengths, discrete_lengths = kernel.length_scale, kernel.discrete_length_scale
        _check_size("length_scale", lengths, numbers.shape[1], "continuous")
        _check_size("discrete_length_scale", discrete_lengths, self._left.shape[1], "discrete")
        # as for RBF, a product of matrices is exact enough
        self._distances = Distances(numbers, new, lengths, gram=True)
        scale = np.broadcast_to(np.ravel(discrete_lengths), self._left.shape[1])
        with np.errstate(all="ignore"):
            self._weights = np.minimum(np.asarray(scale, float) ** -2.0, _LARGEST_WEIGHT)
        # in the order of scikit-learn's theta, which is alphabetical
        self._free = (
            not kernel.hyperparameter_discrete_length_scale.fixed,
            not kernel.hyperparameter_length_scale.fixed,
        )
        self._each = (np.size(discrete_lengths) > 1, np.size(lengths) > 1)

    def _mismatches(self, rows: slice, cols: slice) -> list[Array]:
        """``[x_d != x'_d] / s_d^2`` of every discrete column d."""
        pairs = zip(self._left[rows].T, self._right[cols].T, self._weights, strict=True)
        return [np.not_equal.outer(a, b) * weight for a, b, weight in pairs]

    def _mismatch(self, rows: slice, cols: slice) -> Array:
        total = np.zeros(shape_of(rows, cols))
        for term in self._mismatches(rows, cols):
            total += term
        return total

    def log_gradient(self) -> Array:
        """``dlog K / dtheta`` of the training rows, (n, n, n_theta)."""
        rows = slice(0, len(self._left))
        mismatches = self._mismatches(rows, rows) if self._free[0] else []
        squares = self._distances.of_columns() if self._free[1] else []
        parts = [
            terms if each else [sum(terms, np.zeros(shape_of(rows, rows)))]
            for terms, each, free in zip((mismatches, squares), self._each, self._free, strict=True)
            if free
        ]
        found = [term for terms in parts for term in terms]
        return np.stack(found, axis=2) if found else np.empty((*shape_of(rows, rows), 0))

    def value(self, rows: slice, cols: slice) -> Array:
        r2 = self._distances.squared(rows, cols)
        r2 += self._mismatch(rows, cols)
        r2 *= 0.5
        return exp_of_minus(r2)

    def pull_log(self, rows: slice, cols: slice, M: Array) -> Array:
        # dlog K / dlog l_k is the term of column k itself, as in `log_gradient`
        gradient: list[float] = []
        if self._free[0] and self._each[0]:
            gradient.extend(inner(M, term) for term in self._mismatches(rows, cols))
        elif self._free[0]:
            gradient.append(inner(M, self._mismatch(rows, cols)))
        if self._free[1] and self._each[1]:
            gradient.extend(self._distances.contract(rows, cols, M))
        elif self._free[1]:
            gradient.append(inner(M, self._distances.squared(rows, cols)))
        return np.array(gradient)


def _check_size(argument: str, value: ArrayLike, expected: int, kind: str) -> None:
    if np.ndim(value) > 1 or np.size(value) not in (1, expected):
        raise ValueError(
            f"{argument} has shape {np.shape(value)}, but MixedRBF has {expected} {kind} columns: "
            "expected one length-scale or one a column"
        )


@binds(MixedRBF)
def _bind_mixed(kernel: Kernel, X: Array, X_new: Array | None) -> BoundKernel:
    return _Mixed(kernel, X, X_new)
