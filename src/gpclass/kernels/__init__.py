"""Evaluation and pullback of scikit-learn's kernels, Gram matrices as inputs, a default kernel."""

from gpclass.kernels import composite, elementary, stationary  # noqa: F401  # register their rules
from gpclass.kernels.columns import ColumnKernel, resolved, uses_names
from gpclass.kernels.composite import KernelList
from gpclass.kernels.defaults import (
    default_kernel,
    expected_lengths,
    median_distance,
    two_valued,
)
from gpclass.kernels.evaluate import cross, diagonal, evaluate
from gpclass.kernels.mixed import MixedRBF
from gpclass.kernels.precomputed import (
    Precomputed,
    restrict,
    take,
    uses_precomputed,
    validate_precomputed,
)
from gpclass.kernels.pullback import pullback
from gpclass.kernels.recipe import from_recipe, to_recipe
from gpclass.kernels.rectangle import columns_of, pullback_cross, pullback_diagonal, rectangle
from gpclass.kernels.scales import ColumnScale, column_scales, columns_as_numbers
from gpclass.kernels.slopes import diagonal_slope, input_pullback
from gpclass.kernels.theta import n_free, with_theta

__all__ = [
    "ColumnKernel",
    "ColumnScale",
    "KernelList",
    "MixedRBF",
    "Precomputed",
    "column_scales",
    "columns_as_numbers",
    "columns_of",
    "cross",
    "default_kernel",
    "diagonal",
    "diagonal_slope",
    "evaluate",
    "expected_lengths",
    "from_recipe",
    "input_pullback",
    "median_distance",
    "n_free",
    "pullback",
    "pullback_cross",
    "pullback_diagonal",
    "rectangle",
    "resolved",
    "restrict",
    "take",
    "to_recipe",
    "two_valued",
    "uses_names",
    "uses_precomputed",
    "validate_precomputed",
    "with_theta",
]
