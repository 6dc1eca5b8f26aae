"""Tables and labels of the baselines, read as scikit-learn asks."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

Array = NDArray[np.float64]


class TwoClasses(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier of two classes whose subclass answers ``_probability(X)`` of the second."""

    classes_: NDArray[Any]

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the two classes, in the order of ``classes_``, shape (m, 2)."""
        positive = self._probability(new_rows(self, X))
        return np.column_stack([1.0 - positive, positive])

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class of each row, shape (m,)."""
        P = self.predict_proba(X)
        return np.asarray(self.classes_[P.argmax(axis=1)])

    @abstractmethod
    def _probability(self, X: Array) -> Array:
        """Probability of the second class, shape (m,)."""

    def __sklearn_tags__(self) -> Any:
        """Say that it takes two classes; `sklearn.multiclass.OneVsRestClassifier` makes more."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def two_classes(estimator: Any, X: Any, y: Any) -> tuple[Array, Array]:
    """Read X as (n, d) and y as labels of -1 and +1, and note the ``classes_``.

    ValueError for other than two classes.
    """
    X, codes = classes_of(estimator, X, y)
    if len(estimator.classes_) > 2:
        raise ValueError(
            f"Only binary classification is supported. y has {len(estimator.classes_)} classes: "
            "take sklearn.multiclass.OneVsRestClassifier around it"
        )
    return X, np.where(codes == 1, 1.0, -1.0)


def classes_of(estimator: Any, X: Any, y: Any) -> tuple[Array, NDArray[np.intp]]:
    """Read X as (n, d) and y as indices of the ``classes_``, which are noted.

    ValueError for one class.
    """
    X, y = validate_data(estimator, X, y, dtype=np.float64)
    check_classification_targets(y)
    estimator.classes_, codes = np.unique(y, return_inverse=True)
    if len(estimator.classes_) < 2:
        raise ValueError(f"y has one class ({estimator.classes_[0]}), and two are needed")
    return X, codes


def new_rows(estimator: Any, X: Any) -> Array:
    """New rows of a fitted estimator, shape (m, d)."""
    check_is_fitted(estimator)
    return np.asarray(validate_data(estimator, X, reset=False, dtype=np.float64))
