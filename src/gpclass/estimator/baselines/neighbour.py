"""The nearest neighbour with the probability that it is right."""

from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import NearestNeighbors

from gpclass.estimator.baselines.labels import Array, classes_of, new_rows


@final
class NearestNeighbourClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Probabilistic one nearest neighbour (P1NN), the baseline of RW06 section 3.7.

    The class of the nearest training row has the probability that leave-one-out has found it to be
    right, and all other classes share the rest. RW06 reject by the distance to the neighbour, as
    the probabilities are the same everywhere (`distance`).

    Parameters
    ----------
    metric : str or callable, default="euclidean"
        Any metric of `sklearn.neighbors.NearestNeighbors`.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
    accuracy_ : float
        The share of the training rows whose nearest other row has their class. Where it is 1, the
        other classes have probability 0, and one error is an infinite log loss.

    References
    ----------
    RW06 section 3.7.3 for two classes and 3.7.4 for more. It is not the Bayesian method of Holmes &
    Adams, *A probabilistic nearest neighbour method for statistical pattern recognition*, 2002.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpclass.estimator.baselines import NearestNeighbourClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> NearestNeighbourClassifier().fit(X, y).predict_proba(X[:1]).round(3)
    array([[0.96, 0.02, 0.02]])
    """

    def __init__(self, metric: Any = "euclidean") -> None:
        self.metric = metric

    def fit(self, X: Any, y: Any) -> "NearestNeighbourClassifier":
        """Keep the rows, and find how often leave-one-out is right.

        Raises
        ------
        ValueError
            For fewer than two classes.
        """
        X, codes = classes_of(self, X, y)
        self._neighbours = NearestNeighbors(n_neighbors=1, metric=self.metric).fit(X)
        self._codes = codes
        # without rows that are given, a row is no neighbour of its own
        others = self._neighbours.kneighbors(return_distance=False)[:, 0]
        self.accuracy_ = float(np.mean(codes[others] == codes))
        return self

    def _nearest(self, X: Any) -> tuple[Array, NDArray[np.intp]]:
        X = new_rows(self, X)
        distances, rows = self._neighbours.kneighbors(X)
        return distances[:, 0], self._codes[rows[:, 0]]

    def distance(self, X: Any) -> Array:
        """Distance to the nearest training row, shape (m,): reject where it is large."""
        return self._nearest(X)[0]

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities, shape (m, C)."""
        _, nearest = self._nearest(X)
        n_classes = len(self.classes_)
        P = np.full((len(nearest), n_classes), (1.0 - self.accuracy_) / (n_classes - 1))
        P[np.arange(len(nearest)), nearest] = self.accuracy_
        return P

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class, shape (m,): the neighbour's unless that is wrong more often."""
        _, nearest = self._nearest(X)
        if self.accuracy_ >= 1.0 / len(self.classes_):
            return np.asarray(self.classes_[nearest])
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])
