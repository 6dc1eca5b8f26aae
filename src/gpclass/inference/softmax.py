"""Laplace's method for the softmax over all classes (RW06 section 3.5)."""

from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
from numpy.typing import ArrayLike

from gpclass.inference.approximation import Outcome, described
from gpclass.inference.method import check_limits
from gpclass.inference.solvers.softmax_mode import SoftmaxMode, precision_product, sums_or_one
from gpclass.linalg import Array
from gpclass.priors.base import as_weights
from gpclass.priors.classes import ClassPosterior, ClassSites
from gpclass.priors.joint import JointPrior, as_codes

# Probabilities below this are not divided by their squares.
TINY_PROBABILITY: Final = 1e-150


@final
@dataclass(frozen=True)
class SoftmaxApproximation:
    """The Gaussian at the mode of the softmax's posterior (RW06 section 3.5).

    Parameters
    ----------
    posterior : ClassPosterior
        Of the latents of all C classes.
    log_evidence : float
        RW06 eq. 3.44, in nats.
    outcome : Outcome
        How the iteration ended.
    n_iter : int
        Newton steps.
    n_factorisations : int
        Factorisations, each of C + 1 matrices of n x n.
    """

    __repr__ = described

    posterior: ClassPosterior
    log_evidence: float
    outcome: Outcome
    n_iter: int
    n_factorisations: int

    @property
    def sites(self) -> ClassSites:
        """The Gaussian sites, one a row."""
        return self.posterior.sites

    @property
    def converged(self) -> bool:
        """Whether the iteration reached its end."""
        return self.outcome.converged

    def likelihood_gradient(self) -> Array:
        """Empty: the softmax has no hyperparameters of its own."""
        return np.zeros(0)

    def evidence_pullback(self) -> Any:
        """``d log q(y|X, theta) / dK``, as `JointFactor.pullback` of the prior returns it.

        The evidence moves with K explicitly by ``(a a^T - F) / 2``, ``F = W (I + K W)^-1``, and
        through the mode by ``(I + W K)^-1 s a^T`` with
        ``s_i = -W_i (diag(Sigma_i) - 2 Sigma_i pi_i) / 2``, the derivative of
        ``-log|I + K W| / 2`` by f, where Sigma_i is the covariance of the row's latents. But for
        terms that W_i annuls, the bracket is the diagonal of
        ``diag(d)^-1 (W_i - F_i) diag(d)^-1``, so the diagonals of F suffice: Sigma_i and
        this matrix differ by ``1 v^T + v 1^T`` for some v, since ``W_i - F_i = W_i Sigma_i W_i``.
        RW06 section 5.5.1 has this for two classes; derived here for many and for a matrix K.
        """
        posterior = self.posterior
        return posterior.factor.pullback(posterior.mean_weights, self._mean_adjoint)

    def _mean_adjoint(self, F_diagonal: Array) -> Array:
        """``d(-log|I + K W| / 2) / df`` at the mode, from the diagonals of F_cc; shape (n, C)."""
        d = self.posterior.sites.d
        rows, weights = np.arange(len(d)), sums_or_one(d)
        pi = d / weights[:, None]
        others = 1.0 - pi
        likeliest = pi.argmax(axis=1)
        pi[rows, likeliest] = 0.0
        others[rows, likeliest] = pi.sum(axis=1)
        # a row of next to no weight has no site in the factor
        usable = (d > TINY_PROBABILITY * weights[:, None]) & (self.posterior.factor.d > 0.0)
        h = np.where(usable, d * others - F_diagonal, 0.0)
        per_d = 1.0 / np.where(usable, d, 1.0)  # its square may overflow
        return -0.5 * precision_product(d, h * per_d * per_d)


@final
@dataclass(frozen=True)
class SoftmaxLaplace:
    """Laplace's approximation of the softmax by a safeguarded Newton iteration (`SoftmaxMode`).

    The evidence is ``sum_i w_i log softmax(f_i)_{y_i} - a^T f / 2 - log|I + K W| / 2`` at the mode
    (RW06 eq. 3.44 with its signs and its determinant mended). ``max_iter`` counts Newton steps;
    at the mode no entry of the gradient by f is above ``tol``.

    References
    ----------
    RW06 section 3.5, Algorithms 3.3 and 3.4. In print line 15 of 3.3 has the wrong sign before
    ``sum_i log sum_c exp(f_i^c)`` and line 16 lacks ``sum_i log M_ii``.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.priors.classes import ClassPrior
    >>> q = SoftmaxLaplace()(ClassPrior(np.eye(3), 3), [0, 1, 2])
    >>> q.posterior.mean.round(4)
    array([[ 0.4897, -0.2448, -0.2448],
           [-0.2448,  0.4897, -0.2448],
           [-0.2448, -0.2448,  0.4897]])
    """

    max_iter: int = 100
    tol: float = 1e-10

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        check_limits(self.max_iter, self.tol)

    def __call__(
        self,
        prior: JointPrior,
        codes: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        init: SoftmaxApproximation | ClassSites | None = None,
    ) -> SoftmaxApproximation:
        """Find the mode and the Gaussian there.

        ``codes``, shape (n,), has each row's class, 0 to C - 1; a class may have no row.
        ``weights``, shape (n,), are powers of the likelihood terms: 2 is the row given twice.
        ``init`` is an end under a prior nearby; None starts at f = 0.

        Raises
        ------
        ValueError
            For codes, weights or lengths that do not fit.
        NotPositiveDefiniteError
            Where K is not positive semi-definite.
        """
        labels = as_codes(codes, prior.n, prior.n_classes)
        powers = as_weights(weights, prior.n)
        sites = init.sites if isinstance(init, SoftmaxApproximation) else init
        if sites is not None and sites.d.shape != prior.diagonal.shape:
            raise ValueError(
                f"init has sites of shape {sites.d.shape} where the prior has latent values of "
                f"shape {prior.diagonal.shape}"
            )
        end = SoftmaxMode(prior, labels, powers, self.tol, self.max_iter).run(sites)
        point = end.point
        b = precision_product(point.terms.d, point.F) + point.terms.first
        sites = ClassSites(b, point.terms.d)
        return SoftmaxApproximation(
            posterior=ClassPosterior(sites, end.factor, point.A, point.F),
            log_evidence=point.objective - 0.5 * end.factor.log_det,
            outcome=end.outcome,
            n_iter=end.n_iter,
            n_factorisations=end.n_factorisations,
        )
