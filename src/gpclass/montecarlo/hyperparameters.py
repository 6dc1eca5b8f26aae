"""Hyperparameters and latent values sampled together: the truth that learning is judged by.

The hyperparameters theta, two or three of them, live on a lattice whose steps are about as long as
the posterior's deviations: a sum over it is the trapezoidal rule, whose error for a smooth density
is far below that of the sampling. At every node EP gives a Gaussian ``q(f)`` near the posterior,
and the coordinates eta of ``f = mean + root eta`` hardly depend on theta. Metropolis steps from
node to node at fixed eta and elliptical slices of eta at fixed theta have ``p(theta, f | y)`` for
their limit whatever EP thinks: it affects the number of steps alone.
"""

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, final

import numpy as np
from numpy.typing import ArrayLike

from gpclass.likelihoods.base import Likelihood
from gpclass.linalg import Array
from gpclass.montecarlo.diagnostics import effective_sample_size, split_rhat
from gpclass.montecarlo.hyperparameter_lattice import STEP, Chains, Lattice
from gpclass.montecarlo.hyperparameter_nodes import LogPrior, Target
from gpclass.montecarlo.problem import RandomState, check_counts, generator

MAX_PARAMETERS: Final = 3


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
    >>> from gpclass.montecarlo.hyperparameters import sample_hyperparameters
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
    model = _target(kernel, X, y, likelihood, X_new, log_prior)
    rng, began = generator(random_state), time.perf_counter()
    lattice = Lattice.grow(model, np.array(model.kernel.theta), max_nodes)
    chains = Chains.start(model, lattice, n_chains, rng)
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


def _target(
    kernel: Any,
    X: ArrayLike,
    y: ArrayLike,
    likelihood: Likelihood,
    X_new: ArrayLike,
    log_prior: LogPrior | None,
) -> Target:
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
    return Target(
        kernel, X, X_new, y, likelihood, log_prior or (lambda theta: 0.0), bounds.reshape(-1, 2)
    )
