"""Evaluation and pullback of scikit-learn's kernels, Gram matrices as inputs, a default kernel.

The kernel language is that of `sklearn.gaussian_process.kernels`; nothing of it is redefined.
"""

from gpclass.kernels import composite, elementary, stationary  # noqa: F401  # register their rules
from gpclass.kernels.defaults import default_kernel, median_distance
from gpclass.kernels.evaluate import cross, diagonal, evaluate, uses_precomputed
from gpclass.kernels.inputs import restrict, take
from gpclass.kernels.precomputed import Precomputed, validate_precomputed
from gpclass.kernels.pullback import pullback

__all__ = [
    "Precomputed",
    "cross",
    "default_kernel",
    "diagonal",
    "evaluate",
    "median_distance",
    "pullback",
    "restrict",
    "take",
    "uses_precomputed",
    "validate_precomputed",
]
