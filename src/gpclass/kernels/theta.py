"""Kernels at other hyperparameters, without a search for their names at each evaluation.

scikit-learn finds the hyperparameters of a kernel by ``dir`` and copies it by ``clone``: at 50 rows
that took as long as the kernel's matrix, its factor and its inverse together.
"""

from copy import copy
from functools import cache
from typing import Any, Final

import numpy as np
from sklearn.gaussian_process.kernels import Exponentiation, Kernel, Product, Sum

from gpclass.linalg import Array

# Where compositions keep their parts, in the order of theta.
_PARTS: Final[dict[type[Any], tuple[str, ...]]] = {
    Sum: ("k1", "k2"),
    Product: ("k1", "k2"),
    Exponentiation: ("kernel",),
}


@cache
def _settings(kind: Any) -> tuple[str, ...] | None:
    """Names of a class's hyperparameter properties; None where it has a theta of its own."""
    shared = ("theta", "hyperparameters", "n_dims", "set_params", "clone_with_theta")
    if any(getattr(kind, name) is not getattr(Kernel, name) for name in shared):
        return None
    return tuple(name for name in dir(kind) if name.startswith("hyperparameter_"))


def n_free(kernel: Any) -> int:
    """Length of ``kernel.theta``."""
    kind: Any = type(kernel)
    if kind in _PARTS:
        return sum(n_free(getattr(kernel, part)) for part in _PARTS[kind])
    names = _settings(kind)
    if names is None:
        return int(kernel.n_dims)
    settings = [getattr(kernel, name) for name in names]
    return sum(int(one.n_elements) for one in settings if not one.fixed)


def with_theta(kernel: Any, theta: Array) -> Any:
    """``kernel.clone_with_theta(theta)``; what theta does not have is shared, not copied.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.kernels import with_theta
    >>> with_theta(2.0 * RBF([1.0, 1.0]), np.log([9.0, 3.0, 4.0]))
    3**2 * RBF(length_scale=[3, 4])
    """
    return _moved(kernel, theta)[0]


def _moved(kernel: Any, theta: Array) -> tuple[Any, int]:
    """The kernel at the first entries of theta, and how many these are."""
    kind: Any = type(kernel)
    parts, names = _PARTS.get(kind), _settings(kind)
    if parts is None and names is None:
        size = int(kernel.n_dims)
        return kernel.clone_with_theta(theta[:size]), size
    moved, start = copy(kernel), 0
    for part in parts or ():
        inner, size = _moved(getattr(kernel, part), theta[start:])
        setattr(moved, part, inner)
        start += size
    for name in names or ():
        one = getattr(kernel, name)
        if not one.fixed:
            values = np.exp(theta[start : start + one.n_elements])
            setattr(moved, one.name, values if one.n_elements > 1 else values[0])
            start += one.n_elements
    return moved, start
