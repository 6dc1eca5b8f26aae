"""What the checks share: central differences, and comparisons that name a law."""

from collections.abc import Callable
from typing import Any

import numpy as np


def difference(function: Callable[[float], Any], step: float) -> Any:
    """Derivative at zero by central differences of fourth order, of numbers or arrays."""
    below2, below, above, above2 = (function(t * step) for t in (-2, -1, 1, 2))
    return (8.0 * (above - below) - (above2 - below2)) / (12.0 * step)


def check_close(law: str, got: object, want: object, rtol: float, scale: float = 0.0) -> None:
    """Assert that all entries agree to ``rtol`` of the largest, or of ``scale`` if larger."""
    got, want = np.asarray(got, dtype=np.float64), np.asarray(want, dtype=np.float64)
    scale = max(1e-300, scale, float(np.abs(want).max(initial=0.0)))
    error = float(np.abs(got - want).max(initial=0.0)) / scale
    assert error <= rtol, f"{law}: off by {error:.2e} of the largest entry, allowed {rtol:g}"
