"""What the papers compare Gaussian process classification with, and scikit-learn lacks."""

from gpclass.estimator.baselines.least_squares import GaussianProcessLeastSquaresClassifier
from gpclass.estimator.baselines.linear_probit import LinearProbitClassifier
from gpclass.estimator.baselines.neighbour import NearestNeighbourClassifier

__all__ = [
    "GaussianProcessLeastSquaresClassifier",
    "LinearProbitClassifier",
    "NearestNeighbourClassifier",
]
