"""Kernels as plain data: a loader such as skops builds only types that it trusts."""

import inspect
from typing import Any, Final

from sklearn.gaussian_process import kernels as sklearn_kernels
from sklearn.gaussian_process.kernels import Kernel

from gpclass.kernels.columns import ColumnKernel
from gpclass.kernels.mixed import MixedRBF
from gpclass.kernels.precomputed import Precomputed

KNOWN: Final[dict[str, type[Kernel]]] = {
    **{kind.__name__: kind for kind in (ColumnKernel, MixedRBF, Precomputed)},
    **{
        name: kind
        for name, kind in inspect.getmembers(sklearn_kernels, inspect.isclass)
        if issubclass(kind, Kernel) and not inspect.isabstract(kind)
    },
}


def to_recipe(kernel: Kernel) -> Any:
    """Turn a kernel, or a list of them, into a dict of its class's name and its parameters.

    A user's own class is returned as it is.
    """
    if isinstance(kernel, list | range):
        return [to_recipe(one) for one in kernel]
    if KNOWN.get(type(kernel).__name__) is not type(kernel):
        return kernel
    parameters = kernel.get_params(deep=False)
    return {
        "kernel": type(kernel).__name__,
        "parameters": {name: to_recipe(value) for name, value in parameters.items()},
    }


def from_recipe(recipe: object) -> Any:
    """Build the kernel of a recipe; anything else is returned as it is."""
    if isinstance(recipe, list):
        return [from_recipe(one) for one in recipe]
    if not (isinstance(recipe, dict) and set(recipe) == {"kernel", "parameters"}):
        return recipe
    if recipe["kernel"] not in KNOWN:
        raise ValueError(f"the model has a kernel {recipe['kernel']!r} that does not exist here")
    return KNOWN[recipe["kernel"]](
        **{name: from_recipe(value) for name, value in recipe["parameters"].items()}
    )
