"""What X may be: checked at fit and at prediction, and given to the kernels as they take it."""

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, Final, Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.gaussian_process.kernels import Kernel
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from gpclass.kernels import uses_precomputed, validate_precomputed

Labels = NDArray[Any]


class Inputs(ABC):
    """A kind of X: made anew for each fit, it keeps what it learnt of the training table.

    `fit` and `transform` return what the kernel takes: it has a length, and an ndarray of rows as
    index.
    """

    @classmethod
    @abstractmethod
    def takes(cls, kernel: Any, X: Any) -> bool:
        """Whether an X of this kind goes with the estimator's argument ``kernel``."""

    @abstractmethod
    def fit(self, estimator: BaseEstimator, X: Any, y: Any) -> tuple[Any, Labels]:
        """Check a training table; return the n inputs of the kernel, and y of shape (n,).

        ``estimator`` gets ``n_features_in_`` and ``feature_names_in_``; messages have its name.
        """

    @abstractmethod
    def transform(self, estimator: BaseEstimator, X: Any) -> Any:
        """Inputs of the kernel at new rows, checked against those of the fit."""


@final
class FloatTable(Inputs):
    """Rows of numbers, as float64."""

    @classmethod
    def takes(cls, kernel: Any, X: Any) -> bool:
        """Whether the kernels are functions of vectors."""
        return takes_vectors(kernel)

    def fit(self, estimator: BaseEstimator, X: Any, y: Any) -> tuple[Any, Labels]:
        """Check a table of finite numbers, of shape (n, d)."""
        copy = bool(getattr(estimator, "copy_X_train", True))
        X, y = validate_data(estimator, X, y, dtype=np.float64, copy=copy)
        return X, y

    def transform(self, estimator: BaseEstimator, X: Any) -> Any:
        """Check a table of the same columns."""
        return validate_data(estimator, X, dtype=np.float64, reset=False)


@final
class CovarianceMatrix(Inputs):
    """The covariances themselves: ``kernel="precomputed"``."""

    @classmethod
    def takes(cls, kernel: Any, X: Any) -> bool:
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
    def takes(cls, kernel: Any, X: Any) -> bool:
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


KINDS: tuple[type[Inputs], ...] = (CovarianceMatrix, FloatTable, Objects)


def inputs_of(kernel: Any, X: Any) -> Inputs:
    """Return a new object of the kind that X is, by the estimator's argument ``kernel``."""
    return next(kind for kind in KINDS if kind.takes(kernel, X))()


def is_precomputed(kernel: Any) -> bool:
    """Whether X is the covariance matrix itself."""
    if isinstance(kernel, str):
        return kernel == "precomputed"
    if isinstance(kernel, list | tuple):
        return all(is_precomputed(one) for one in kernel)
    return isinstance(kernel, Kernel) and uses_precomputed(kernel)


def takes_vectors(kernel: Any) -> bool:
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


def standardised(classifier: Any) -> Pipeline:
    """Put a classifier behind `NumericColumns` and a ``StandardScaler``, as the command line does.

    Examples
    --------
    >>> import pandas as pd
    >>> from gpclass import GaussianProcessClassifier
    >>> from gpclass.estimator.inputs import standardised
    >>> table = pd.DataFrame({"age": ["31", "54", "47"], "smokes": [True, False, True]})
    >>> model = standardised(GaussianProcessClassifier()).fit(table, ["ill", "well", "ill"])
    >>> model.predict(table[["smokes", "age"]]).tolist()
    ['ill', 'well', 'ill']
    """
    return make_pipeline(NumericColumns(), StandardScaler(), classifier)


@final
class NumericColumns(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Columns of a table as float64, found by their names.

    In a pandas frame, booleans become 0 and 1 and text that is a number becomes that number. A new
    frame may have its columns in any order, and more of them. An array is checked only.
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Note the columns; raises as `numeric_columns`."""
        validate_data(self, _numbers(X), dtype=np.float64)
        return self

    def transform(self, X: Any) -> Any:
        """Columns of the fit, in its order, as numbers; ValueError where one is missing."""
        check_is_fitted(self, "n_features_in_")
        if hasattr(X, "iloc") and hasattr(self, "feature_names_in_"):
            missing = [name for name in self.feature_names_in_ if name not in X.columns]
            if missing:
                raise ValueError(
                    f"X lacks columns that the model was fitted to: {', '.join(missing)}."
                )
            X = X[list(self.feature_names_in_)]
        table = _numbers(X)
        checked = validate_data(self, table, dtype=np.float64, reset=False)
        return table if hasattr(table, "iloc") else checked


def _numbers(X: Any) -> Any:
    return numeric_columns(X, "X") if hasattr(X, "iloc") else X


def numeric_columns(frame: Any, name: str) -> Any:
    """Columns of a frame, called ``name`` in messages, as a frame of float64.

    ValueError where there is no column, a name occurs twice, or a column has text that is not a
    number, missing values or infinity.
    """
    pd = import_module("pandas")
    if frame.shape[1] == 0:
        raise ValueError(f"{name} has no feature column.")
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"{name} has the column {twice!r} twice.")
    numbers = {column: _as_numbers(values) for column, values in frame.items()}
    text = [column for column, values in numbers.items() if values is None]
    if text:
        raise ValueError(
            f"{name} has text columns that cannot be used as numbers: {listed(text)}; encode them "
            "as numbers or leave them out."
        )
    table = pd.DataFrame(numbers, index=frame.index)
    counts = table.isna().sum()
    if counts.any():
        named = listed(f"{column} ({count})" for column, count in counts.items() if count)
        raise ValueError(f"{name} has missing values in the columns {named}; fill or drop them.")
    infinite = [column for column in table if not np.isfinite(table[column]).all()]
    if infinite:
        raise ValueError(f"{name} has infinite values in the columns {listed(infinite)}.")
    return table


def _as_numbers(column: Any) -> NDArray[np.float64] | None:
    """Values of a column, NaN where they are missing; None where some are no numbers."""
    pd = import_module("pandas")
    if hasattr(column, "cat"):
        column = column.astype(column.cat.categories.dtype)
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_complex_dtype(column):
        found = column.astype("Float64")
    else:
        # A column of an object type can hold booleans beside missing values; dates and the like
        # are not numbers and must not become nanoseconds.
        plain = column.map(lambda value: int(value) if isinstance(value, bool) else value)
        found = pd.to_numeric(plain.astype("string"), errors="coerce")
        if found[column.notna()].isna().any():
            return None
    return np.asarray(found.to_numpy(dtype=np.float64, na_value=np.nan))


def listed(names: Any, most: int = 12) -> str:
    """Join names for a message, the first `most` of them."""
    names = [str(name) for name in names]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
