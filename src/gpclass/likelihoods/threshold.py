"""The noisy threshold likelihood, p(y|f) = eps + (1 - 2 eps) H(y f)."""

from dataclasses import dataclass, replace
from numbers import Real
from typing import ClassVar, Final, Literal, NamedTuple, Self, final

import numpy as np
from scipy.special import erf, expit, log_ndtr, ndtr

from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.normal import Z_LIMIT, mills
from gpclass.likelihoods.results import (
    Array,
    Derivatives,
    ExpectedLogProb,
    TiltedMoments,
)

# What `Likelihood` has for log 0.
LOG_ZERO: Final = -1e300
# Smallest variance that is divided by; derivatives of log Z would overflow below it.
SMALLEST_VARIANCE: Final = 1e-300


@final
@dataclass(frozen=True)
class NoisyThreshold(Likelihood):
    """Noisy threshold ``p(y|f) = eps + (1 - 2 eps) H(y f)``: the sign of f, at times misread.

    H is the step function with ``H(0) = 1/2``. A label far on the wrong side costs no more than
    ``log eps``, so single wrong labels do not bend the boundary; the price is that ``log p`` is
    not concave, and the posterior may have several modes. Laplace's method cannot be used: the
    gradient of ``log p`` is zero wherever it exists.

    Parameters
    ----------
    epsilon : float, default=0.01
        Probability of the wrong label, ``0 <= epsilon < 0.5``. Zero is the hard threshold: it is
        log-concave, ``theta`` is empty (zero has no logarithm), ``log_prob`` of the wrong side is
        -1e300 and ``expected_log_prob``, which is minus infinity, is refused.
    epsilon_bounds : pair of floats or "fixed", default=(1e-6, 0.49)
        Where epsilon is looked for. "fixed" keeps it out of ``theta``.

    Raises
    ------
    ValueError
        For values out of range.
    TypeError
        For values that are no numbers.

    Notes
    -----
    All integrals are closed forms. To the power a, the two values of p become ``eps^a`` and
    ``(1 - eps)^a``. The evidence ``Z = eps^a + ((1 - eps)^a - eps^a) Phi(z)`` with
    ``z = y m / sqrt(v)`` is that of a mixture of the Gaussian truncated at zero, of responsibility
    ``rho``, and of the Gaussian itself, of responsibility ``1 - rho``. All moments below are of
    this mixture. The variance exceeds v where a surprising label leaves both components likely.

    At v = 0 the derivatives by the mean are returned as zero, as those of ``log p`` are.

    References
    ----------
    KG06 eq. 1; GTS19 eq. 3 and the supplement, where the total variance of a label should read
    ``1 - (2 beta - 1)^2``.

    Examples
    --------
    A label that contradicts a sure latent is taken as an error, and moves it little:

    >>> import numpy as np
    >>> moments = NoisyThreshold(0.05).tilted_moments(1.0, np.array([-0.5, -3.0]), 1.0)
    >>> moments.mean.round(3), moments.variance.round(3)
    (array([ 0.467, -2.922]), array([0.548, 1.228]))
    """

    epsilon: float = 0.01
    epsilon_bounds: tuple[float, float] | Literal["fixed"] = (1e-6, 0.49)

    name: ClassVar[str] = "threshold"
    smooth: ClassVar[bool] = False

    def __post_init__(self) -> None:
        epsilon, bounds = self.epsilon, self.epsilon_bounds
        if not isinstance(epsilon, Real):
            raise TypeError(f"epsilon must be a number, got {epsilon!r}")
        if not 0.0 <= epsilon < 0.5:
            raise ValueError(f"epsilon must be at least 0 and below 0.5, got {epsilon!r}")
        if bounds == "fixed":
            return
        pair = isinstance(bounds, tuple) and len(bounds) == 2
        if not (pair and all(isinstance(bound, Real) for bound in bounds)):
            raise TypeError(f'epsilon_bounds must be "fixed" or a pair of numbers, got {bounds!r}')
        if not 0.0 < bounds[0] <= bounds[1] < 0.5:
            raise ValueError(
                f"epsilon_bounds must be positive, in ascending order and below 0.5, got {bounds!r}"
            )

    @property
    def log_concave(self) -> bool:
        """Only the hard threshold is."""
        return bool(self.epsilon == 0.0)

    @property
    def theta(self) -> Array:
        """``log epsilon``, unless it is fixed or zero."""
        logs: Array = np.log(np.array([self.epsilon] if self._is_free else [], dtype=float))
        return logs

    @property
    def bounds(self) -> Array:
        """Logarithms of ``epsilon_bounds``, shape (1, 2), or (0, 2) where theta is empty."""
        if not self._is_free:
            return np.empty((0, 2))
        logs: Array = np.log(np.array([self.epsilon_bounds], dtype=float))
        return logs

    @property
    def hyperparameter_names(self) -> tuple[str, ...]:
        """``("epsilon",)``, or empty."""
        return ("epsilon",) if self._is_free else ()

    def with_theta(self, theta: Array) -> Self:
        """Return the noisy threshold with ``epsilon = exp(theta[0])``."""
        self._check_theta(theta)
        # log and exp do not return to the same number
        if np.array_equal(theta, self.theta):
            return self
        return replace(self, epsilon=float(np.exp(theta[0])))

    @property
    def _is_free(self) -> bool:
        return self.epsilon > 0.0 and self.epsilon_bounds != "fixed"

    def log_prob(self, y: Array, f: Array) -> Array:
        """``log eps`` or ``log(1 - eps)``, ``log(1/2)`` at f = 0; -1e300 for log 0."""
        side = np.multiply(y, np.sign(f))
        levels = self._levels(1.0)
        wrong = np.maximum(levels.wrong, LOG_ZERO)
        return np.where(side > 0.0, levels.right, np.where(side < 0.0, wrong, np.log(0.5)))

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """Zero; the jump at f = 0 has none."""
        shape = np.broadcast_shapes(np.shape(y), np.shape(f))
        return Derivatives(np.zeros(shape), np.zeros(shape), np.zeros(shape))

    def tilted_moments(self, y: Array, mean: Array, var: Array) -> TiltedMoments:
        """Moments of the mixture, with ``Z = eps + (1 - 2 eps) Phi(z)``."""
        return self.power_moments(1.0, y, mean, var)

    def power_moments(
        self, power: Array | float, y: Array, mean: Array, var: Array
    ) -> TiltedMoments:
        """Moments of ``p(y|f)^power N(f|mean, var)``, powers from zero to one.

        With r the normal hazard at z and rho the responsibility of the truncated Gaussian, the
        mean is ``m + y sqrt(v) rho r`` and the variance
        ``v (1 - rho + rho (1 - r (z + r)) + rho (1 - rho) r^2)``, a sum of positive terms.

        Raises
        ------
        ValueError
            For a power out of range.
        """
        a, y, m, v = _broadcast(power, y, mean, var)
        sd, z = np.sqrt(v), _standardised(y, m, v)
        levels = self._levels(a)
        truncated, whole = levels.responsibilities(z)
        tail = mills(z)
        pull = truncated * tail.hazard
        # On the wrong side m + y sd r cancels, and sd times (z + r) is what is left of it.
        against = whole * m + truncated * (y * sd * tail.drift)
        spread = whole + truncated * tail.slack + whole * (pull * tail.hazard)
        # z + rho r, likewise
        drift = np.where(z < 0.0, tail.drift - whole * tail.hazard, z + pull)
        divisor = np.maximum(v, SMALLEST_VARIANCE)
        still = v == 0.0
        log_z = np.where(still, a * self.log_prob(y, m), levels.log_evidence(z))
        return TiltedMoments(
            log_z=np.maximum(log_z, LOG_ZERO),
            mean=np.where(still, m, np.where(z < 0.0, against, m + y * sd * pull)),
            variance=v * spread,
            d_mean=np.where(still, 0.0, y * pull / np.sqrt(divisor)),
            d2_mean=np.where(still, 0.0, -(pull * drift) / divisor),
        )

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
        """``log eps + (log(1 - eps) - log eps) Phi(z)`` and its derivatives.

        Raises
        ------
        ValueError
            If ``epsilon`` is zero: the expectation is then minus infinity for every Gaussian.
        """
        self._require_noise()
        _, y, m, v = _broadcast(1.0, y, mean, var)
        z = _standardised(y, m, v)
        wrong, right = np.log(self.epsilon), np.log1p(-self.epsilon)
        jump = right - wrong
        density = jump * np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
        divisor = np.maximum(v, SMALLEST_VARIANCE)
        still = v == 0.0
        return ExpectedLogProb(
            value=np.where(z > 0.0, right - jump * ndtr(-z), wrong + jump * ndtr(z)),
            d_mean=np.where(still, 0.0, y * density / np.sqrt(divisor)),
            d_var=np.where(still, 0.0, -0.5 * z * density / divisor),
        )

    def predict_proba(self, mean: Array, var: Array) -> Array:
        """``eps + (1 - 2 eps) Phi(m / sqrt(v))``."""
        _, _, m, v = _broadcast(1.0, 1.0, mean, var)
        z = _standardised(1.0, m, v)
        return np.asarray(self.epsilon + (1.0 - 2.0 * self.epsilon) * ndtr(z), dtype=float)

    def log_z_gradient(
        self, y: Array, mean: Array, var: Array, power: Array | float = 1.0
    ) -> Array:
        """Gradient of the log evidence by ``log eps``, shape (1, ...), or (0, ...) if not free.

        With ``lambda = log(eps / (1 - eps))`` it is
        ``a (1 - rho) (Phi(-z) - exp((1 - a) lambda) Phi(z))``.
        """
        a, y, m, v = _broadcast(power, y, mean, var)
        if not self._is_free:
            return np.zeros((0, *y.shape))
        z = _standardised(y, m, v)
        odds = np.log(self.epsilon) - np.log1p(-self.epsilon)
        other, kept = (1.0 - a) * odds, ndtr(z)
        # near a = 1 both terms are alike around z = 0, and their common part goes first
        excess = np.where(
            other < -1.0,
            ndtr(-z) - np.exp(other) * kept,
            -np.expm1(other) * kept - erf(z / np.sqrt(2.0)),
        )
        _, whole = self._levels(a).responsibilities(z)
        return np.asarray(a * whole * excess, dtype=float)[None]

    def expected_log_prob_gradient(self, y: Array, mean: Array, var: Array) -> Array:
        """``Phi(-z) - eps / (1 - eps) Phi(z)``, shape (1, ...), or (0, ...) if not free.

        Raises
        ------
        ValueError
            If ``epsilon`` is zero.
        """
        self._require_noise()
        _, y, m, v = _broadcast(1.0, y, mean, var)
        if not self._is_free:
            return np.zeros((0, *y.shape))
        z = _standardised(y, m, v)
        odds = self.epsilon / (1.0 - self.epsilon)
        return np.asarray(ndtr(-z) - odds * ndtr(z), dtype=float)[None]

    def _require_noise(self) -> None:
        if self.epsilon == 0.0:
            raise ValueError(
                "E[log p(y|f)] is minus infinity for the hard threshold: the variational bound "
                "needs epsilon > 0"
            )

    def _levels(self, power: Array | float) -> "_Levels":
        """The two values that ``p^power`` takes."""
        power = np.asarray(power, dtype=float)
        with np.errstate(divide="ignore"):
            log_wrong = np.log(self.epsilon)
        silent = power == 0.0
        wrong = np.where(silent, 0.0, np.where(silent, 1.0, power) * log_wrong)
        return _Levels(wrong, power * np.log1p(-self.epsilon))


@final
class _Levels(NamedTuple):
    """Logarithms of a likelihood that takes two values; ``wrong`` may be minus infinity."""

    wrong: Array
    right: Array

    def _log_truncated(self, z: Array) -> Array:
        """``log((e^right - e^wrong) Phi(z))``, minus infinity where the two levels agree."""
        with np.errstate(divide="ignore"):
            log_jump = self.right + np.log(-np.expm1(self.wrong - self.right))
        return np.asarray(log_jump + log_ndtr(z), dtype=float)

    def responsibilities(self, z: Array) -> tuple[Array, Array]:
        """Those of the truncated Gaussian and of the whole one; they add up to one."""
        odds = self._log_truncated(z) - self.wrong
        return expit(odds), expit(-odds)

    def log_evidence(self, z: Array) -> Array:
        """``log(e^wrong + (e^right - e^wrong) Phi(z))``, accurate where Z is near e^right too."""
        miss = -np.expm1(self.wrong - self.right) * ndtr(-np.maximum(z, 0.0))
        above = self.right + np.log1p(-miss)
        return np.where(z > 0.0, above, np.logaddexp(self.wrong, self._log_truncated(z)))


def _broadcast(
    power: Array | float, y: Array | float, mean: Array, var: Array
) -> tuple[Array, Array, Array, Array]:
    """Return all four as arrays of one shape, the power checked."""
    arrays = (np.asarray(a, dtype=float) for a in (power, y, mean, var))
    a, y, m, v = np.broadcast_arrays(*arrays)
    if not ((a >= 0.0) & (a <= 1.0)).all():
        raise ValueError("power must be from zero to one")
    return a, y, m, v


def _standardised(y: Array | float, mean: Array, var: Array) -> Array:
    """``y mean / sqrt(var)`` within +-Z_LIMIT; at no variance the side on which the mean lies."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        z = mean / np.sqrt(var)
    z = np.where(var > 0.0, z, Z_LIMIT * np.sign(mean))
    return np.asarray(y * np.clip(z, -Z_LIMIT, Z_LIMIT))
