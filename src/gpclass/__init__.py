"""Gaussian process classification with honest class probabilities, for users of scikit-learn."""

from gpclass._version import __version__

__all__ = ["__version__"]
