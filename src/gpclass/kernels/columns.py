"""Any kernel on some columns of a table, and the names of columns in a kernel expression."""

from collections.abc import Sequence
from typing import Any, cast, final

import numpy as np
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, Hyperparameter, Kernel

from gpclass.kernels.mixed import MixedRBF
from gpclass.kernels.precomputed import uses_precomputed
from gpclass.kernels.selection import Columns, as_list, find, has_names, part, pick
from gpclass.kernels.tiles import BoundKernel, LogDifferentiable, bind, binds
from gpclass.linalg import Array


@final
class ColumnKernel(Kernel):  # type: ignore[misc]  # scikit-learn has no types
    """A kernel of some of the columns.

    Sums and products of such kernels put a kernel of its own on every column or group of columns.

    Parameters
    ----------
    columns : int, str, or sequence of these
        Positions or names. Names are found when a classifier is fitted to a frame, and
        `gpclass.kernels.resolved` finds them elsewhere.
    kernel : Kernel
        Any kernel of vectors. Its columns are the chosen ones, in the order of ``columns``.
    positions : sequence of int, default=None
        Where the named columns are; a fit notes it here.
    shared : sequence of int, default=None
        For an RBF or Matern whose length-scales are shared: the number, from 0 on, of the one that
        each column has. None: ``kernel`` has one for all columns, or one each.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.kernels import ColumnKernel
    >>> X = np.array([[0.0, 5.0], [1.0, 7.0]])
    >>> kernel = 2.0 * ColumnKernel(0, RBF(1.0)) + ColumnKernel(1, RBF(4.0))
    >>> kernel(X).round(3)
    array([[3.   , 2.096],
           [2.096, 3.   ]])
    >>> kernel.get_params()["k2__kernel__length_scale"]
    4.0

    Levels of a category, each with a column of its own, have a length-scale together:

    >>> ColumnKernel([0, 1, 2], RBF([2.0, 1.0]), shared=[0, 1, 1]).spread
    RBF(length_scale=[2, 1, 1])
    """

    def __init__(
        self,
        columns: Columns,
        kernel: Kernel,
        positions: Sequence[int] | None = None,
        shared: Sequence[int] | None = None,
    ) -> None:
        self.columns = columns
        self.kernel = kernel
        self.positions = positions
        self.shared = shared

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Arguments by name, and with ``deep`` those of the kernel as ``kernel__...``."""
        params: dict[str, Any] = super().get_params()
        if deep:
            params.update(("kernel__" + k, value) for k, value in self.kernel.get_params().items())
        return params

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        """Hyperparameters of the kernel, as ``kernel__...``."""
        return [one._replace(name=f"kernel__{one.name}") for one in self.kernel.hyperparameters]

    @property
    def theta(self) -> Array:
        """Logarithms of the kernel's free hyperparameters."""
        theta: Array = self.kernel.theta
        return theta

    @theta.setter
    def theta(self, theta: Array) -> None:
        self.kernel.theta = theta

    @property
    def bounds(self) -> Array:
        """Logarithms of their bounds."""
        bounds: Array = self.kernel.bounds
        return bounds

    def chosen(self, X: Any) -> Array:
        """Columns of a table (n, d) that the kernel sees; ValueError where X lacks one."""
        if not self.kernel.requires_vector_input or uses_precomputed(self.kernel):
            raise ValueError(f"ColumnKernel takes kernels of columns of numbers, not {self.kernel}")
        X = np.atleast_2d(X)
        return part(X, pick(self.columns, self.positions, X.shape[1]))

    @property
    def spread(self) -> Kernel:
        """The kernel with a length-scale for each of the columns.

        ValueError where ``shared`` does not number the length-scales of an RBF or Matern.
        """
        if self.shared is None:
            return self.kernel
        kernel, shared = self.kernel, np.asarray(self.shared)
        lengths = np.ravel(kernel.length_scale) if isinstance(kernel, RBF) else np.empty(0)
        if not np.array_equal(np.unique(shared), np.arange(len(lengths))):
            raise ValueError(
                f"shared={self.shared!r} does not number the length-scales of {kernel}"
            )
        # only whether it is fixed matters here
        bounds = "fixed" if kernel.hyperparameter_length_scale.fixed else (1e-5, 1e5)
        each = {"length_scale": lengths[shared], "length_scale_bounds": bounds}
        return type(kernel)(**kernel.get_params() | each)

    @property
    def ties(self) -> Array:
        """Which length-scale a column has, (d, k): what gradients of `spread` are multiplied by."""
        return np.asarray(np.eye(self.n_dims)[np.asarray(self.shared)])

    def __call__(
        self, X: Any, Y: Any = None, eval_gradient: bool = False
    ) -> Array | tuple[Array, Array]:
        """Covariances (n, n), or (n, m) to the rows of Y, and their gradient (n, n, n_theta)."""
        Y = None if Y is None else self.chosen(Y)
        found: Array | tuple[Array, Array]
        found = self.spread(self.chosen(X), Y, eval_gradient=eval_gradient)
        if isinstance(found, tuple) and self.shared is not None and self.n_dims:
            return found[0], found[1] @ self.ties
        return found

    def diag(self, X: Any) -> Array:
        """Variances at the rows of X, (n,)."""
        return np.asarray(self.kernel.diag(self.chosen(X)))

    def is_stationary(self) -> bool:
        """Whether the kernel is stationary."""
        return bool(self.kernel.is_stationary())

    def __repr__(self) -> str:
        columns: Any = as_list(self.columns)
        if len(columns) == 1:
            columns = columns[0]
        elif columns == list(range(len(columns))):
            columns = range(len(columns))
        return f"ColumnKernel({columns!r}, {self.kernel})"


@final
class _Shared(LogDifferentiable):
    """A kernel with a length-scale a column, some of which are the same one."""

    def __init__(self, each: LogDifferentiable, ties: Array) -> None:
        self.n_theta = ties.shape[1]
        self._each, self._ties = each, ties

    def value(self, rows: slice, cols: slice) -> Array:
        return self._each.value(rows, cols)

    def pull_log(self, rows: slice, cols: slice, M: Array) -> Array:
        return self._each.pull_log(rows, cols, M) @ self._ties


@binds(ColumnKernel)
def _bind_columns(kernel: Kernel, X: Array, X_new: Array | None) -> BoundKernel:
    X_new = None if X_new is None else kernel.chosen(X_new)
    bound = bind(kernel.spread, kernel.chosen(X), X_new)
    if kernel.shared is None or not kernel.n_dims:
        return bound
    return _Shared(cast(LogDifferentiable, bound), kernel.ties)


def uses_names(kernel: Kernel) -> bool:
    """Whether a kernel expression names columns."""
    if isinstance(kernel, MixedRBF):
        return has_names(kernel.discrete)
    if isinstance(kernel, ColumnKernel) and has_names(kernel.columns):
        return True
    return any(uses_names(one) for one in _inner(kernel).values())


def resolved(kernel: Kernel, names: Sequence[str] | None) -> Kernel:
    """Kernel expression whose named columns are found in a table.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Sums, products, powers and other compositions, to any depth.
    names : sequence of str, or None
        Names of the table's columns, if they have names. Inside a `ColumnKernel` the names are
        those of its columns.

    Returns
    -------
    Kernel
        A new kernel with ``positions``, which still prints the names; the kernel itself if it has
        no names.

    Raises
    ------
    ValueError
        Naming the column that is not there.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.kernels import ColumnKernel, resolved
    >>> kernel = resolved(ColumnKernel("age", RBF(2.0)), ["height", "age"])
    >>> kernel, kernel.positions
    (ColumnKernel('age', RBF(length_scale=2)), [1])
    """
    if not uses_names(kernel):
        return kernel
    params = kernel.get_params(deep=False)
    if isinstance(kernel, MixedRBF):
        return MixedRBF(**params | {"positions": find(kernel.discrete, names)})
    if isinstance(kernel, ColumnKernel):
        if has_names(kernel.columns):
            params["positions"] = find(kernel.columns, names)
        if names is not None:
            chosen = pick(kernel.columns, params["positions"], len(names))
            names = [names[i] for i in chosen]
    if isinstance(kernel, CompoundKernel):
        return CompoundKernel([resolved(one, names) for one in kernel.kernels])
    inner = {name: resolved(one, names) for name, one in _inner(kernel).items()}
    return type(kernel)(**params | inner)


def _inner(kernel: Kernel) -> dict[int | str, Kernel]:
    """Kernels that are parameters of a kernel."""
    if isinstance(kernel, CompoundKernel):
        return dict(enumerate(kernel.kernels))
    params = kernel.get_params(deep=False).items()
    return {name: value for name, value in params if isinstance(value, Kernel)}
