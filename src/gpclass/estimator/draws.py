"""Draws of hyperparameters, as ArviZ takes them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpclass.estimator.labels import labels_of_theta


def hyperparameter_draws(model: Any, problem: int = 0) -> dict[str, NDArray[np.float64]]:
    """Draws of each hyperparameter of a problem on its own scale, (chains, draws), by its label.

    ValueError for a model that has none, and for a problem that there is not.
    """
    if not 0 <= problem < len(model.models_):
        raise ValueError(f"problem must be from 0 to {len(model.models_) - 1}, got {problem}.")
    one = model.models_[problem]
    draws = one.learned.draws
    if draws is None:
        raise ValueError(
            "this model has no draws of its hyperparameters: fit it with learning='nuts', where "
            "one of them is free and not on a bound"
        )
    values = np.moveaxis(np.exp(draws), -1, 0)
    return dict(zip(labels_of_theta(model, one.problem), values, strict=True))


def arviz_dataset(draws: dict[str, NDArray[np.float64]]) -> Any:
    """A dataset of ArviZ; ImportError with the pip line where it is missing."""
    try:
        import arviz
    except ImportError as error:
        raise ImportError(
            "to_arviz needs ArviZ; install it with: pip install 'gpclass[arviz]'"
        ) from error
    return arviz.convert_to_dataset(draws)
