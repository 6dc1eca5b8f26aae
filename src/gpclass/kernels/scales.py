"""Which length-scale of a kernel expression belongs to which column of the table."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Exponentiation,
    Kernel,
    Product,
    Sum,
    WhiteKernel,
)

from gpclass.kernels.columns import ColumnKernel
from gpclass.kernels.mixed import MixedRBF
from gpclass.kernels.selection import pick
from gpclass.linalg import Array

# A column that changes the logarithm of no covariance by more than this does not matter.
_NEGLIGIBLE = 1e-3


class ColumnScale(NamedTuple):
    """The length-scale of one column: its name in ``get_params``, its value, and what it does.

    Of columns that share one, as the levels of a category, ``column`` is the first. ``relative`` is
    the length-scale in standard deviations of the column, or of all of these together (of a
    discrete column, itself). ``matters`` says whether the column changes any covariance by a factor
    of more than ``exp(0.001)``, as if the kernel were squared exponential.
    """

    parameter: str
    column: int
    length_scale: float
    relative: float
    discrete: bool
    matters: bool


def column_scales(kernel: Kernel, X: Array) -> list[ColumnScale]:
    """Length-scales that belong to one column of X (n, d) each.

    Those of RBF, Matern and MixedRBF are known, in sums, products, powers and `ColumnKernel`. A
    length-scale of all columns together is not among them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.kernels import column_scales
    >>> X = np.array([[0.0, 0.0], [2.0, 2.0]])
    >>> [(s.parameter, s.relative, s.matters) for s in column_scales(2.0 * RBF([3.0, 1e5]), X)]
    [('k2__length_scale[0]', 3.0, True), ('k2__length_scale[1]', 100000.0, False)]
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        spread, span = X.std(axis=0), np.ptp(X, axis=0)
        found = []
        for parameter, columns, length, discrete in _walk(kernel, "", np.arange(X.shape[1])):
            largest = 1.0 if discrete else np.linalg.norm(span[columns])
            matters = bool(0.5 * np.square(largest / length) > _NEGLIGIBLE)
            relative = length if discrete else float(length / np.linalg.norm(spread[columns]))
            first = int(columns[0])
            found.append(ColumnScale(parameter, first, length, relative, discrete, matters))
    return found


def columns_as_numbers(kernel: Kernel, n_columns: int) -> set[int]:
    """Columns of a table that a kernel takes for numbers, and does not just compare or leave out.

    Examples
    --------
    >>> from gpclass.kernels import ColumnKernel, MixedRBF, columns_as_numbers
    >>> columns_as_numbers(ColumnKernel([1, 3], MixedRBF(discrete=1)), 4)
    {1}
    """
    return set(_numbers(kernel, np.arange(n_columns)).tolist())


def _numbers(kernel: Kernel, columns: NDArray[np.intp]) -> NDArray[np.intp]:
    if isinstance(kernel, Sum | Product):
        return np.union1d(_numbers(kernel.k1, columns), _numbers(kernel.k2, columns))
    if isinstance(kernel, Exponentiation):
        return _numbers(kernel.kernel, columns)
    if isinstance(kernel, ColumnKernel):
        seen = pick(kernel.columns, kernel.positions, len(columns))
        return _numbers(kernel.kernel, columns[seen])
    if isinstance(kernel, MixedRBF):
        return np.delete(columns, pick(kernel.discrete, kernel.positions, len(columns)))
    return columns[:0] if isinstance(kernel, ConstantKernel | WhiteKernel) else columns


_Scale = tuple[str, NDArray[np.intp], float, bool]


def _walk(kernel: Kernel, prefix: str, columns: NDArray[np.intp]) -> Iterator[_Scale]:
    """Parameter, its columns, value and whether they are discrete, of ``columns`` that it sees."""
    if isinstance(kernel, Sum | Product):
        yield from _walk(kernel.k1, f"{prefix}k1__", columns)
        yield from _walk(kernel.k2, f"{prefix}k2__", columns)
    elif isinstance(kernel, Exponentiation):
        yield from _walk(kernel.kernel, f"{prefix}kernel__", columns)
    elif isinstance(kernel, ColumnKernel):
        seen = columns[pick(kernel.columns, kernel.positions, len(columns))]
        if kernel.shared is None:
            yield from _walk(kernel.kernel, f"{prefix}kernel__", seen)
        else:
            groups = [seen[np.equal(kernel.shared, k)] for k in range(max(kernel.shared) + 1)]
            name = f"{prefix}kernel__length_scale"
            yield from _each(name, kernel.kernel.length_scale, groups, False)
    elif isinstance(kernel, MixedRBF):
        discrete = pick(kernel.discrete, kernel.positions, len(columns))
        levels, scale = columns[discrete], kernel.discrete_length_scale
        yield from _each(f"{prefix}discrete_length_scale", scale, levels, True)
        continuous = np.delete(columns, discrete)
        yield from _each(f"{prefix}length_scale", kernel.length_scale, continuous, False)
    elif isinstance(kernel, RBF):  # and Matern, which is one
        yield from _each(f"{prefix}length_scale", kernel.length_scale, columns, False)


def _each(
    name: str,
    scale: ArrayLike,
    columns: Sequence[NDArray[np.intp]] | NDArray[np.intp],
    discrete: bool,
) -> Iterator[_Scale]:
    scales = np.ravel(scale)
    if len(scales) == len(columns):
        for i, (column, value) in enumerate(zip(columns, scales, strict=True)):
            entry = f"{name}[{i}]" if len(scales) > 1 else name
            yield entry, np.atleast_1d(column), float(value), discrete
