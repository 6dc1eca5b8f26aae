"""A kernel to start from, with scales taken from the data."""

from typing import Any

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass.linalg import Array

_MAX_ROWS = 1000
_VARIANCE_BOUNDS = (1e-3, 1e5)
# A length-scale and its bounds stay finite, and so do their logarithms.
_LENGTH_LIMITS = (1e-290, 1e290)


def default_kernel(X: Any) -> Any:
    """``1.0 * RBF(l)`` with l the median distance between distinct rows.

    The start scales with the units of X as a whole and depends on neither the order of the rows
    nor their multiplicities. Of more than 1000 distinct rows, 1000 evenly spaced in lexicographic
    order are used.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Finite numbers.

    Returns
    -------
    sklearn.gaussian_process.kernels.Product
        ``ConstantKernel(1.0, (1e-3, 1e5)) * RBF(l, (1e-3 l, 1e3 l))``; ``l = 1`` where there is
        just one distinct row.

    Raises
    ------
    ValueError
        If X is not a table of finite numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.kernels import default_kernel
    >>> default_kernel(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0]]))
    1**2 * RBF(length_scale=5)
    """
    table = np.asarray(X, dtype=np.float64)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise ValueError(f"X has shape {table.shape}, expected finite numbers of shape (n, d)")
    length = float(np.clip(median_distance(table), *_LENGTH_LIMITS))
    return ConstantKernel(1.0, _VARIANCE_BOUNDS) * RBF(length, (1e-3 * length, 1e3 * length))


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
