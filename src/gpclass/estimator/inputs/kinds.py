"""Tables of the user's kernels: numbers, covariances, or anything that the kernel takes."""

from typing import Any, Final, final

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from gpclass.estimator.inputs.base import Inputs, Labels
from gpclass.estimator.inputs.columns import as_dense, columns_of, is_frame, listed, missing_in
from gpclass.kernels import uses_precomputed, validate_precomputed


@final
class FloatTable(Inputs):
    """Rows of numbers, as float64; sparse ones are made dense."""

    @classmethod
    def takes(cls, kernel: object, X: Any) -> bool:
        """Whether the kernels are functions of vectors."""
        return takes_vectors(kernel)

    def fit(self, estimator: BaseEstimator, X: Any, y: Any) -> tuple[Any, Labels]:
        """Check a table of finite numbers, of shape (n, d)."""
        X = as_dense(X)
        refuse_gaps(X)
        copy = bool(getattr(estimator, "copy_X_train", True))
        X, y = validate_data(estimator, X, y, dtype=np.float64, copy=copy)
        return X, y

    def transform(self, estimator: BaseEstimator, X: Any) -> Any:
        """Check a table of the same columns."""
        X = as_dense(X)
        refuse_gaps(X)
        return validate_data(estimator, X, dtype=np.float64, reset=False)


@final
class CovarianceMatrix(Inputs):
    """The covariances themselves: ``kernel="precomputed"``."""

    @classmethod
    def takes(cls, kernel: object, X: Any) -> bool:
        """Whether the kernel is "precomputed"."""
        return is_precomputed(kernel)

    def fit(self, estimator: BaseEstimator, X: Any, y: Any) -> tuple[Any, Labels]:
        """Check a symmetric matrix of shape (n, n)."""
        X, y = FloatTable().fit(estimator, X, y)
        validate_precomputed(X)
        return X, y

    def transform(self, estimator: BaseEstimator, X: Any) -> Any:
        """Check covariances with the training rows: (m, n), or (m, n + 1) with own variances."""
        if np.shape(X)[1:] == (estimator.n_features_in_ + 1,):
            return check_array(X, dtype=np.float64)
        return FloatTable().transform(estimator, X)


@final
class Objects(Inputs):
    """Anything that the kernel takes: strings, sequences, graphs, rows of mixed types."""

    @classmethod
    def takes(cls, kernel: object, X: Any) -> bool:
        """Whether a kernel is no function of vectors."""
        return not takes_vectors(kernel)

    def fit(self, estimator: BaseEstimator, X: Any, y: Any) -> tuple[Any, Labels]:
        """Check that there are as many objects as labels."""
        X, y = validate_data(estimator, as_objects(X), y, **self._anything)
        return X, y

    def transform(self, estimator: BaseEstimator, X: Any) -> Any:
        """Check that objects are there."""
        return validate_data(estimator, as_objects(X), reset=False, **self._anything)

    _anything: Final = {"dtype": None, "ensure_2d": False, "ensure_all_finite": False}


def refuse_gaps(X: Any) -> None:
    """ValueError that names the columns of a frame or an array that have missing values."""
    if is_frame(X) or (isinstance(X, np.ndarray) and X.ndim == 2):
        counts = [(one.name, missing_in(one.values).sum()) for one in columns_of(X)]
        gaps = [f"{name} ({count})" for name, count in counts if count]
        if gaps:
            raise ValueError(
                f"Input X contains NaN or other missing values in the columns {listed(gaps)}; fill "
                "or drop them, or leave kernel=None, which takes them."
            )


def is_precomputed(kernel: object) -> bool:
    """Whether X is the covariance matrix itself."""
    if isinstance(kernel, str):
        return kernel == "precomputed"
    if isinstance(kernel, list | tuple):
        return all(is_precomputed(one) for one in kernel)
    return isinstance(kernel, Kernel) and uses_precomputed(kernel)


def takes_vectors(kernel: object) -> bool:
    """Whether X is a table of numbers."""
    if isinstance(kernel, list | tuple):
        return all(takes_vectors(one) for one in kernel)
    return not isinstance(kernel, Kernel) or bool(kernel.requires_vector_input)


def as_objects(X: Any) -> Any:
    """A list as an array of its items, so that sequences among them are not taken for rows."""
    if not isinstance(X, list | tuple):
        return X
    items = np.empty(len(X), dtype=object)
    for i, item in enumerate(X):
        items[i] = item
    return items
