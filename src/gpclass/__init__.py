"""Gaussian process classification with honest class probabilities, for users of scikit-learn."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpclass._version import __version__

if TYPE_CHECKING:
    from gpclass.estimator.classifier import GaussianProcessClassifier
    from gpclass.estimator.saving import trusted_types

__all__ = ["GaussianProcessClassifier", "__version__", "trusted_types"]

_HOMES = {
    "GaussianProcessClassifier": "gpclass.estimator.classifier",
    "trusted_types": "gpclass.estimator.saving",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `gpclass --help` need not wait a second for scikit-learn."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'gpclass' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
