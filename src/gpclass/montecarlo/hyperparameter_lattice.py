"""A lattice of hyperparameters along their posterior's axes, and chains that move on it."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from gpclass import linalg
from gpclass.inference.sites import Sites
from gpclass.linalg import Array
from gpclass.montecarlo.hyperparameter_nodes import Draws, Place, Target

Indices = NDArray[np.intp]
Node = tuple[int, ...]

# Lattice steps in deviations of the posterior: the trapezoidal rule errs by exp(-2 (pi / 1.2)^2),
# one in a million, for a Gaussian.
SPACING: Final = 1.2
# How far below the best node (in nats) one still has its neighbours visited.
DEPTH: Final = 6.0
# Deviations of log hyperparameters that the lattice's steps are taken from; the curvature of a
# plateau says nothing.
DEVIATIONS: Final = (0.03, 1.0)
# Step of the differences that curvature is taken from, in log hyperparameters.
STEP: Final = 0.2


@final
@dataclass(frozen=True)
class Lattice:
    """Nodes of theta, EP's share of the posterior at each, and who is whose neighbour."""

    places: list[Place]
    shares: Array
    neighbours: Indices

    @classmethod
    def grow(cls, model: Target, origin: Array, max_nodes: int) -> "Lattice":
        """Visit neighbours of nodes that are not far below the best one, from the best on."""
        best, first = model.log_posterior(origin, None)
        axes = SPACING * _axes(model, origin, first)
        zero = (0,) * len(origin)
        found = {zero: (best, first)}
        waiting = [zero]
        while waiting:
            if len(found) > max_nodes:
                raise ValueError(
                    f"the posterior of the hyperparameters of {model.kernel} needs a lattice of "
                    f"more than {max_nodes} nodes; narrow the bounds, give a log_prior, or fix a "
                    "hyperparameter that the data say nothing about"
                )
            waiting.sort(key=lambda node: found[node][0])
            node = waiting.pop()
            if found[node][0] < max(value for value, _ in found.values()) - DEPTH:
                break
            for neighbour in _neighbours(node):
                theta = origin + axes @ neighbour
                if neighbour not in found and model.inside(theta):
                    found[neighbour] = model.log_posterior(theta, found[node][1])
                    waiting.append(neighbour)
        top = max(value for value, _ in found.values())
        kept = [node for node, (value, _) in found.items() if value > top - 2.0 * DEPTH]
        places = [model.place(origin + axes @ node, *found[node]) for node in kept]
        number = {node: k for k, node in enumerate(kept)}
        neighbours = np.array([[number.get(n, -1) for n in _neighbours(node)] for node in kept])
        shares = np.exp(np.array([place.log_ep for place in places]) - top)
        return cls(places, shares / shares.sum(), neighbours)


def _axes(model: Target, origin: Array, sites: Sites) -> Array:
    """Principal deviations of the posterior near origin by differences, as columns."""
    p = len(origin)
    middle = np.clip(origin, model.bounds[:, 0] + STEP, model.bounds[:, 1] - STEP)

    def at(*steps: tuple[int, float]) -> float:
        theta = middle.copy()
        for i, step in steps:
            theta[i] += step
        return model.log_posterior(theta, sites)[0]

    centre = at()
    ahead = [at((i, STEP)) for i in range(p)]
    behind = [at((i, -STEP)) for i in range(p)]
    H = np.diag([2.0 * centre - a - b for a, b in zip(ahead, behind, strict=True)])
    for i, j in itertools.combinations(range(p), 2):
        both = at((i, STEP), (j, STEP))
        H[i, j] = H[j, i] = ahead[i] + ahead[j] - centre - both
    # the mixed difference has the pure ones' error; the mean with its mirror image has less
    for i, j in itertools.combinations(range(p), 2):
        both = at((i, -STEP), (j, -STEP))
        H[i, j] = H[j, i] = 0.5 * (H[i, j] + behind[i] + behind[j] - centre - both)
    curvature, vectors = linalg.symmetric_eigen(H / STEP**2)
    low, high = DEVIATIONS
    deviations = 1.0 / np.sqrt(np.clip(curvature, high**-2, low**-2))
    return np.asarray(vectors * deviations)


def _neighbours(node: Node) -> Iterator[Node]:
    for steps in itertools.product((-1, 0, 1), repeat=len(node)):
        if any(steps):
            yield tuple(i + s for i, s in zip(node, steps, strict=True))


@final
class Chains:
    """Where the chains are: at which nodes, with which coordinates and latent values."""

    def __init__(self, model: Target, lattice: Lattice, at: Indices, draws: Draws) -> None:
        self.model = model
        self.lattice = lattice
        self.at = at
        self.draws = draws

    @classmethod
    def start(
        cls, model: Target, lattice: Lattice, n_chains: int, rng: np.random.Generator
    ) -> "Chains":
        """Draw nodes by EP's evidence and latent values from its Gaussians."""
        at = rng.choice(len(lattice.places), n_chains, p=lattice.shares)
        n = len(model.y)
        blank = np.empty((n, n_chains))
        draws = Draws(blank, blank.copy(), blank.copy(), np.empty(n_chains), np.empty(n_chains))
        chains = cls(model, lattice, at, draws)
        eta = rng.standard_normal((n, n_chains))
        for place, where in chains.by_node(at):
            chains.put(where, model.draws(place, eta[:, where]))
        return chains

    def by_node(self, nodes: Indices) -> Iterator[tuple[Place, Indices]]:
        """Places, and which chains have them."""
        for node in np.unique(nodes[nodes >= 0]):
            yield self.lattice.places[node], np.flatnonzero(nodes == node)

    def put(self, where: Indices, new: Draws) -> None:
        """Replace some chains' draws."""
        for mine, part in zip(self.draws, new, strict=True):
            mine[..., where] = part

    def neighbours(self, rng: np.random.Generator) -> Indices:
        """For each chain one of its node's neighbours at random, -1 where there is none."""
        table = self.lattice.neighbours
        return table[self.at, rng.integers(table.shape[1], size=len(self.at))]

    def move(self, there: Indices, log_ratio: Array, rng: np.random.Generator) -> int:
        """Metropolis steps to other nodes at the same coordinates; how many were accepted.

        ``log_ratio`` is that of the proposals, back over forth.
        """
        mass = np.array([place.log_mass for place in self.lattice.places])
        threshold = -rng.standard_exponential(len(there))
        n_accepted = 0
        for place, where in self.by_node(there):
            trial = self.model.draws(place, self.draws.eta[:, where])
            gain = trial.excess - self.draws.excess[where] + place.log_mass - mass[self.at[where]]
            yes = threshold[where] <= gain + log_ratio[where]
            self.put(where[yes], Draws(*(part[..., yes] for part in trial)))
            self.at[where[yes]] = there[where[yes]]
            n_accepted += int(yes.sum())
        return n_accepted

    def slice(self, rng: np.random.Generator) -> int:
        """One elliptical slice of every chain; the values of the log likelihood that it took."""
        total = 0
        for place, where in self.by_node(self.at):
            old = Draws(*(part[..., where] for part in self.draws))
            new, count = self.model.slice(place, old, rng)
            self.put(where, new)
            total += count
        return total

    def log_predictions(self) -> Array:
        """Given each chain's draw, shape (2, m, n_chains)."""
        log_p = np.empty((2, len(self.model.X_new), len(self.at)))
        for place, where in self.by_node(self.at):
            log_p[:, :, where] = self.model.log_predictions(place, self.draws.u[:, where])
        return log_p
