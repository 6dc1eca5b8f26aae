"""Variational inference with inducing points, by sums over blocks of rows.

A latent is ``f(x) = u(x)^T w + e(x)`` with weights ``w ~ N(0, I)``, features
``u(x) = L^-1 k(Z, x)`` of m inducing inputs Z, ``L L^T = K_ZZ``, and an independent remainder
``e(x) ~ N(0, delta(x))``, ``delta(x) = k(x, x) - |u(x)|^2``. The posterior is ``q(w) p(e)`` with a
Gaussian q, found by natural steps. A step needs the sums over rows of ``tau_i u_i u_i^T`` and of
``nu_i u_i``, and no row keeps a state: its site ``(nu_i, tau_i)`` is a function of its marginal.

References
----------
Titsias, *Variational learning of inducing variables in sparse Gaussian processes*, 2009; Hensman,
Matthews & Ghahramani, *Scalable variational Gaussian process classification*, 2015, for the bound;
Adam, Chang, Khan & Solin, *Dual parameterization of sparse variational Gaussian processes*, 2021,
for the steps.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

import numpy as np

from gpclass import linalg
from gpclass.blocks import RowBlocks
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.approximation import Outcome
from gpclass.inference.features import features
from gpclass.inference.method import check_limits
from gpclass.inference.row_sums import RowSums, gradient_sums
from gpclass.inference.row_terms import RowTerms
from gpclass.inference.weight_steps import History, WeightState, longest_step
from gpclass.inference.weights import WeightPosterior, WeightSites
from gpclass.linalg import Array
from gpclass.priors.basis import Basis

# Relative rounding error of a sum over many rows.
NOISE: Final = 1e-13
# The shortest step that is tried.
SHORTEST: Final = 1e-6
# A step predicted to gain less than so many times the tolerance is taken for the last. At 100 it
# was not always (measured on the table of sines).
NEAR: Final = 10.0
# After so many steps that do not halve the predicted gain, or that lower the bound, the iteration
# counts as oscillating.
SLOW: Final = 4


@final
@dataclass(frozen=True)
class BlockApproximation:
    """The Gaussian of the weights of the largest bound, and how it was found.

    Parameters
    ----------
    posterior : WeightPosterior
    sites : WeightSites
    log_evidence : float
        The bound, in nats.
    outcome : Outcome
    n_iter : int
        Passes over the rows.
    basis : Basis
    rows : RowBlocks
        Of `Features`.
    terms : RowTerms
    sums : RowSums
        At the posterior.
    slopes : tuple of ndarray or None
        Sums over rows of the gradients, where the last pass has found them; else one more does.
    """

    posterior: WeightPosterior
    sites: WeightSites
    log_evidence: float
    outcome: Outcome
    n_iter: int
    basis: Basis
    rows: RowBlocks
    terms: RowTerms
    sums: RowSums
    slopes: tuple[Array, Array] | None

    def __repr__(self) -> str:
        """One line: the fields hold matrices."""
        return (
            f"BlockApproximation({self.outcome.name}, log_evidence={self.log_evidence:.6g}, "
            f"n_passes={self.n_iter})"
        )

    @property
    def converged(self) -> bool:
        """Whether the iteration reached its end."""
        return self.outcome.converged

    @property
    def n_factorisations(self) -> int:
        """Factorisations of precisions of the weights: one a class and a pass."""
        return self.n_iter * len(self.posterior.means)

    @cached_property
    def gradients(self) -> tuple[Array, Array]:
        """Gradients of the bound by the kernel's theta and by the likelihood's."""
        q, L = self.posterior, self.basis.L
        by_kernel, by_likelihood = (
            self.slopes or self.rows.reduce(gradient_sums, self.basis, self.terms, q)[3:]
        )
        P = np.zeros_like(L)
        for mu, X, A, c in zip(q.means, q.roots, self.sums.A, self.sums.c, strict=True):
            full = A.copy()
            linalg.mirror_lower(full)
            P += np.outer(mu, c) + full
            for transposed in (False, True):
                linalg.multiply_lower_columns_in_place(X, full, transposed=transposed)
            P -= full
        return by_kernel + self.basis.pull(P), by_likelihood

    def evidence_pullback(self) -> Array:
        """Gradient by the kernel's theta itself: there is no covariance to carry it to."""
        return self.gradients[0]

    def likelihood_gradient(self) -> Array:
        """``d bound / d theta`` by the likelihood's own hyperparameters, shape (p,)."""
        return self.gradients[1]


@final
@dataclass(frozen=True)
class VariationalByBlocks:
    """Natural steps to the largest bound, each one pass over the rows.

    Steps are accelerated by what the last few have changed. Where the bound falls or the precision
    of the weights is not positive definite, a plain one takes its place, then half of it, and so
    on. The end is where a step is predicted to gain less than ``tol``.

    On tables that are nearly separable whole steps oscillate: where a variance falls, the next is
    too large. Once a few have not halved the predicted gain, steps go half of the way. Between two
    passes the means then take up to ``mean_steps`` steps in O(n m) each, where the features are
    held in memory: at fixed variances their objective is concave for a log-concave likelihood.

    Parameters
    ----------
    max_passes : int, default=100
    tol : float, default=1e-12
        In nats: the root of twice that is the length of the step in deviations.
    mean_steps : int, default=5
    """

    max_passes: int = 100
    tol: float = 1e-12
    mean_steps: int = 5

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        check_limits(self.max_passes, self.tol)

    def __call__(
        self, basis: Basis, rows: RowBlocks, terms: RowTerms, init: WeightSites | None = None
    ) -> BlockApproximation:
        """Approximate the posterior of rows, blocks of `Block`, in a basis.

        ``init`` is where to start; None: at the prior. NotPositiveDefiniteError where the kernel is
        not positive semi-definite.
        """
        n_bytes = 8.0 * rows.n_rows * len(basis.L)
        known = rows.derive(features, basis, n_bytes=n_bytes)
        state = _started(known, terms, basis.L, init)
        whole = longest_step(terms)
        passes, step, before, outcome, history = 1, whole, np.inf, None, History()
        slow = 0
        while outcome is None:
            predicted = state.predicted_gain()
            noise = NOISE * max(1.0, abs(state.bound))
            if predicted <= self.tol:
                outcome = Outcome.CONVERGED
            elif predicted <= noise and predicted > 0.5 * before:
                outcome = Outcome.ROUNDING
            elif passes == self.max_passes:
                outcome = Outcome.MAX_ITER
            elif step < SHORTEST:
                outcome = Outcome.STALLED
            else:
                slow += predicted > 0.5 * before
                if slow >= SLOW:
                    whole = min(whole, 0.5)
                    step = min(step, whole)
                sites = history.leads_to(state, step)
                there = self._tried(known, terms, sites, basis, predicted, slow >= SLOW)
                passes += there is not None
                if there is not None and there.bound >= state.bound - noise:
                    state, step, before = there, min(whole, 2.0 * step), predicted
                else:
                    slow += 1
                    step *= 0.5 if len(history.found) == 1 else 1.0
                    history = History()
        return BlockApproximation(
            state.q,
            state.sites,
            state.bound,
            outcome,
            passes,
            basis,
            known,
            terms,
            state.sums,
            state.slopes,
        )

    def _tried(
        self,
        rows: RowBlocks,
        terms: RowTerms,
        sites: WeightSites,
        basis: Basis,
        predicted: float,
        oscillates: bool,
    ) -> WeightState | None:
        """One pass; None where the precision of the weights is not positive definite."""
        try:
            if oscillates and rows.held:
                enough = max(self.tol, 1e-2 * predicted)
                return WeightState.with_improved_means(rows, terms, sites, self.mean_steps, enough)
            if not oscillates and predicted <= NEAR * self.tol:
                # probably the last step: its pass sums the gradients as well
                return WeightState.with_gradients(rows, terms, sites, basis)
            return WeightState.at(rows, terms, sites)
        except NotPositiveDefiniteError:
            return None


def _started(rows: RowBlocks, terms: RowTerms, L: Array, init: WeightSites | None) -> WeightState:
    """One pass at sites that were carried here, or at the prior where they do not fit."""
    if init is not None and init.A.shape == (terms.n_latents, *L.shape):
        try:
            return WeightState.at(rows, terms, init.carried(L))
        except NotPositiveDefiniteError:
            pass  # of another kernel: the prior takes its place
    return WeightState.at(rows, terms, WeightSites.zero(terms.n_latents, L))
