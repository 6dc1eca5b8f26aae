"""What it means that hyperparameters of a kernel ended on their bounds, in one message a fit."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from gpclass.estimator.inputs import listed
from gpclass.estimator.model import Model
from gpclass.kernels import column_scales
from gpclass.learning.hyperparameters import parameter_names

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


def message_of_bounds(names: Sequence[str], models: Sequence[Model]) -> str | None:
    """One message of all hyperparameters that ended on a bound, by what it means; None of none.

    A length-scale at an upper bound where its column does not matter is an answer, and left out.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for problem_name, model in zip(names, models, strict=True):
        kernels = model.problem.kernels
        for c, kernel in enumerate(kernels):
            where = f"kernels[{c}]__" if len(kernels) > 1 else ""
            of = f" ({problem_name})" if len(models) > 1 else ""
            for name, value, side in on_bounds(kernel, model.problem.X):
                meaning = MEANINGS.get((name.split("__")[-1].partition("[")[0], side), OTHER)
                found.setdefault((meaning, side), []).append(f"{where}{name} = {value:.3g}{of}")
    if not found:
        return None
    told = "; ".join(
        f"{listed(entries, 6)} close to the {side} bound: {meaning}"
        for (meaning, side), entries in found.items()
    )
    return (
        f"hyperparameters of the kernel ended on a bound. {told}. The predictions are those of "
        "these values; widen a bound only to see where its value would go"
    )


def on_bounds(kernel: Any, X: Any) -> list[tuple[str, float, str]]:
    """Name, value and side of the free hyperparameters on a bound, but of columns of no matter."""
    no_matter = set()
    if kernel.requires_vector_input:
        table = np.asarray(X, dtype=np.float64)
        no_matter = {one.parameter for one in column_scales(kernel, table) if not one.matters}
    found = []
    for name, theta, (low, high) in zip(
        parameter_names(kernel), kernel.theta, kernel.bounds.reshape(-1, 2), strict=True
    ):
        # as near as scikit-learn's `_check_bounds_params` asks for
        if np.isclose(low, theta):
            found.append((name, float(np.exp(theta)), "lower"))
        elif np.isclose(high, theta) and name not in no_matter:
            found.append((name, float(np.exp(theta)), "upper"))
    return found
