"""What an inference method returns, whichever method it is."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Final, final

import numpy as np

from gpclass.inference.sites import Sites
from gpclass.linalg import Array
from gpclass.priors import PosteriorCovariance, Prior, SiteFactor

# A log evidence above this, in nats, is no approximation of the logarithm of a probability: what
# rounding may add to an evidence of zero is smaller.
LARGEST_EVIDENCE: Final = 1e-3


class Outcome(Enum):
    """How an iteration ended; the value says what happened and what to try."""

    CONVERGED = "converged to the tolerance that was asked for"
    ROUNDING = (
        "converged as far as float64 allows: the covariance is so large or so badly conditioned "
        "that rounding alone exceeds the tolerance; from another start the evidence may differ by "
        "1e-3, and a smaller signal variance or a WhiteKernel would sharpen it"
    )
    DOUBLE_LOOP = "converged to the tolerance that was asked for, by the double loop, a fallback"
    NATURAL_STEPS = (
        "converged to the tolerance that was asked for, by natural-gradient steps with a line "
        "search, which need no log-concave likelihood"
    )
    DAMPED = "converged to the tolerance that was asked for, by damped steps, a fallback"
    ONE_OF_SEVERAL = (
        "converged to the tolerance that was asked for, at a fixed point that may be one of "
        "several, far from another (on five rows evidences of -6.2 and -6.8 were found), as the "
        "likelihood is not log-concave; compare other starts (init), or take probit or logit"
    )
    NO_FIXED_POINT = (
        "stopped because no proper fixed point was found: every solver led to a variance of zero, "
        "or to cavities of infinite or negative variance; take a likelihood that is log-concave "
        "(probit, logit), a larger epsilon, or EP in the place of PL"
    )
    IMPOSSIBLE = (
        "ended at a log evidence above zero, which no data can have: the posterior has collapsed, "
        "or rounding has taken over; bound the signal variance, add a WhiteKernel, take a larger "
        "epsilon, or EP in the place of PL"
    )
    LIMITED = (
        "stopped because rounding of the covariance is as large as the precision of a label: "
        "another start may end at another evidence; bound the signal variance or the scale of the "
        "inputs, or add a WhiteKernel"
    )
    SHORT_CHAINS = (
        "has chains that are too short: split R-hat is above 1.05, fewer than 100 of the draws of "
        "a latent value or of the log likelihood are effective, or fewer than 10 of the annealed "
        "chains bear the evidence; raise thin, n_burn and n_samples, or n_temperatures"
    )
    MAX_ITER = (
        "stopped at the iteration limit before the tolerance was reached; raise max_iter_predict "
        "(or max_iter of the inference method), or bound the signal variance"
    )
    STALLED = (
        "found no step that leads on although the end is not reached; for a likelihood of your own "
        "check that its derivatives are those of its log_prob (gpclass.testing.check_likelihood), "
        "and that the kernel is positive semi-definite"
    )

    @property
    def converged(self) -> bool:
        """Whether the result can be used as a solution."""
        return self in (
            Outcome.CONVERGED,
            Outcome.ROUNDING,
            Outcome.DOUBLE_LOOP,
            Outcome.NATURAL_STEPS,
            Outcome.DAMPED,
            Outcome.ONE_OF_SEVERAL,
        )


@final
@dataclass(frozen=True)
class SitePosterior:
    """The Gaussian ``q(f) ∝ p(f) prod_i site_i`` (RW06 eq. 3.53).

    Parameters
    ----------
    sites : Sites
    factor : SiteFactor
        Factor of the prior given the sites' precisions.
    mean_weights : ndarray of shape (n,)
        ``a = K^-1 m``: the mean at new inputs is ``k^T a`` (RW06 eq. 3.21); see `new_weights`.
    mean : ndarray of shape (n,)
        ``m = K a``, less the prior's own mean.
    covariance : PosteriorCovariance, default=None
        For a dense prior an n x n inverse. None where only predictions are asked for; see
        `with_covariance`.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.inference.sites import Sites
    >>> from gpclass.priors import DensePrior
    >>> prior = DensePrior(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> posterior = SitePosterior.from_sites(prior, Sites(np.array([1.0, -1.0]), np.ones(2)))
    >>> posterior.mean, posterior.with_covariance().variance
    (array([ 0.5, -0.5]), array([0.625, 0.625]))
    """

    sites: Sites
    factor: SiteFactor
    mean_weights: Array
    mean: Array
    covariance: PosteriorCovariance | None = None

    @classmethod
    def from_sites(cls, prior: Prior, sites: Sites) -> "SitePosterior":
        """Condition the prior on the sites: ``a = (I + T K)^-1 nu``."""
        factor = prior.factor(sites.tau)
        a = factor.solve(sites.nu)
        return cls(sites, factor, a, prior.multiply(a))

    def with_covariance(self) -> "SitePosterior":
        """The same posterior with its `covariance`, which is formed where it is missing."""
        if self.covariance is not None:
            return self
        # `replace` takes three times as long
        found = self.factor.covariance()
        return SitePosterior(self.sites, self.factor, self.mean_weights, self.mean, found)

    def without_covariance(self) -> "SitePosterior":
        """The same posterior without the memory of its `covariance`."""
        return SitePosterior(self.sites, self.factor, self.mean_weights, self.mean)

    @property
    def variance(self) -> Array:
        """Marginal variances, shape (n,); ValueError where `covariance` is None."""
        if self.covariance is None:
            raise ValueError("this posterior has no variances: take posterior.with_covariance()")
        return self.covariance.variances

    @cached_property
    def new_weights(self) -> Array:
        """What `PriorForm.cross` is multiplied by for the mean at new inputs, shape (r,)."""
        return self.factor.new_weights(self.mean_weights)

    def log_partition(self) -> float:
        """``log int p(f) prod_i site_i df = (nu^T m - log |I + T K|) / 2``."""
        return 0.5 * (float(self.sites.nu @ self.mean) - self.factor.log_det)

    def divergence(self) -> float:
        """``KL(q || p) = (log |I + T K| - sum_i tau_i v_i + a^T m) / 2``; asks for `variance`."""
        explained = float(self.mean_weights @ self.mean)
        return 0.5 * (self.factor.log_det - float(self.sites.tau @ self.variance) + explained)

    def pullback(self, by_mean: Array | None = None, by_variance: Array | None = None) -> Any:
        """Cotangent by K of an evidence with these adjoints (`PosteriorCovariance.pullback`)."""
        covariance = self.covariance or self.factor.covariance()
        return covariance.pullback(self.mean_weights, by_mean, by_variance)

    def predict(self, K_cross: Array, k_diag: Array) -> tuple[Array, Array]:
        """Latent mean and variance at m new inputs (RW06 Algorithm 3.2, lines 4 to 6).

        Parameters
        ----------
        K_cross : ndarray of shape (r, m)
            As `PriorForm.cross` gives it (dense: covariance of training and new inputs),
            overwritten.
        k_diag : ndarray of shape (m,)
            Prior variances of the new inputs.

        Returns
        -------
        mean, variance : ndarray of shape (m,)
            A variance that rounding made negative is 0.
        """
        # einsum without optimisation sums in one order whatever m is: a row's result does not
        # depend on the batch that it is predicted in.
        mean = np.einsum("ij,i->j", K_cross, self.new_weights)
        variance = k_diag - self.factor.reduced_variance(K_cross)
        return mean, np.maximum(variance, 0.0)


def described(approximation: Any) -> str:
    """One line for the representation of an approximation, whose fields hold matrices."""
    kind, outcome = type(approximation).__name__, approximation.outcome.name
    evidence, n_sites = approximation.log_evidence, len(approximation.sites)
    return f"{kind}({outcome}, log_evidence={evidence:.6g}, n_sites={n_sites})"


@dataclass(frozen=True)
class Approximation(ABC):
    """A Gaussian approximation of the latent posterior, its evidence, and how it was found.

    Parameters
    ----------
    posterior : SitePosterior
    log_evidence : float
        The method's approximation of ``log p(y | X, theta)``, in nats.
    outcome : Outcome
        How the iteration ended.
    n_iter : int
        Iterations: Newton steps or sweeps.
    n_factorisations : int
        Factorisations of ``B = I + S K S``.
    """

    posterior: SitePosterior
    log_evidence: float
    outcome: Outcome
    n_iter: int
    n_factorisations: int

    @property
    def sites(self) -> Sites:
        """The Gaussian sites."""
        return self.posterior.sites

    @property
    def converged(self) -> bool:
        """Whether the iteration reached its end."""
        return self.outcome.converged

    @abstractmethod
    def evidence_pullback(self) -> Any:
        """``d log_evidence / dK``, explicit and implicit terms; for a dense prior (n, n)."""

    @abstractmethod
    def likelihood_gradient(self) -> Array:
        """``d log_evidence / d theta`` by the likelihood's own hyperparameters, shape (p,)."""

    @abstractmethod
    def site_jacobian(self, prior: Prior, copies: Any) -> Any:
        """Derivatives of the sites by the marginals, a `SiteJacobian`, where they are solved for.

        ``prior`` and ``copies`` are what the method was called with.
        """

    @abstractmethod
    def site_slopes(self, prior: Prior, copies: Any) -> Array:
        """Derivatives of the sites' (nu, tau) at fixed marginals, shape (p, 2 n).

        By the likelihood's own hyperparameters; the arguments are those of `site_jacobian`.
        """


class FromBinary(ABC):
    """Attributes read from ``binary``, the binary method's approximation."""

    binary: Approximation

    @property
    def sites(self) -> Sites:
        """Sites of the N latents: what a later call can start from."""
        return self.binary.sites

    @property
    def log_evidence(self) -> float:
        """The binary method's approximation of the log evidence, in nats."""
        return self.binary.log_evidence

    @property
    def outcome(self) -> Outcome:
        """How the iteration ended."""
        return self.binary.outcome

    @property
    def converged(self) -> bool:
        """Whether the iteration reached its end."""
        return self.binary.converged

    @property
    def n_iter(self) -> int:
        """Iterations that were taken."""
        return self.binary.n_iter

    @property
    def n_factorisations(self) -> int:
        """Factorisations that were made: what the time goes into."""
        return self.binary.n_factorisations

    def likelihood_gradient(self) -> Array:
        """``d log_evidence / d theta`` by the likelihood's own hyperparameters, shape (p,)."""
        return self.binary.likelihood_gradient()
