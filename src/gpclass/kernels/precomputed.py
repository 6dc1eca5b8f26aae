"""A Gram matrix in place of inputs: ``kernel="precomputed"``."""

from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.gaussian_process.kernels import Kernel

from gpclass.kernels.tiles import BoundKernel, binds
from gpclass.linalg import Array

# Rows of a table.
Chosen = slice | NDArray[np.intp] | NDArray[np.bool_]


@final
class Precomputed(Kernel):  # type: ignore[misc]  # scikit-learn has no types
    """The kernel whose inputs are its own values; it has no hyperparameters.

    Training inputs X are the symmetric Gram matrix (n, n). New inputs are rows ``k(x*, x_j)``
    against the n training points, of shape (m, n), or (m, n + 1) with ``k(x*, x*)`` appended. Use
    it through `gpclass.kernels.evaluate`, `cross`, `diagonal`, `take` and `restrict`.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.kernels import Precomputed, cross
    >>> cross(Precomputed(), np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([[0.2, 0.3]]))
    array([[0.2],
           [0.3]])
    """

    def __init__(self) -> None:
        # scikit-learn reads the parameters from the signature, and object's own has *args
        super().__init__()

    def __call__(
        self, X: Any, Y: Any = None, eval_gradient: bool = False
    ) -> Array | tuple[Array, Array]:
        """Return the Gram matrix (n, n), or (n, m) against the rows of Y."""
        K = square_gram(X)
        if Y is not None:
            if eval_gradient:
                raise ValueError("the gradient can only be evaluated when Y is None")
            return np.ascontiguousarray(against_training(len(K), Y).T)
        if eval_gradient:
            return K.copy(), np.empty((len(K), len(K), 0))
        return K.copy()

    def diag(self, X: Any) -> Array:
        """Diagonal of the Gram matrix (n, n)."""
        return np.diagonal(square_gram(X)).copy()

    def is_stationary(self) -> bool:
        """Return False: a matrix of values does not say."""
        return False

    def __repr__(self) -> str:
        return "Precomputed()"


def uses_precomputed(kernel: Kernel) -> bool:
    """Whether the inputs of a kernel expression are Gram matrices."""
    parts = kernel.get_params(deep=True).values()
    return any(isinstance(part, Precomputed) for part in (kernel, *parts))


def square_gram(X: ArrayLike) -> Array:
    """X as a float64 matrix, or a ValueError where it is not square."""
    K = np.asarray(X, dtype=np.float64)
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(
            f'X has shape {K.shape}, but with kernel="precomputed" it is the square Gram matrix '
            f"of the training points, shape (n, n)"
        )
    return K


def against_training(n: int, X_new: ArrayLike) -> Array:
    """Cut new rows to the part (m, n) that faces the n training points."""
    rows = np.asarray(X_new, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] not in (n, n + 1):
        raise ValueError(
            f'X has shape {rows.shape}, but with kernel="precomputed" new rows hold k(x*, x_j) '
            f"for the {n} training points, shape (m, {n}), or (m, {n + 1}) with k(x*, x*) appended"
        )
    return rows[:, :n]


def new_diagonal(X_new: ArrayLike, X_train: ArrayLike) -> Array:
    """``k(x*, x*)`` of new rows: their last column, or the constant training diagonal."""
    K, rows = square_gram(X_train), np.asarray(X_new, dtype=np.float64)
    n, m = len(K), len(against_training(len(K), rows))
    if rows.shape[1] == n + 1:
        return np.array(rows[:, n])
    training = np.diagonal(K)
    if n == 0 or np.ptp(training) > 1e-10 * np.abs(training).max():
        raise ValueError(
            "X has no column for k(x*, x*), and the diagonal of the training matrix is not "
            f"constant, so it cannot be inferred: append it as the last column, shape (m, {n + 1})"
        )
    return np.full(m, training[0])


def validate_precomputed(K: ArrayLike) -> Array:
    """A user's Gram matrix (n, n) as C-contiguous float64.

    Raises ValueError if it is not square, finite and symmetric to 1e-10 of its largest entry, or
    has a negative diagonal. Whether it is positive definite shows when it is factorised.
    """
    matrix = np.ascontiguousarray(square_gram(K))
    if not np.isfinite(matrix).all():
        raise ValueError("X, the Gram matrix, has entries that are not finite")
    largest = np.abs(matrix).max(initial=0.0)
    # halves: a difference of finite numbers may overflow
    half_gap = np.abs(0.5 * matrix - 0.5 * matrix.T).max(initial=0.0)
    if half_gap > 0.5e-10 * largest:
        raise ValueError(
            f"X, the Gram matrix, is not symmetric: |X - X.T| / 2 reaches {half_gap:.3g} where the "
            f"largest entry is {largest:.3g}"
        )
    if len(matrix) and np.diagonal(matrix).min() < 0.0:
        row = int(np.diagonal(matrix).argmin())
        raise ValueError(
            f"X, the Gram matrix, is not positive semi-definite: X[{row}, {row}] = "
            f"{matrix[row, row]:.3g} is negative"
        )
    return matrix


def take(kernel: Kernel, X: Any, rows: Chosen) -> Any:
    """Training inputs restricted to some rows (slice, numbers or booleans).

    For `Precomputed`, both axes of the Gram matrix are. A sequence that is no array becomes a list.
    """
    if uses_precomputed(kernel):
        K = square_gram(X)
        chosen = np.arange(len(K))[rows]
        return K[np.ix_(chosen, chosen)]
    if isinstance(X, np.ndarray):
        return X[rows]
    return [X[i] for i in np.arange(len(X))[rows]]


def restrict(kernel: Kernel, X_new: Any, rows: Chosen, n_train: int) -> Any:
    """New inputs as a model that was trained on ``take(kernel, X, rows)`` takes them.

    Of `Precomputed` the columns of the rows, and of the variances if given; else X_new itself.
    """
    if not uses_precomputed(kernel):
        return X_new
    new = np.asarray(X_new, dtype=np.float64)
    against_training(n_train, new)
    columns = np.arange(n_train)[rows]
    if new.shape[1] == n_train + 1:
        columns = np.append(columns, n_train)
    return new[:, columns]


@final
class _Given(BoundKernel):
    n_theta = 0

    def __init__(self, K: Array) -> None:
        self._K = K

    def value(self, rows: slice, cols: slice) -> Array:
        return np.array(self._K[rows, cols], order="C")

    def pull(self, rows: slice, cols: slice, G: Array, value: Array | None = None) -> Array:
        return np.zeros(0)


@binds(Precomputed)
def _bind_precomputed(kernel: Kernel, X: Any, X_new: Any | None) -> BoundKernel:
    K = square_gram(X)
    return _Given(K if X_new is None else against_training(len(K), X_new).T)
