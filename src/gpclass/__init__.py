"""Gaussian process classification with honest class probabilities, for users of scikit-learn."""

from gpclass._version import __version__
from gpclass.classifier import GaussianProcessClassifier
from gpclass.persistence import trusted_types

__all__ = ["GaussianProcessClassifier", "__version__", "trusted_types"]
