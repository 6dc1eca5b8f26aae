"""The contract of a kind of X: a table is checked, learnt from, and given to the kernels."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

Labels = NDArray[Any]


class Inputs(ABC):
    """A kind of X: made anew for each fit, it keeps what it learnt of the training table.

    `rescale` and `transform` return what the kernel takes: it has a length, and an ndarray of rows
    as index.
    """

    @classmethod
    @abstractmethod
    def takes(cls, kernel: object, X: Any) -> bool:
        """Whether an X of this kind goes with the estimator's argument ``kernel``."""

    @abstractmethod
    def fit(self, estimator: BaseEstimator, X: Any, y: Any) -> tuple[Any, Labels]:
        """Check a training table; return its n rows, for `rescale`, and y of shape (n,).

        ``estimator`` gets ``n_features_in_`` and ``feature_names_in_``; messages have its name.
        """

    def rescale(self, X: Any, used: NDArray[np.intp] | None) -> Any:
        """Learn units and levels of the rows ``used`` (None: all); return all n rows for kernels.

        The default is for kinds that have no units. In the others a row of weight two must have the
        effect of the same row given twice.
        """
        return X

    @abstractmethod
    def transform(self, estimator: BaseEstimator, X: Any) -> Any:
        """Inputs of the kernel at new rows, checked against those of the fit."""
