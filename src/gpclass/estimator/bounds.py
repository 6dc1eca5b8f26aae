"""What it means that hyperparameters of a kernel ended on their bounds.

One or two are told as scikit-learn tells them, a warning each; more in one message that says what
each means: a kernel with a length-scale a column would fill a screen.
"""

import warnings
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpclass.estimator.inputs import listed
from gpclass.estimator.model import Model
from gpclass.exceptions import ConvergenceWarning
from gpclass.kernels import column_scales
from gpclass.learning.hyperparameters import parameter_names

# Values on bounds that are told in scikit-learn's words.
FEW: Final = 2
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


def warn_of_bounds(names: Sequence[str], models: Sequence[Model]) -> None:
    """Warn of all hyperparameters that ended on a bound.

    A length-scale at an upper bound where its column does not matter is an answer, and left out.
    """
    kernels = [(kernel, model.problem.X) for model in models for kernel in model.problem.kernels]
    told = sum(len(on_bounds(kernel, X)) for kernel, X in kernels)
    if (
        told
        and sum(int(values_on_bounds(kernel).any(axis=1).sum()) for kernel, _ in kernels) <= FEW
    ):
        for kernel, _ in kernels:
            kernel._check_bounds_params()
    elif told:
        warnings.warn(message_of_bounds(names, models), ConvergenceWarning, stacklevel=4)


def message_of_bounds(names: Sequence[str], models: Sequence[Model]) -> str:
    """One message of all hyperparameters that ended on a bound, by what it means."""
    found: dict[tuple[str, str], list[str]] = {}
    for problem_name, model in zip(names, models, strict=True):
        kernels = model.problem.kernels
        for c, kernel in enumerate(kernels):
            where = f"kernels[{c}]__" if len(kernels) > 1 else ""
            of = f" ({problem_name})" if len(models) > 1 else ""
            for name, value, side in on_bounds(kernel, model.problem.X):
                meaning = MEANINGS.get((name.split("__")[-1].partition("[")[0], side), OTHER)
                found.setdefault((meaning, side), []).append(f"{where}{name} = {value:.3g}{of}")
    told = "; ".join(
        f"{listed(entries, 6)} close to the {side} bound: {meaning}"
        for (meaning, side), entries in found.items()
    )
    return (
        f"hyperparameters of the kernel ended on a bound. {told}. The predictions are those of "
        "these values; widen a bound only to see where its value would go"
    )


def values_on_bounds(kernel: Any) -> NDArray[np.bool_]:
    """Whether entries of theta are on their lower and upper bound, (p, 2), as scikit-learn asks."""
    return np.asarray(np.isclose(kernel.bounds.reshape(-1, 2), kernel.theta[:, None]))


def on_bounds(kernel: Any, X: Any) -> list[tuple[str, float, str]]:
    """Name, value and side of the free hyperparameters on a bound, but of columns of no matter."""
    on = values_on_bounds(kernel)
    no_matter = set()
    if on[:, 1].any() and kernel.requires_vector_input:
        table = np.asarray(X, dtype=np.float64)
        no_matter = {one.parameter for one in column_scales(kernel, table) if not one.matters}
    found = []
    for name, theta, (low, high) in zip(parameter_names(kernel), kernel.theta, on, strict=True):
        if low or (high and name not in no_matter):
            found.append((name, float(np.exp(theta)), "lower" if low else "upper"))
    return found
