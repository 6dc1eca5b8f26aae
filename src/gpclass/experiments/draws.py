"""What the experiments on drawn data share: a kernel that is kept, claims over draws."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel

from gpclass.experiments.form import Found, Place


def squared_exponential(length_scale: float, deviation: float, *, learnt: bool = False) -> Kernel:
    """``sigma_f^2 exp(-|x - x'|^2 / (2 l^2))`` of l and sigma_f, kept or with wide bounds.

    Examples
    --------
    >>> squared_exponential(2.6, 7.0)
    7**2 * RBF(length_scale=2.6)
    """
    return ConstantKernel(deviation**2, (1e-4, 1e6) if learnt else "fixed") * RBF(
        length_scale, (1e-2, 1e3) if learnt else "fixed"
    )


def claims(
    draws: Sequence[Mapping[str, Any]], texts: Mapping[str, str]
) -> dict[Place, bool | float]:
    """Cells of claims: does each hold in most draws, and in which share of them.

    Parameters
    ----------
    draws : sequence of mapping
        Of each draw whether the claims hold, by their keys.
    texts : mapping
        Key -> the claim, as the row of the table.
    """
    cells: dict[Place, bool | float] = {}
    for key, text in texts.items():
        share = float(np.mean([draw[key] for draw in draws]))
        cells[text, "holds"] = share > 0.5
        cells[text, "share of draws"] = share
    return cells


def mean_and_error(values: Sequence[float] | NDArray[np.float64]) -> tuple[float, float]:
    """Mean and its standard error, 0 of a single value."""
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
    return float(np.mean(values)), error


def over_draws(values: Sequence[float]) -> Found:
    """Mean, its standard error and the range."""
    return Found(*mean_and_error(values), (float(np.min(values)), float(np.max(values))))
