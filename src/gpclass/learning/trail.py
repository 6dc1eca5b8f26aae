"""Where inference starts under an optimiser: sites foretold from those along its way."""

from dataclasses import dataclass, field
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from gpclass.inference.sites import Sites

Array = NDArray[np.float64]

# Evaluations that a forecast may draw on beyond the number of hyperparameters and one more.
SPARE: Final = 2
# Most of them: what lies further back says little.
MOST: Final = 8
# Part of the distances that keeps a forecast from leaning on points far away.
RIDGE: Final = 0.05


@final
@dataclass
class Trail:
    """Sites at the hyperparameters of an optimiser's last evaluations, and what follows next.

    A forecast is where inference starts and nothing else: the fixed point does not depend on it.

    Examples
    --------
    Precisions that fall in proportion to a signal variance go on doing so:

    >>> import numpy as np
    >>> trail = Trail()
    >>> for theta in (0.0, 1.0):
    ...     trail.add(np.array([theta]), Sites(np.ones(2), np.exp(-theta) * np.ones(2)))
    >>> bool(np.abs(np.log(trail.forecast(np.array([1.5])).tau) + 1.5).max() < 0.1)
    True
    """

    known: list[tuple[Array, Any]] = field(default_factory=list)

    def add(self, theta: Array, sites: Any) -> None:
        """Remember the sites of an evaluation."""
        self.known.append((np.array(theta), sites))
        del self.known[: -min(len(theta) + 1 + SPARE, MOST)]

    def forecast(self, theta: Array) -> Any:
        """Sites to start from at theta; None where there are none yet.

        The affine combination of the sites before whose own hyperparameters are nearest to theta:
        of the logarithms where a parameter has one sign in all of them.
        """
        if not self.known:
            return None
        thetas, sites = zip(*self.known, strict=True)
        if len(sites) == 1 or not all(isinstance(one, Sites) for one in sites):
            return sites[-1]
        weights = _affine(np.array(thetas) - theta)
        nu = _combined(np.array([one.nu for one in sites]), weights)
        tau = _combined(np.array([one.tau for one in sites]), weights)
        if not (np.isfinite(nu).all() and np.isfinite(tau).all()):
            return sites[-1]
        return Sites(nu, tau)


def _affine(D: Array) -> Array:
    """Weights w, of sum one, with least ``|w D|^2 + RIDGE sum_k w_k^2 |D_k|^2``."""
    squares = np.square(D).sum(axis=1)
    nearest = squares.min()
    if nearest == 0.0:
        return np.asarray((squares == 0.0) / np.count_nonzero(squares == 0.0))
    scaled = D / np.sqrt(nearest)
    A = scaled @ scaled.T
    A.flat[:: len(A) + 1] *= 1.0 + RIDGE
    w = np.linalg.solve(A, np.ones(len(A)))
    return np.asarray(w / w.sum())


def _combined(values: Array, weights: Array) -> Array:
    """Weighted sums over the first axis, of logarithms where the sign is one for all."""
    sign = np.sign(values[-1])
    same = ((np.sign(values) == sign) & (values != 0.0)).all(axis=0)
    found = weights @ values
    found[same] = sign[same] * np.exp(weights @ np.log(np.abs(values[:, same])))
    return found
