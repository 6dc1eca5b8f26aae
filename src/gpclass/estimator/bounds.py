"""What it means that hyperparameters of a kernel ended on their bounds.

One or two have a warning each, as in scikit-learn. More have one message together, which says what
they mean: a kernel with a length-scale for each column would fill a screen.
"""

import warnings
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpclass.estimator.inputs import listed
from gpclass.estimator.model import Model
from gpclass.exceptions import ConvergenceWarning
from gpclass.kernels import column_scales
from gpclass.learning.hyperparameters import parameter_names
from gpclass.learning.objective import near_bounds

# So many hyperparameters on bounds of the user's have a warning each, as scikit-learn words it: to
# widen those is advice. To widen the defaults of scikit-learn's kernels is none.
FEW: Final = 2
DEFAULTS: Final = np.log([1e-5, 1e5])
# By the end of the hyperparameter's name and the side.
MEANINGS: Final = {
    ("constant_value", "upper"): "the classes are separable as far as this kernel can see",
    ("constant_value", "lower"): "this part of the kernel is not needed",
    ("length_scale", "upper"): "the latent varies less along the columns than the bound allows for",
    ("length_scale", "lower"): (
        "rows say nothing of other rows: look for equal rows with different labels, or for a "
        "bound that is too large for the unit of the columns"
    ),
    ("noise_level", "upper"): "most of the latent is noise",
    ("noise_level", "lower"): "no noise is needed",
}
OTHER: Final = "the evidence would still rise beyond it"


class OnBound(NamedTuple):
    """A hyperparameter on a bound: its name, its value, and the side, "lower" or "upper"."""

    name: str
    value: float
    side: str


def warn_of_bounds(names: Sequence[str], models: Sequence[Model]) -> None:
    """Warn of all hyperparameters of the models, whose names are given, that ended on a bound.

    A length-scale at its upper bound whose column does not matter is an answer, and left out.
    """
    found: list[tuple[str, OnBound, str]] = []
    on: list[float] = []
    for name, model in zip(names, models, strict=True):
        kernels = model.problem.kernels
        after = f" ({name})" if len(models) > 1 else ""
        for c, kernel in enumerate(kernels):
            before = f"kernels[{c}]__" if len(kernels) > 1 else ""
            found += [(before, one, after) for one in on_bounds(kernel, model.problem.X)]
            on += list(kernel.bounds.reshape(-1, 2)[sides_on_bounds(kernel)])
    if found and len(on) <= FEW and not np.isclose(np.array(on)[:, None], DEFAULTS).any():
        for model in models:
            for kernel in model.problem.kernels:
                kernel._check_bounds_params()
    elif found:
        warnings.warn(message_of_bounds(found), ConvergenceWarning, stacklevel=4)


def message_of_bounds(found: Sequence[tuple[str, OnBound, str]]) -> str:
    """One message of hyperparameters on bounds, by what it means; text is set around each name."""
    groups: dict[tuple[str, str], list[str]] = {}
    for before, (name, value, side), after in found:
        meaning = MEANINGS.get((name.split("__")[-1].partition("[")[0], side), OTHER)
        groups.setdefault((meaning, side), []).append(f"{before}{name} = {value:.3g}{after}")
    parts = "; ".join(
        f"{listed(texts, 6)} close to the {side} bound: {meaning}"
        for (meaning, side), texts in groups.items()
    )
    return (
        f"hyperparameters of the kernel ended on a bound. {parts}. The predictions are those of "
        "these values; widen a bound only to see where its value would go"
    )


def sides_on_bounds(kernel: Any) -> NDArray[np.bool_]:
    """Whether entries of the kernel's theta are on their lower and their upper bound, (p, 2)."""
    return near_bounds(kernel.theta, kernel.bounds.reshape(-1, 2))


def on_bounds(kernel: Any, X: Any) -> list[OnBound]:
    """Free hyperparameters on a bound, without the upper bounds of columns that do not matter."""
    on = sides_on_bounds(kernel)
    idle = set()
    if on[:, 1].any() and kernel.requires_vector_input:
        table = np.asarray(X, dtype=np.float64)
        idle = {one.parameter for one in column_scales(kernel, table) if not one.matters}
    found = []
    for name, theta, (low, high) in zip(parameter_names(kernel), kernel.theta, on, strict=True):
        if low or (high and name not in idle):
            found.append(OnBound(name, float(np.exp(theta)), "lower" if low else "upper"))
    return found
