"""The laws of a likelihood, for the library's and for users' own classes."""

from functools import partial
from typing import Final, NamedTuple

import numpy as np
from sklearn.base import clone

from gpclass.likelihoods import Likelihood
from gpclass.linalg import Array
from gpclass.testing.comparison import difference

# Where the laws are checked: latent values off the threshold at 0, and Gaussians that are narrow,
# of unit scale and wide on the scale of a sigmoid.
_LATENTS: Final = np.array([-30.0, -7.3, -2.1, -0.6, 0.4, 1.3, 3.7, 9.0, 40.0])
_MEANS: Final = np.array([-6.0, -1.7, -0.2, 0.0, 0.9, 2.5, 7.0])
_VARS: Final = np.array([0.04, 0.5, 3.0, 40.0, 900.0])
_EXTREME_MEANS: Final = np.array([-1e150, -1e8, -300.0, 0.0, 1e-300, 300.0, 1e8, 1e150])
_EXTREME_VARS: Final = np.array([0.0, 1e-300, 1e-12, 1.0, 6000.0, 1e12, 1e300])

# None, part and all of a label.
_POWERS: Final = (0.0, 0.3, 1.0)

# A fifth-order central difference with this step has errors of truncation and of rounding near
# 1e-10 for the first derivative of a function of unit scale.
_STEP: Final = 2e-3

# Deviations from the mean beyond which the Gaussian is zero in double precision.
_REACH: Final = 39.0

# A log-probability beyond this is cut off: it may be as low as -1e300. Where E[log p(y|f)] has its
# mass among such values, it is not compared.
_CUT_OFF: Final = -1e290


def check_likelihood(likelihood: Likelihood) -> None:
    """Check a likelihood against the laws of `gpclass.likelihoods.base.Likelihood`.

    In this order; integrals are compared with a fine rule over all of the Gaussian that is not
    zero in double precision, split at f = 0:

    - *probabilities*: those of both labels add up to one, log-probabilities are at most zero
    - *derivatives*: first to third agree with central differences
    - *log-concavity*: the second derivative is at most zero, if ``log_concave``
    - *no spread*: ``tilted_moments(y, m, 0)`` is ``(log_prob(y, m), m, 0)``
    - *log_z*, *tilted mean*, *tilted variance*: the integrals that they stand for
    - *d_mean*, *d2_mean*: the first and second derivative of log Z by m
    - *linearise*: ``A = Cov[f, E[y|f]] / v``, ``b = E[y] - A m``, ``Omega = 1 - E[y]^2 - A^2 v``
    - *expected_log_prob*: the integral of ``log_prob``, and its derivatives by m and v
    - *predict_proba*: ``exp(log_z)`` of the label +1
    - *power_moments*: the integrals that they stand for, at powers 0, 0.3 and 1
    - *theta*: shapes of ``theta``, ``bounds`` and names; ``with_theta(theta)`` is the same
      likelihood, and another theta is taken on
    - *log_z_gradient*, *expected_log_prob_gradient*: central differences by theta
    - *clone*: scikit-learn's clone is the same likelihood
    - *finite*: everything, for means to 1e150 and variances from 0 to 1e300, with
      ``variance >= 0``, ``Omega > 0`` and probabilities in [0, 1]
    - *shapes*: arguments broadcast against each other

    Parameters
    ----------
    likelihood : Likelihood
        For labels in {-1, +1}; smooth on the scale of one but for a jump at f = 0. Free
        hyperparameters must stay valid when changed by 0.4 per cent.

    Raises
    ------
    AssertionError
        Naming the first law that is broken, with the arguments and the size of the error.

    Examples
    --------
    >>> from gpclass.likelihoods import Probit
    >>> from gpclass.testing import check_likelihood
    >>> check_likelihood(Probit())
    """
    _check_pointwise(likelihood)
    _check_no_spread(likelihood)
    for label in (1.0, -1.0):
        for var in _VARS:
            site = _Sites.of(likelihood, label, float(var))
            _check_moments(likelihood, site)
            _check_linearisation(likelihood, site)
            _check_expectations(likelihood, site)
            _check_gradients(likelihood, site)
    _check_hyperparameters(likelihood)
    _check_extremes(likelihood)
    _check_shapes(likelihood)


def _require_close(
    law: str, got: Array, expected: Array, tolerance: Array | float, at: str
) -> None:
    """Assert ``|got - expected| <= tolerance`` elementwise; a NaN fails."""
    error = np.abs(np.asarray(got) - expected)
    excess = error / np.broadcast_to(tolerance, error.shape)
    if not np.all(excess <= 1.0):
        worst = np.unravel_index(np.argmax(np.nan_to_num(excess, nan=np.inf)), error.shape)
        raise AssertionError(
            f"{law}: got {np.asarray(got)[worst]!r}, expected {np.asarray(expected)[worst]!r} "
            f"at {at}, element {tuple(int(i) for i in worst)}"
        )


def _check_pointwise(likelihood: Likelihood) -> None:
    f = _LATENTS
    total = np.exp(likelihood.log_prob(np.ones_like(f), f))
    total = total + np.exp(likelihood.log_prob(-np.ones_like(f), f))
    _require_close("probabilities: p(+1|f) + p(-1|f) = 1", total, np.ones_like(f), 1e-13, f"f={f}")
    for label in (1.0, -1.0):
        y = np.full_like(f, label)
        at = f"y={label:+.0f}, f={f}"
        if not np.all(likelihood.log_prob(y, f) <= 0.0):
            raise AssertionError(f"probabilities: log p(y|f) <= 0 fails at {at}")

        def below(t: float, y: Array = y) -> Array:
            found = likelihood.derivatives(y, f + t)
            return np.stack([likelihood.log_prob(y, f + t), found.first, found.second])

        found = likelihood.derivatives(y, f)
        size = np.abs(likelihood.log_prob(y, f))
        for order, got, expected in zip(
            ("first", "second", "third"), found, difference(below, _STEP), strict=True
        ):
            # one rounding of what is differenced, over the step
            tolerance = 1e-8 * (1e-3 + np.abs(expected)) + 1e-13 * size / _STEP
            law = f"derivatives: {order} derivative of log_prob"
            _require_close(law, got, expected, tolerance, at)
            size = np.abs(got)
        if likelihood.log_concave and not np.all(found.second <= 0.0):
            raise AssertionError(f"log-concavity: log_concave, but second > 0 at {at}")


def _check_no_spread(likelihood: Likelihood) -> None:
    for label in (1.0, -1.0):
        y, m = np.full_like(_LATENTS, label), _LATENTS
        at = f"y={label:+.0f}, mean={m}, var=0"
        found = likelihood.tilted_moments(y, m, np.zeros_like(m))
        expected = likelihood.log_prob(y, m)
        tolerance = 1e-10 * np.maximum(np.abs(expected), 1e-290)
        _require_close("no spread: log_z = log p(y|m)", found.log_z, expected, tolerance, at)
        _require_close("no spread: mean = m", found.mean, m, 1e-13 * np.abs(m), at)
        _require_close("no spread: variance = 0", found.variance, np.zeros_like(m), 1e-300, at)


class _Sites(NamedTuple):
    """One label under Gaussians of one variance; standardised nodes and weights, (n_nodes, n)."""

    y: Array
    mean: Array
    var: Array
    x: Array
    weights: Array
    log_p: Array
    at: str

    @classmethod
    def of(cls, likelihood: Likelihood, label: float, var: float) -> "_Sites":
        """Gauss-Legendre on panels of a tenth of a deviation, shorter around f = 0."""
        mean, y, v = _MEANS, np.full_like(_MEANS, label), np.full_like(_MEANS, var)
        sd = np.sqrt(v)
        even = np.linspace(-_REACH, _REACH, int(20 * _REACH) + 1)[:, None] + np.zeros_like(mean)
        inner = np.clip((np.linspace(-45.0, 45.0, 61)[:, None] - mean) / sd, -_REACH, _REACH)
        edges = np.sort(np.concatenate([even, inner]), axis=0)
        t, w = np.polynomial.legendre.leggauss(12)
        half = 0.5 * np.diff(edges, axis=0)[:, None, :]
        x = (edges[:-1, None, :] + half + half * t[:, None]).reshape(-1, mean.size)
        weights = (half * w[:, None]).reshape(-1, mean.size)
        weights = weights * np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
        log_p = likelihood.log_prob(np.broadcast_to(y, x.shape), mean + sd * x)
        return cls(y, mean, v, x, weights, log_p, f"y={label:+.0f}, mean={mean}, var={var}")

    def integrals(self) -> tuple[Array, Array]:
        """Evidence Z, and that of the other label, both to their own digits."""
        other = -(self.weights * np.expm1(self.log_p)).sum(axis=0)
        return (self.weights * np.exp(self.log_p)).sum(axis=0), other

    def tilted(self, power: float = 1.0) -> tuple[Array, Array, Array]:
        """``Z = int p^power N``, and mean and variance of x under the normalised product."""
        mass = self.weights * np.exp(power * self.log_p)
        z = mass.sum(axis=0)
        x_mean = (mass * self.x).sum(axis=0) / z
        return z, x_mean, (mass * np.square(self.x - x_mean)).sum(axis=0) / z


def _check_moments(likelihood: Likelihood, site: _Sites) -> None:
    y, m, v = site.y, site.mean, site.var
    sd = np.sqrt(v)
    z, other = site.integrals()
    # relative in Z, or in 1 - Z where Z is near one
    log_z = np.where(z < 0.5, np.log(z), np.log1p(-other))
    slack = 1e-10 * np.minimum(1.0, other / z)
    found = likelihood.tilted_moments(y, m, v)
    _require_close("log_z = log int p(y|f) N(f|m, v) df", found.log_z, log_z, slack, site.at)
    if likelihood.log_concave and not np.all(found.variance <= v * (1.0 + 1e-12)):
        raise AssertionError(f"tilted variance: log_concave, but above var at {site.at}")
    answers = {"tilted": (1.0, found)} | {
        f"power_moments: power {power},": (power, likelihood.power_moments(power, y, m, v))
        for power in _POWERS
    }
    for name, (power, found) in answers.items():
        mass, x_mean, x_var = site.tilted(power)
        _require_close(f"{name} log_z", found.log_z, np.log(mass), 1e-10, site.at)
        _require_close(f"{name} mean", found.mean, m + sd * x_mean, 1e-9 * sd, site.at)
        _require_close(f"{name} variance", found.variance, v * x_var, 1e-9 * v, site.at)
        # Stein: d log Z / dm = E_t[f - m] / v, d2 log Z / dm2 = (Var_t - v) / v^2
        _require_close(f"{name} d_mean", found.d_mean, x_mean / sd, 1e-9 / sd, site.at)
        _require_close(f"{name} d2_mean", found.d2_mean, (x_var - 1.0) / v, 1e-9 / v, site.at)


def _check_linearisation(likelihood: Likelihood, site: _Sites) -> None:
    m, v, at = site.mean, site.var, site.at
    sd = np.sqrt(v)
    z, other = site.integrals()
    positive = site.y[0] > 0
    means = z - other if positive else other - z
    A = (site.weights * site.x * np.exp(site.log_p)).sum(axis=0) * 2.0 * site.y / sd
    fit = likelihood.linearise(m, v)
    _require_close("linearise: A = Cov[f, E[y|f]] / v", fit.A, A, 1e-9 / sd, at)
    _require_close(
        "linearise: b = E[y] - A m", fit.b, means - A * m, 1e-9 * (1 + np.abs(m) / sd), at
    )
    omega = 1.0 - means * means - A * A * v
    _require_close("linearise: Omega = 1 - E[y]^2 - A^2 v", fit.Omega, omega, 1e-9, at)
    plus = z if positive else other
    proba = likelihood.predict_proba(m, v)
    _require_close("predict_proba = exp(log_z) of +1", proba, plus, 1e-10 * plus, at)


def _check_expectations(likelihood: Likelihood, site: _Sites) -> None:
    v, x, log_p, at = site.var, site.x, site.log_p, site.at
    sd = np.sqrt(v)
    expected = likelihood.expected_log_prob(site.y, site.mean, v)
    size = site.weights * np.abs(log_p)
    scale = size.sum(axis=0) + 1e-6
    cut_off = np.where(log_p < _CUT_OFF, size, 0.0).sum(axis=0)
    scale = np.where(cut_off < 1e-12 * scale, scale, np.inf)
    value = (site.weights * log_p).sum(axis=0)
    d_mean = (site.weights * x * log_p).sum(axis=0) / sd
    d_var = 0.5 * (site.weights * (x * x - 1.0) * log_p).sum(axis=0) / v
    # where the mass is at large x, so are the terms of the derivatives
    first = np.maximum(scale, (size * np.abs(x)).sum(axis=0))
    second = np.maximum(scale, (size * x * x).sum(axis=0))
    name = "expected_log_prob"
    _require_close(f"{name} = E[log p(y|f)]", expected.value, value, 1e-9 * scale, at)
    _require_close(f"{name}: d_mean = dE/dm", expected.d_mean, d_mean, 1e-8 * first / sd, at)
    _require_close(f"{name}: d_var = dE/dv", expected.d_var, d_var, 1e-8 * second / v, at)


def _check_hyperparameters(likelihood: Likelihood) -> None:
    theta, p = likelihood.theta, len(likelihood.hyperparameter_names)
    if np.shape(theta) != (p,) or np.shape(likelihood.bounds) != (p, 2):
        raise AssertionError(
            f"theta: {p} names {likelihood.hyperparameter_names}, but shapes {np.shape(theta)} of "
            f"theta and {np.shape(likelihood.bounds)} of bounds"
        )
    if not np.all(likelihood.bounds[:, 0] <= likelihood.bounds[:, 1]):
        raise AssertionError(f"theta: bounds {likelihood.bounds} are not in ascending order")
    same = likelihood.with_theta(theta)
    if same != likelihood:
        raise AssertionError(f"theta: with_theta(theta) of {likelihood!r} is {same!r}")
    for j in range(p):
        moved = theta + _STEP * np.eye(p)[j]
        found = likelihood.with_theta(moved).theta
        _require_close("theta: with_theta(t).theta = t", found, moved, 1e-12, f"t={moved}")
    copy = clone(likelihood)
    if copy != likelihood:
        raise AssertionError(f"clone: that of {likelihood!r} is {copy!r}")


def _check_gradients(likelihood: Likelihood, site: _Sites) -> None:
    y, m, v, theta = site.y, site.mean, site.var, likelihood.theta
    gradients = {
        "log_z_gradient": likelihood.log_z_gradient(y, m, v),
        "expected_log_prob_gradient": likelihood.expected_log_prob_gradient(y, m, v),
    } | {
        f"log_z_gradient, power {power}": likelihood.log_z_gradient(y, m, v, power)
        for power in _POWERS
    }
    for law, gradient in gradients.items():
        if np.shape(gradient) != (len(theta), len(m)):
            shape = len(theta), len(m)
            raise AssertionError(f"{law}: shape {np.shape(gradient)}, expected {shape}")

    def values(t: float, j: int) -> Array:
        nearby = likelihood.with_theta(theta + t * np.eye(len(theta))[j])
        powers = [nearby.power_moments(power, y, m, v).log_z for power in _POWERS]
        log_z = nearby.tilted_moments(y, m, v).log_z
        return np.stack([log_z, nearby.expected_log_prob(y, m, v).value, *powers])

    for j, name in enumerate(likelihood.hyperparameter_names):
        expected = difference(partial(values, j=j), _STEP)
        allowed = 1e-8 * np.abs(expected) + 1e-10 + 1e-13 * np.abs(values(0.0, j)) / _STEP
        for i, (law, gradient) in enumerate(gradients.items()):
            law = f"{law}: derivative by log {name}"
            _require_close(law, gradient[j], expected[i], allowed[i], site.at)


def _answers(likelihood: Likelihood, y: Array, m: Array, v: Array) -> dict[str, dict[str, Array]]:
    """All that is asked of a likelihood, by method and field."""
    return {
        "log_prob": {"value": likelihood.log_prob(y, m)},
        "derivatives": likelihood.derivatives(y, m)._asdict(),
        "tilted_moments": likelihood.tilted_moments(y, m, v)._asdict(),
        "power_moments": likelihood.power_moments(0.3, y, m, v)._asdict(),
        "linearise": likelihood.linearise(m, v)._asdict(),
        "expected_log_prob": likelihood.expected_log_prob(y, m, v)._asdict(),
        "predict_proba": {"value": likelihood.predict_proba(m, v)},
        "log_z_gradient": {"value": likelihood.log_z_gradient(y, m, v)},
        "expected_log_prob_gradient": {"value": likelihood.expected_log_prob_gradient(y, m, v)},
    }


def _check_extremes(likelihood: Likelihood) -> None:
    y, m, v = (
        a.ravel() for a in np.meshgrid([-1.0, 1.0], _EXTREME_MEANS, _EXTREME_VARS, indexing="ij")
    )
    answers = _answers(likelihood, y, m, v)
    for owner, fields in answers.items():
        for field, values in fields.items():
            bad = (~np.isfinite(values)).reshape(-1, y.size).any(axis=0)
            if bad.any():
                i = int(np.argmax(bad))
                raise AssertionError(
                    f"finite: {owner} {field} is {values[..., i]} at y={y[i]:+.0f}, "
                    f"mean={m[i]:g}, var={v[i]:g}"
                )
    proba = answers["predict_proba"]["value"]
    for law, holds in (
        ("tilted variance >= 0", answers["tilted_moments"]["variance"] >= 0.0),
        ("linearise: Omega > 0 where var > 0", (answers["linearise"]["Omega"] > 0.0) | (v == 0.0)),
        ("predict_proba in [0, 1]", (proba >= 0.0) & (proba <= 1.0)),
    ):
        if not holds.all():
            i = int(np.argmin(holds))
            raise AssertionError(f"{law} fails at y={y[i]:+.0f}, mean={m[i]:g}, var={v[i]:g}")


def _check_shapes(likelihood: Likelihood) -> None:
    y, m, v = np.array([[1.0], [-1.0]]), np.array([0.3, -2.0, 5.0]), np.array(1.5)
    for owner, fields in _answers(likelihood, y, m, v).items():
        shape: tuple[int, ...] = (3,) if owner in ("linearise", "predict_proba") else (2, 3)
        if owner.endswith("gradient"):
            shape = (len(likelihood.theta), *shape)
        for field, values in fields.items():
            if np.shape(values) != shape:
                raise AssertionError(
                    f"shapes: {owner} {field} has {np.shape(values)}, expected {shape}"
                )
