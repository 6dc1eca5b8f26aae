"""The EP energy: an evidence for any Gaussian sites, and its derivatives."""

from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.approximation import SitePosterior
from gpclass.inference.cavities import Cavities, Copies
from gpclass.likelihoods.base import TiltedMoments
from gpclass.linalg import EPS, Array

# A marginal variance below this part of the largest is zero but for rounding.
ZERO_VARIANCE: Final = EPS**2


@final
@dataclass(frozen=True)
class Energy:
    """``log Z_EP`` of a posterior's sites (RW06 eq. 3.65), whatever method found them.

    With ``Phi = log int p(f) prod site df = (nu^T m - log |I + T K|) / 2``, the log partition
    function A of a Gaussian by its natural parameters, marginals eta, cavities
    ``lambda = eta - s`` (s a copy's site) and ``G(lambda)``, the logarithm of
    ``int p(y|f) exp(lambda . (f, -f^2 / 2)) df``, it is
    ``Phi + sum_i count_i (G(lambda_i) - A(eta_i))``. With marginal moments ``mu = A'(eta)``,
    tilted moments ``mu^ = G'(lambda)`` and ``dPhi = sum_i count_i mu_i . ds_i``, its derivative
    ``dE = sum_i count_i (mu^_i - mu_i) . d lambda_i`` vanishes where the moments match.

    GTS19 eq. 18 is this at the sites of posterior linearisation.

    Parameters
    ----------
    copies : Copies
        The likelihood terms.
    posterior : SitePosterior
        With its covariance.
    cavities : Cavities
        Of one copy of each row, means and variances of shape (n,).
    moments : TiltedMoments
        Of ``p(y|f)`` times the cavities, each of shape (n,).
    """

    copies: Copies
    posterior: SitePosterior
    cavities: Cavities
    moments: TiltedMoments

    @classmethod
    def of(cls, copies: Copies, posterior: SitePosterior) -> "Energy":
        """Tilted moments under the cavities; NotPositiveDefiniteError if one is not proper."""
        posterior = posterior.with_covariance()
        cavities = Cavities.of(posterior, copies.count)
        if not cavities.proper:
            raise NotPositiveDefiniteError(
                f"{int((~(cavities.v > 0)).sum())} cavities have no positive variance: these sites "
                "have no EP energy"
            )
        return cls(copies, posterior, cavities, copies.moments(cavities.x, cavities.v))

    @property
    def value(self) -> float:
        """The energy, in nats."""
        posterior, (x, v) = self.posterior, self.cavities
        count = self.copies.count
        tau, nu = posterior.sites.tau / count, posterior.sites.nu / count
        # log of the integral of the site under the cavity
        scale = 1.0 + tau * v
        overlap = -0.5 * np.log(scale) + 0.5 * (v * nu**2 + 2 * x * nu - tau * x**2) / scale
        return (
            -0.5 * posterior.factor.log_det
            + 0.5 * float(posterior.sites.nu @ posterior.mean)
            + float(count @ (self.moments.log_z - overlap))
        )

    def excess(self) -> tuple[Array, Array]:
        """``mu^ - mu`` of a copy of each row: of f, and of ``-f^2 / 2``; shape (n,) each."""
        m = self.posterior.mean
        d_mean = self.moments.mean - m
        d_var = self.moments.variance - self.posterior.variance
        return d_mean, -0.5 * (d_var + d_mean * (self.moments.mean + m))

    def marginal_adjoints(self) -> "Adjoints":
        """Derivatives by means and variances at fixed sites; zero for variances rounded to zero."""
        variance, count = self.posterior.variance, self.copies.count
        rounded = variance <= ZERO_VARIANCE * variance.max(initial=0.0)
        v = np.where(rounded, 1.0, variance)
        d_mean = (self.moments.mean - self.posterior.mean) / np.sqrt(v)
        ratio = self.moments.variance / v
        # eta = (m / variance, 1 / variance)
        by_mean = count * d_mean / np.sqrt(v)
        by_variance = 0.5 * count * (ratio - 1.0 + d_mean**2) / v
        return Adjoints(np.where(rounded, 0.0, by_mean), np.where(rounded, 0.0, by_variance))


class Adjoints(NamedTuple):
    """Derivatives of a scalar by the marginals' means and variances, shape (n,) each."""

    mean: Array
    variance: Array
