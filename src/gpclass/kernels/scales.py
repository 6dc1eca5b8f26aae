"""Which length-scale of a kernel expression belongs to which column of the table."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

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
        for parameter, columns, length, discrete in _scales(kernel, X.shape[1]):
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
    found: set[int] = set()
    for leaf, _, columns in _leaves(kernel, "", np.arange(n_columns)):
        if isinstance(leaf, MixedRBF):
            columns = np.delete(columns, pick(leaf.discrete, leaf.positions, len(columns)))
        if not isinstance(leaf, ConstantKernel | WhiteKernel):
            found.update(columns.tolist())
    return found


_Leaf = tuple[Kernel, str, NDArray[np.intp]]
_Scale = tuple[str, NDArray[np.intp], float, bool]


def _leaves(kernel: Kernel, prefix: str, columns: NDArray[np.intp]) -> Iterator[_Leaf]:
    """Parts of an expression, what their parameters' names begin with, and the columns they see.

    A `ColumnKernel` is a part where its columns share length-scales, else its kernel is.
    """
    if isinstance(kernel, ColumnKernel):
        columns = columns[pick(kernel.columns, kernel.positions, len(columns))]
    if isinstance(kernel, Sum | Product):
        yield from _leaves(kernel.k1, f"{prefix}k1__", columns)
        yield from _leaves(kernel.k2, f"{prefix}k2__", columns)
    elif isinstance(kernel, Exponentiation) or (
        isinstance(kernel, ColumnKernel) and kernel.shared is None
    ):
        yield from _leaves(kernel.kernel, f"{prefix}kernel__", columns)
    else:
        yield kernel, prefix, columns


def _scales(kernel: Kernel, n_columns: int) -> Iterator[_Scale]:
    """Parameter, the columns that have it, its value, and whether they are discrete."""
    for leaf, prefix, columns in _leaves(kernel, "", np.arange(n_columns)):
        name = f"{prefix}length_scale"
        if isinstance(leaf, ColumnKernel):
            shared, scale = np.asarray(leaf.shared), leaf.kernel.length_scale
            groups = [columns[shared == k] for k in range(shared.max() + 1)]
            yield from _each(f"{prefix}kernel__length_scale", scale, groups, False)
        elif isinstance(leaf, MixedRBF):
            discrete = pick(leaf.discrete, leaf.positions, len(columns))
            levels, scale = columns[discrete], leaf.discrete_length_scale
            yield from _each(f"{prefix}discrete_length_scale", scale, levels, True)
            yield from _each(name, leaf.length_scale, np.delete(columns, discrete), False)
        elif isinstance(leaf, RBF):  # and Matern, which is one
            yield from _each(name, leaf.length_scale, columns, False)


def _each(
    name: str, scale: ArrayLike, columns: Sequence[Any] | NDArray[np.intp], discrete: bool
) -> Iterator[_Scale]:
    scales = np.ravel(scale)
    if len(scales) == len(columns):
        for i, (column, value) in enumerate(zip(columns, scales, strict=True)):
            entry = f"{name}[{i}]" if len(scales) > 1 else name
            yield entry, np.atleast_1d(column), float(value), discrete
