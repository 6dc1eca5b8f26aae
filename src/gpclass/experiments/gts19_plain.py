"""EP and PL as GTS19 ran them: plain iterations, quadrature of order ten, a fix of negative sites.

The library does not find sites like this. It is here to tell the failures of these iterations from
those of the approximations.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_expit, logsumexp

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference import SitePosterior
from gpclass.inference.sites import Sites
from gpclass.likelihoods import Likelihood, Logit
from gpclass.priors import DensePrior

Array = NDArray[np.float64]

ITERATIONS: Final = 10
ORDER: Final = 10
# GTS19 set the negative variance of a site "to a small positive number" that they do not print.
SMALL: Final = 1e-2
# Log variance and log length-scale where the search starts, and how far it may go.
START: Final = (float(np.log(10.0)), 0.0)
FARTHEST: Final = 15.0
# What the search sees where the evidence does not exist.
NOTHING: Final = 1e6


class Linear(NamedTuple):
    """``E[y | f] = A f + b`` with error variance Omega, each (n,) (GTS19 eq. 9)."""

    A: Array
    b: Array
    omega: Array


class Update(NamedTuple):
    """New sites of some rows, the linearisation that they are made of, and which were fixed."""

    nu: Array
    tau: Array
    linear: Linear | None
    fixed: NDArray[np.bool_]


class End(NamedTuple):
    """Where the iterations end, the log evidence, and how often a site was fixed on the way."""

    posterior: SitePosterior
    log_evidence: float
    n_fixed: int


@final
@dataclass(frozen=True)
class Plain:
    """Iterations of one method: "ep" or "pl", "parallel" or "sequential".

    Parameters
    ----------
    method, schedule : str
    likelihood : Likelihood
    fix : {"variance", "precision"}
        What of a site of negative variance becomes small: the variance, as GTS19 say, so that the
        site holds its latent fast, or the precision, so that the site says next to nothing.
    order : int
        Of the quadrature of the logit, and of all likelihoods in GTS19 eq. 18.
    """

    method: str
    schedule: str
    likelihood: Likelihood
    fix: str = "variance"
    order: int = ORDER

    def run(self, K: Array, y: Array) -> End:
        """Iterate from the prior, and evaluate the evidence at the end."""
        prior, n = DensePrior(K), len(y)
        nu, tau, fixed = np.zeros((3, n))
        linear = Linear(np.zeros(n), np.zeros(n), np.ones(n))
        sweep = self._all_at_once if self.schedule == "parallel" else self._one_by_one
        for _ in range(ITERATIONS):
            sweep(prior, y, nu, tau, linear, fixed)
        posterior = SitePosterior.from_sites(prior, Sites(nu, tau)).with_covariance()
        if self.method == "ep":
            evidence = self._ep_energy(posterior, y)
        else:
            evidence = self._correction(posterior, y, linear)
        return End(posterior, evidence, int(fixed.sum()))

    def _all_at_once(
        self, prior: DensePrior, y: Array, nu: Array, tau: Array, linear: Linear, fixed: Array
    ) -> None:
        posterior = SitePosterior.from_sites(prior, Sites(nu.copy(), tau.copy()))
        variance = posterior.with_covariance().variance
        self._write(slice(None), y, posterior.mean, variance, nu, tau, linear, fixed)

    def _one_by_one(
        self, prior: DensePrior, y: Array, nu: Array, tau: Array, linear: Linear, fixed: Array
    ) -> None:
        """RW06 Algorithm 3.5, lines 4 to 14."""
        posterior = SitePosterior.from_sites(prior, Sites(nu.copy(), tau.copy()))
        sigma = posterior.factor.sequential_covariance().rows(slice(0, prior.n)).copy()
        mean = posterior.mean.copy()
        for i in range(prior.n):
            row, before = slice(i, i + 1), (nu[i], tau[i])
            self._write(row, y, mean[row], sigma[i, row].copy(), nu, tau, linear, fixed)
            s, d_nu, d_tau = sigma[i].copy(), nu[i] - before[0], tau[i] - before[1]
            shrink = 1.0 + d_tau * s[i]
            mean += (d_nu - d_tau * mean[i]) / shrink * s
            sigma -= np.multiply.outer(d_tau / shrink * s, s)

    def _write(
        self,
        rows: slice,
        y: Array,
        m: Array,
        v: Array,
        nu: Array,
        tau: Array,
        linear: Linear,
        fixed: Array,
    ) -> None:
        """Write the sites that marginals ask for into the arrays of all rows."""
        update = self._sites(y[rows], m, v, nu[rows], tau[rows])
        nu[rows], tau[rows] = update.nu, update.tau
        fixed[rows] += update.fixed
        if update.linear is not None:
            for whole, part in zip(linear, update.linear, strict=True):
                whole[rows] = part

    def _sites(self, y: Array, m: Array, v: Array, nu: Array, tau: Array) -> Update:
        if self.method == "pl":
            fit = self._regression(m, v)
            force = fit.A * (y - fit.b) / fit.omega
            return Update(force, fit.A**2 / fit.omega, fit, np.zeros(len(m), dtype=bool))
        rest_nu, rest_tau = m / v - nu, 1.0 / v - tau
        _, mean, variance = self._tilted(y, rest_nu / rest_tau, 1.0 / rest_tau)
        new_nu, new_tau = mean / variance - rest_nu, 1.0 / variance - rest_tau
        fixed = new_tau < 0.0
        if self.fix == "variance":
            # the site keeps its mean
            new_nu[fixed] /= SMALL * new_tau[fixed]
            new_tau[fixed] = 1.0 / SMALL
        else:
            new_tau[fixed] = SMALL
        return Update(new_nu, new_tau, None, fixed)

    def _nodes(self, m: Array, v: Array) -> tuple[Array, Array]:
        """Nodes (order, n) under N(m, v), and weights (order, 1)."""
        x, w = np.polynomial.hermite_e.hermegauss(self.order)
        return m + np.sqrt(v) * x[:, None], w[:, None] / w.sum()

    def _tilted(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """Log evidence, mean and variance of the tilted density (RW06 eq. 3.58)."""
        if not isinstance(self.likelihood, Logit):
            found = self.likelihood.tilted_moments(y, m, v)
            return found.log_z, found.mean, found.variance
        f, w = self._nodes(m, v)
        log_w = np.log(w) + log_expit(y * f)
        log_z = logsumexp(log_w, axis=0)
        w = np.exp(log_w - log_z)
        mean = (w * f).sum(axis=0)
        return log_z, mean, (w * (f - mean) ** 2).sum(axis=0)

    def _regression(self, m: Array, v: Array) -> Linear:
        """Statistical linear regression (GTS19 eq. 15 and 16)."""
        if not isinstance(self.likelihood, Logit):
            return Linear(*self.likelihood.linearise(m, v))
        f, w = self._nodes(m, v)
        expected = np.tanh(0.5 * f)
        center = (w * expected).sum(axis=0)
        A = (w * expected * (f - m)).sum(axis=0) / v
        return Linear(A, center - A * m, 1.0 - center**2 - A**2 * v)

    def _ep_energy(self, posterior: SitePosterior, y: Array) -> float:
        """RW06 eq. 3.65, the sites by their natural parameters."""
        nu, tau, v = posterior.sites.nu, posterior.sites.tau, posterior.variance
        rest_nu, rest_tau = posterior.mean / v - nu, 1.0 / v - tau
        log_z, _, _ = self._tilted(y, rest_nu / rest_tau, 1.0 / rest_tau)
        shift = rest_nu**2 / rest_tau - (rest_nu + nu) ** 2 * v
        scale = np.log1p(tau / rest_tau)
        return posterior.log_partition() + float((log_z + 0.5 * (scale + shift)).sum())

    def _correction(self, posterior: SitePosterior, y: Array, linear: Linear) -> float:
        """GTS19 eq. 18, each integral by quadrature."""
        A, b, omega = linear
        f, w = self._nodes(posterior.mean, posterior.variance)
        gauss = 0.5 * np.log(2.0 * np.pi * omega)
        log_ratio = self.likelihood.log_prob(y, f) + gauss + 0.5 * (y - A * f - b) ** 2 / omega
        corrections = logsumexp(log_ratio + np.log(w), axis=0)
        log_labels = -gauss - 0.5 * (y - b) ** 2 / omega
        return posterior.log_partition() + float((log_labels + corrections).sum())


def covariance(squared: Array, theta: Array) -> Array:
    """``sigma^2 exp(-r^2 / (2 l^2))`` of squared distances; theta is (log sigma^2, log l)."""
    return np.asarray(np.exp(theta[0] - 0.5 * squared * np.exp(-2.0 * theta[1])))


def maximise(evidence: Callable[[Array], float]) -> tuple[Array, int]:
    """BFGS with differences from GTS19's start; the hyperparameters, and how often it asked."""
    count = 0

    def minus(theta: Array) -> float:
        nonlocal count
        count += 1
        if np.abs(theta).max() > FARTHEST:
            return NOTHING
        try:
            with np.errstate(all="ignore"):
                value = evidence(theta)
        except (NotPositiveDefiniteError, np.linalg.LinAlgError):
            return NOTHING
        return -value if np.isfinite(value) else NOTHING

    # a gradient below 0.01 moves no error rate; evidences of ten iterations are not smooth
    found = minimize(minus, START, method="BFGS", options={"gtol": 1e-2, "maxiter": 25})
    return np.asarray(found.x), count
