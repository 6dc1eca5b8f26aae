"""A kernel to start from, with scales taken from the data."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Kernel, Matern

from gpclass.kernels.columns import ColumnKernel
from gpclass.linalg import Array

# Rows whose pairwise distances are taken: half a million pairs, 4 MB.
_MAX_ROWS = 1000
# Variances that learning starts from: of the smooth part, of the linear part at a row like those
# of X, and of the constant. A small linear part and length-scales that are not long lead to the
# better of two maxima where there are two (boston, ionosphere).
_SMOOTH, _LINEAR, _CONSTANT = 3.0, 1.0, 3.0
# Bounds in units of the start. Under the weak hyperprior no table comes near them.
_VARIANCE_BOUNDS: Final = np.array([1e-6, 1e6])
_LENGTH_BOUNDS: Final = np.array([1e-3, 1e3])
# Length-scales, variances and their bounds stay finite, and so do their logarithms.
_LIMITS = (1e-290, 1e290)


def default_kernel(X: Any, shared: Sequence[int] | None = None) -> Kernel:
    """Sum of a smooth function with a length-scale a column, a linear function, and a constant.

    The constant is the prediction far from all rows, and the linear part is a simple trend: the
    smooth part needs no long length-scale to be either. Learnt by the evidence alone, so many
    length-scales would fit the noise of a small table; `gpclass.learning.weak_hyperprior` prevents
    that, and ``GaussianProcessClassifier()`` has it.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Finite numbers. The order of the rows and their multiplicities do not matter.
    shared : sequence of int, default=None
        Which length-scale a column has, as in `ColumnKernel`: that of its category where it is one
        of the levels'. None: each its own.

    Returns
    -------
    sklearn.gaussian_process.kernels.Sum
        ``ConstantKernel(3) * Matern(l, nu=2.5) + ConstantKernel(v) * DotProduct(0) +
        ConstantKernel(3)``, where ``l`` (d,) is `expected_lengths` (``sqrt(d)`` on standardised
        columns) and ``v`` gives the linear part a variance of 1 at a row like those of X. Where
        columns share length-scales, the Matern is in a `ColumnKernel`.

    Raises
    ------
    ValueError
        If X is not a table of finite numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.kernels import default_kernel
    >>> default_kernel(np.array([[-1.0, 30.0], [0.0, 20.0], [1.0, 10.0]]))
    1.73**2 * Matern(length_scale=[1.15, 11.5], nu=2.5)
    + 0.0463**2 * DotProduct(sigma_0=0) + 1.73**2
    """
    table = np.asarray(X, dtype=np.float64)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise ValueError(f"X has shape {table.shape}, expected finite numbers of shape (n, d)")
    rows = np.unique(table, axis=0)
    with np.errstate(over="ignore"):
        scales = expected_lengths(rows)
        lengths = np.clip(np.where(scales > 0.0, scales, 1.0), *_LIMITS)
        size = np.clip(np.einsum("ij,ij->i", rows, rows).mean() or 1.0, *_LIMITS)
    slope = _LINEAR / size
    smooth = ConstantKernel(_SMOOTH, _SMOOTH * _VARIANCE_BOUNDS)
    linear = ConstantKernel(slope, slope * _VARIANCE_BOUNDS)
    if shared is not None:
        lengths = lengths[np.unique(shared, return_index=True)[1]]
    radial = Matern(lengths, np.multiply.outer(lengths, _LENGTH_BOUNDS), nu=2.5)
    if len(lengths) < table.shape[1]:
        radial = ColumnKernel(list(range(table.shape[1])), radial, shared=shared)
    return (
        smooth * radial
        + linear * DotProduct(0.0, "fixed")
        + ConstantKernel(_CONSTANT, _CONSTANT * _VARIANCE_BOUNDS)
    )


def expected_lengths(rows: Array) -> Array:
    """Expected length-scales of the columns of (n, d) in a function of all; 0 for a constant one.

    Each column has a unit: its deviation, or the distance of its two values times ``sqrt(2)``,
    however rare one of them is. The length-scale is the unit times the root of the columns' summed
    variances in these units: ``sqrt(d)`` on d standardised columns.
    """
    # squares of numbers of any size neither overflow nor vanish together
    largest = float(np.abs(rows).max(initial=0.0)) or 1.0
    offsets = rows / largest
    offsets -= offsets[0].copy()
    deviations = np.array([column.std() for column in offsets.T])
    units = np.where(two_valued(rows), np.sqrt(2.0) * np.ptp(offsets, axis=0), deviations)
    share = np.divide(deviations, units, out=np.zeros_like(units), where=units > 0.0)
    return np.asarray(largest * (np.sqrt((share**2).sum()) * units))


def two_valued(rows: Array) -> NDArray[np.bool_]:
    """Which columns of (n, d) have two values at most: levels of a category, or what is missing."""
    extreme = (rows == rows.min(axis=0)) | (rows == rows.max(axis=0))
    return np.asarray(extreme.all(axis=0))


def median_distance(X: Array) -> float:
    """Median Euclidean distance between distinct rows of X (n, d); 1.0 if there is but one."""
    distinct = np.unique(X, axis=0)
    if len(distinct) > _MAX_ROWS:
        chosen = np.linspace(0, len(distinct) - 1, _MAX_ROWS).round().astype(int)
        distinct = distinct[chosen]
    if len(distinct) < 2:
        return 1.0
    # differences of finite numbers overflow from 1e308 on, and their squares from 1e154
    unit = max(1.0, float(np.abs(distinct).max()) / 1e300)
    offsets = distinct / unit - distinct[0] / unit
    spread = float(np.abs(offsets).max())
    distances = pdist(offsets / spread)
    # rows may be distinct by less than the square root of the smallest number
    return float(np.median(distances[distances > 0.0])) * spread * unit
