"""Hyperparameters and latent values sampled together: the truth that learning is judged by.

The hyperparameters theta, two or three of them, live on a lattice whose steps are about as long as
the posterior's deviations: a sum over it is the trapezoidal rule, whose error for a smooth density
is far below that of the sampling. At every node EP gives a Gaussian ``q(f)`` near the posterior,
and the coordinates eta of ``f = mean + root eta`` hardly depend on theta. Metropolis steps from
node to node at fixed eta and elliptical slices of eta at fixed theta have ``p(theta, f | y)`` for
their limit whatever EP thinks: it affects the number of steps alone.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpclass import linalg
from gpclass.inference.ep import EP
from gpclass.inference.sites import Sites
from gpclass.kernels import cross, diagonal, evaluate
from gpclass.likelihoods.base import Likelihood
from gpclass.montecarlo import effective_sample_size, split_rhat
from gpclass.montecarlo.gaussian import SiteTerms
from gpclass.montecarlo.problem import RandomState, check_counts, generator
from gpclass.montecarlo.slice_step import MAX_REJECTIONS
from gpclass.priors import DensePrior

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
LogPrior = Callable[[Array], float]
Node = tuple[int, ...]

# Lattice steps in deviations of the posterior: the trapezoidal rule errs by exp(-2 (pi / 1.2)^2),
# one in a million, for a Gaussian.
SPACING: Final = 1.2
# How far below the best node (in nats) one still has its neighbours visited.
DEPTH: Final = 6.0
# Deviations of log hyperparameters that the lattice's steps are taken from; the curvature of a
# plateau says nothing.
DEVIATIONS: Final = (0.03, 1.0)
MAX_PARAMETERS: Final = 3
# Step of the differences that curvature is taken from, in log hyperparameters.
STEP: Final = 0.2
# Relative to the largest prior variance, as a nugget of the kernel: duplicates make K singular.
NUGGET: Final = 1e-9
# EP shapes proposals and needs no digits.
SITES_TOL: Final = 1e-4


@final
@dataclass(frozen=True)
class HyperparameterSamples:
    """Draws of ``p(theta, f | y)`` and the predictions of each.

    Parameters
    ----------
    theta : ndarray of shape (p, n_draws, n_chains)
        Logarithms of the kernel's hyperparameters.
    log_likelihood : ndarray of shape (n_draws, n_chains)
        ``log p(y | f)``.
    log_p : ndarray of shape (2, m, n_draws, n_chains)
        ``log p(-1)`` and ``log p(+1)`` at the new inputs given a draw of theta and f.
    acceptance : float
        Share of the proposals of theta that were accepted.
    evaluations_per_slice : float
        Values of the log likelihood for one elliptical slice; 1 where EP's Gaussian is exact.
    n_nodes : int
        Nodes of the lattice, each an EP.
    seconds : float
    """

    theta: Array
    log_likelihood: Array
    log_p: Array
    acceptance: float
    evaluations_per_slice: float
    n_nodes: int
    seconds: float

    def log_probabilities(self, log_weights: Array | None = None) -> Array:
        """Logarithms of the average probabilities, shape (m, 2).

        Parameters
        ----------
        log_weights : ndarray of shape (n_draws, n_chains) or (n_chains,), default=None
            Logarithms of importance weights, up to a constant: the ratio of another prior of
            theta to the one that was used. None: equal weights.
        """
        shape = self.log_p.shape
        flat = self.log_p.reshape(*shape[:2], -1)
        given = np.zeros(1) if log_weights is None else log_weights
        w = np.broadcast_to(given, shape[2:]).ravel()
        terms = flat + (w - np.logaddexp.reduce(w))
        return np.asarray(np.logaddexp.reduce(terms, axis=-1).T)

    @cached_property
    def _watched(self) -> Array:
        return np.concatenate([self.theta, self.log_likelihood[None]])

    @cached_property
    def rhat(self) -> Array:
        """Split R-hat of each entry of theta and of the log likelihood, shape (p + 1,)."""
        return split_rhat(self._watched)

    @cached_property
    def effective_sample_size(self) -> Array:
        """Effective draws, of each entry of theta and of the log likelihood, shape (p + 1,)."""
        return effective_sample_size(self._watched)


class _Draws(NamedTuple):
    """Chains: coordinates (n, R), latent values, log likelihood, excess over the sites (R,)."""

    eta: Array
    u: Array
    f: Array
    log_likelihood: Array
    excess: Array


@final
@dataclass(frozen=True)
class _Place:
    """A node: ``K = L L^T``, ``f = L u``, and q(u) = N(mean, (C C^T)^-1) given sites.

    ``log_mass`` is that of the prior given the sites and ``log_ep`` EP's evidence, each with the
    prior of theta.
    """

    theta: Array
    log_ep: float
    log_mass: float
    L: Array
    C: Array
    mean: Array
    terms: SiteTerms
    V: Array
    variance: Array

    def direction(self, eta: Array) -> tuple[Array, Array]:
        """Changes of u and f by eta of shape (n, R)."""
        u = linalg.solve_lower_columns_in_place(self.C, eta.copy(), transposed=True)
        return u, linalg.product(self.L, u)


@final
@dataclass(frozen=True)
class _Model:
    """The problem: everything but theta."""

    kernel: Any
    X: Array
    X_new: Array
    y: Array
    likelihood: Likelihood
    log_prior: LogPrior
    bounds: Array

    def covariance(self, theta: Array) -> tuple[Any, Array]:
        """Kernel at theta and its matrix with the nugget."""
        kernel = self.kernel.clone_with_theta(theta)
        K = evaluate(kernel, self.X)
        K.flat[:: len(K) + 1] += NUGGET * K.diagonal().max()
        return kernel, K

    def inside(self, theta: Array) -> bool:
        """Whether theta is within the bounds."""
        return bool(((theta >= self.bounds[:, 0]) & (theta <= self.bounds[:, 1])).all())

    def log_posterior(self, theta: Array, init: Sites | None) -> tuple[float, Sites]:
        """EP's evidence times the prior of theta, and EP's sites."""
        _, K = self.covariance(theta)
        q = EP(tol=SITES_TOL)(DensePrior(K), self.y, self.likelihood, init=init)
        return q.log_evidence + self.log_prior(theta), Sites(
            q.sites.nu, np.maximum(q.sites.tau, 0.0)
        )

    def place(self, theta: Array, log_ep: float, sites: Sites) -> _Place:
        """Factorise at theta, given sites of no negative precision."""
        kernel, K = self.covariance(theta)
        n = len(K)
        L = np.tril(linalg.cholesky(K, str(kernel)))
        M = np.zeros((n, n))
        linalg.add_row_products(M, np.sqrt(sites.tau)[:, None] * L, 1.0)
        M.flat[:: n + 1] += 1.0
        C = linalg.cholesky(M, "I + L^T T L")
        shift = linalg.product(np.ascontiguousarray(L.T), sites.nu[:, None])
        mean = linalg.solve_factored(C, shift[:, 0])
        log_mass = 0.5 * float(shift[:, 0] @ mean) - 0.5 * linalg.log_det_factored(C)
        V = linalg.solve_lower_columns_in_place(
            L, np.ascontiguousarray(cross(kernel, self.X, self.X_new))
        )
        variance = diagonal(kernel, self.X_new) - np.einsum("ij,ij->j", V, V)
        return _Place(
            theta=theta,
            log_ep=log_ep,
            log_mass=log_mass + self.log_prior(theta),
            L=L,
            C=C,
            mean=mean,
            terms=SiteTerms.of(sites),
            V=V,
            variance=np.maximum(variance, 0.0),
        )

    def draws(self, place: _Place, eta: Array) -> _Draws:
        """Where coordinates lead to at a place."""
        u, f = place.direction(eta)
        u += place.mean[:, None]
        f += linalg.product(place.L, place.mean[:, None])
        return self._judged(place, eta, u, f)

    def _judged(self, place: _Place, eta: Array, u: Array, f: Array) -> _Draws:
        value = self.likelihood.log_prob(self.y[:, None], f).sum(axis=0)
        return _Draws(eta, u, f, value, value - place.terms.log_value(f))

    def slice(self, place: _Place, old: _Draws, rng: np.random.Generator) -> tuple[_Draws, int]:
        """One elliptical slice of eta for each chain; the draws and the evaluations."""
        R = old.eta.shape[1]
        other = rng.standard_normal(old.eta.shape)
        du, df = place.direction(other)
        centre = place.mean[:, None]
        f_centre = linalg.product(place.L, centre)
        u_old, f_old = old.u - centre, old.f - f_centre
        threshold = old.excess - rng.standard_exponential(R)
        angle: Array = rng.uniform(0.0, 2.0 * np.pi, size=(R,))
        low, high = angle - 2.0 * np.pi, angle.copy()
        settled, searching = np.zeros(R), np.arange(R)
        n_evaluations = 0
        for _ in range(MAX_REJECTIONS):
            trial = angle[searching]
            f = f_old[:, searching] * np.cos(trial) + df[:, searching] * np.sin(trial) + f_centre
            value = self.likelihood.log_prob(self.y[:, None], f).sum(axis=0)
            n_evaluations += len(searching)
            hit = value - place.terms.log_value(f) >= threshold[searching]
            settled[searching[hit]] = trial[hit]
            searching, trial = searching[~hit], trial[~hit]
            if not len(searching):
                break
            below = trial < 0.0
            low[searching[below]], high[searching[~below]] = trial[below], trial[~below]
            angle[searching] = rng.uniform(low[searching], high[searching])
        c, s = np.cos(settled), np.sin(settled)
        new = self._judged(
            place,
            old.eta * c + other * s,
            u_old * c + du * s + centre,
            f_old * c + df * s + f_centre,
        )
        return new, n_evaluations

    def log_predictions(self, place: _Place, u: Array) -> Array:
        """``log p(-1)`` and ``log p(+1)`` at the new inputs, shape (2, m, R)."""
        mean = linalg.product(np.ascontiguousarray(place.V.T), u)
        variance = np.repeat(place.variance, mean.shape[1])
        return np.stack(
            [
                self.likelihood.tilted_moments(
                    np.full(mean.size, label), mean.ravel(), variance
                ).log_z.reshape(mean.shape)
                for label in (-1.0, 1.0)
            ]
        )


@final
@dataclass(frozen=True)
class _Lattice:
    """Nodes of theta, EP's share of the posterior at each, and who is whose neighbour."""

    places: list[_Place]
    shares: Array
    neighbours: Indices

    @classmethod
    def grow(cls, model: _Model, origin: Array, max_nodes: int) -> "_Lattice":
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


def _axes(model: _Model, origin: Array, sites: Sites) -> Array:
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


def sample_hyperparameters(
    kernel: Any,
    X: ArrayLike,
    y: ArrayLike,
    likelihood: Likelihood,
    X_new: ArrayLike,
    *,
    log_prior: LogPrior | None = None,
    n_draws: int = 200,
    n_burn: int = 50,
    n_chains: int = 32,
    n_slices: int = 3,
    max_nodes: int = 500,
    random_state: RandomState = None,
) -> HyperparameterSamples:
    """Draw from ``p(theta, f | y)``, and predict at new inputs from every draw.

    Theta is restricted to a lattice along its posterior's principal axes, whose step is 1.2 of its
    deviations and at most 1.2. A draw is two proposals of theta, a neighbour and a node drawn by
    EP's evidence, and ``n_slices`` elliptical slices of the latent values.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        With one to three free hyperparameters and finite bounds, outside of which the prior is
        zero. Its values should be near the largest evidence: the lattice grows from them.
    X : array-like of shape (n, d)
    y : array-like of shape (n,)
        Labels, -1 or +1.
    likelihood : Likelihood
        Log-concave, with no hyperparameters of its own to sample.
    X_new : array-like of shape (m, d)
    log_prior : callable, default=None
        Logarithm of the prior density of theta, the logarithms of the hyperparameters, up to a
        constant. None: flat within the bounds.
    n_draws, n_burn : int
        Draws of each chain that are kept, and those before.
    n_chains : int, default=32
    n_slices : int, default=3
    max_nodes : int, default=500
        Largest lattice: each node is an EP.
    random_state : int, Generator, RandomState or None, default=None

    Returns
    -------
    HyperparameterSamples

    Raises
    ------
    ValueError
        For labels, counts or a kernel that are not as above, and where the posterior of theta is
        so wide that the lattice has too many nodes.
    NotPositiveDefiniteError
        Where K is not positive semi-definite.

    References
    ----------
    Murray and Adams, Slice sampling covariance hyperparameters of latent Gaussian models, NIPS
    2010, section 3, for coordinates that the data have been taken out of (there by surrogate
    data, here by EP's sites); Murray, Adams and MacKay, AISTATS 2010, for the slices.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF, ConstantKernel
    >>> from gpclass.likelihoods import Probit
    >>> X = np.linspace(-2, 2, 12)[:, None]
    >>> kernel = ConstantKernel(1.0, (1e-2, 1e2)) * RBF(1.0, (1e-1, 1e1))
    >>> draws = sample_hyperparameters(
    ...     kernel, X, np.sign(X[:, 0]), Probit(), [[1.5]], n_draws=50, random_state=0
    ... )
    >>> draws.theta.shape
    (2, 50, 32)
    >>> bool(np.exp(draws.log_probabilities())[0, 1] > 0.8)
    True
    """
    check_counts(
        n_draws=n_draws, n_burn=n_burn, n_chains=n_chains, n_slices=n_slices, max_nodes=max_nodes
    )
    model = _model(kernel, X, y, likelihood, X_new, log_prior)
    rng, began = generator(random_state), time.perf_counter()
    lattice = _Lattice.grow(model, np.array(model.kernel.theta), max_nodes)
    chains = _Chains.start(model, lattice, n_chains, rng)
    theta = np.empty((len(model.bounds), n_draws, n_chains))
    log_likelihood = np.empty((n_draws, n_chains))
    log_p = np.empty((2, len(model.X_new), n_draws, n_chains))
    accepted = evaluations = 0
    for step in range(-n_burn, n_draws):
        accepted += chains.move(chains.neighbours(rng), np.zeros(n_chains), rng)
        there = rng.choice(len(lattice.places), n_chains, p=lattice.shares)
        log_shares = np.log(lattice.shares)
        accepted += chains.move(there, log_shares[chains.at] - log_shares[there], rng)
        evaluations += sum(chains.slice(rng) for _ in range(n_slices))
        if step >= 0:
            theta[:, step] = np.stack([lattice.places[k].theta for k in chains.at], axis=1)
            log_likelihood[step] = chains.draws.log_likelihood
            log_p[:, :, step] = chains.log_predictions()
    total = (n_burn + n_draws) * n_chains
    return HyperparameterSamples(
        theta=theta,
        log_likelihood=log_likelihood,
        log_p=log_p,
        acceptance=accepted / (2 * total),
        evaluations_per_slice=evaluations / (total * n_slices),
        n_nodes=len(lattice.places),
        seconds=time.perf_counter() - began,
    )


def _model(
    kernel: Any,
    X: ArrayLike,
    y: ArrayLike,
    likelihood: Likelihood,
    X_new: ArrayLike,
    log_prior: LogPrior | None,
) -> _Model:
    """Check the arguments."""
    X, X_new = np.asarray(X, dtype=np.float64), np.asarray(X_new, dtype=np.float64)
    y, bounds = np.asarray(y, dtype=np.float64), np.asarray(kernel.bounds, dtype=np.float64)
    if not 1 <= kernel.n_dims <= MAX_PARAMETERS:
        raise ValueError(
            f"kernel must have 1 to {MAX_PARAMETERS} free hyperparameters, since they are "
            f"proposed from a lattice; {kernel} has {kernel.n_dims}"
        )
    if not np.isfinite(bounds).all():
        raise ValueError(f"the bounds of the kernel must be finite, got {np.exp(bounds).tolist()}")
    if (np.ptp(bounds, axis=1) <= 2.0 * STEP).any():
        raise ValueError(
            f"the bounds of the kernel must be wider than a factor of {np.exp(2.0 * STEP):.3g}, "
            f"got {np.exp(bounds).tolist()}; fix a hyperparameter that is known"
        )
    if not likelihood.log_concave or len(likelihood.theta):
        raise ValueError(
            "likelihood must be log-concave and without hyperparameters to sample, got "
            f"{likelihood!r}"
        )
    if y.shape != (len(X),) or not np.isin(y, (-1.0, 1.0)).all():
        raise ValueError(f"y must be {len(X)} labels of -1 or +1, got {y!r}")
    return _Model(
        kernel, X, X_new, y, likelihood, log_prior or (lambda theta: 0.0), bounds.reshape(-1, 2)
    )


@final
class _Chains:
    """Where the chains are: at which nodes, with which coordinates and latent values."""

    def __init__(self, model: _Model, lattice: _Lattice, at: Indices, draws: _Draws) -> None:
        self.model = model
        self.lattice = lattice
        self.at = at
        self.draws = draws

    @classmethod
    def start(
        cls, model: _Model, lattice: _Lattice, n_chains: int, rng: np.random.Generator
    ) -> "_Chains":
        """Draw nodes by EP's evidence and latent values from its Gaussians."""
        at = rng.choice(len(lattice.places), n_chains, p=lattice.shares)
        n = len(model.y)
        blank = np.empty((n, n_chains))
        draws = _Draws(blank, blank.copy(), blank.copy(), np.empty(n_chains), np.empty(n_chains))
        chains = cls(model, lattice, at, draws)
        eta = rng.standard_normal((n, n_chains))
        for place, where in chains.by_node(at):
            chains.put(where, model.draws(place, eta[:, where]))
        return chains

    def by_node(self, nodes: Indices) -> Iterator[tuple[_Place, Indices]]:
        """Places, and which chains have them."""
        for node in np.unique(nodes[nodes >= 0]):
            yield self.lattice.places[node], np.flatnonzero(nodes == node)

    def put(self, where: Indices, new: _Draws) -> None:
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
            self.put(where[yes], _Draws(*(part[..., yes] for part in trial)))
            self.at[where[yes]] = there[where[yes]]
            n_accepted += int(yes.sum())
        return n_accepted

    def slice(self, rng: np.random.Generator) -> int:
        """One elliptical slice of every chain; the values of the log likelihood that it took."""
        total = 0
        for place, where in self.by_node(self.at):
            old = _Draws(*(part[..., where] for part in self.draws))
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
