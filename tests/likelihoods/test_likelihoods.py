"""Probit and logit against 40-digit integrals, at the ends of the number range, and by the laws."""

import itertools
from dataclasses import dataclass
from typing import ClassVar

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpclass.likelihoods import LIKELIHOODS, Logit, Probit, by_quadrature, get_likelihood
from gpclass.likelihoods.base import Derivatives, Likelihood
from gpclass.likelihoods.results import linearisation
from gpclass.testing.likelihoods import check_likelihood

DIGITS = 40
FEW_MEANS, FEW_VARS = (-50.0, 0.5, 35.0), (1e-8, 1.0, 40.0, 1e6)
MEANS = (-50.0, -20.0, -6.0, -0.7, 0.0, 0.1, 2.0, 12.0, 35.0, 50.0)
VARS = (1e-8, 1e-3, 0.3, 0.81, 0.9, 4.0, 17.0, 40.0, 150.0, 3e3, 1e6)
FEW = list(itertools.product(FEW_MEANS, FEW_VARS))
GRID = FEW + [
    pytest.param(*pair, marks=pytest.mark.slow)
    for pair in itertools.product(MEANS, VARS)
    if pair not in FEW
]
LABELS = np.array([1.0, -1.0])


def logistic(f):
    """log p, p, 1 - p and the first two derivatives of log p, for y = +1."""
    e = mp.exp(-abs(f))
    small, large = e / (1 + e), 1 / (1 + e)
    p, q = (large, small) if f > 0 else (small, large)
    return mp.log(p) if f < 30 else mp.log1p(-q), p, q, q, -p * q


def normal(f):
    """As `logistic`, of the normal distribution function."""
    p, q = mp.ncdf(f), mp.ncdf(-f)
    r = mp.npdf(f) / p
    return mp.log(p) if f < 2 else mp.log1p(-q), p, q, r, -r * (f + r)


def nodes(m, v, tilt):
    """Nodes in f and weights with the Gaussian, on panels short in f and in standard units."""
    sd = mp.sqrt(mp.mpf(v))
    reach = 14 + tilt
    cuts = {-reach + 2 * reach * mp.mpf(j) / 14 for j in range(15)}
    cuts |= {
        (c - mp.mpf(m)) / sd
        for c in (-60, -40, -25, -15, -10, -6, -3, 0, 3, 6, 10, 15, 25, 40, 60)
        if sd > 0.5 and abs((c - mp.mpf(m)) / sd) < reach
    }
    cuts = sorted(cuts)
    t, w = GAUSS
    for a, b in itertools.pairwise(cuts):
        for tk, wk in zip(t, w, strict=True):
            x = (a + b) / 2 + (b - a) / 2 * tk
            yield m + sd * x, x, wk * (b - a) / 2 * mp.npdf(x)


def gauss(order):
    """Gauss-Legendre nodes and weights to DIGITS, polished from double precision."""
    t, w = [], []
    for start in np.polynomial.legendre.leggauss(order)[0]:
        x = mp.mpf(float(start))
        for _ in range(3):
            p0, p1 = mp.mpf(1), x
            for k in range(2, order + 1):
                p0, p1 = p1, ((2 * k - 1) * x * p1 - (k - 1) * p0) / k
            slope = order * (x * p1 - p0) / (x * x - 1)
            x -= p1 / slope
        t.append(x)
        w.append(2 / ((1 - x * x) * slope**2))
    return t, w


mp.mp.dps = DIGITS
GAUSS = gauss(36)


def reference(curve, m, v, tilt):
    """All that a likelihood is asked under N(m, v), for y = +1, as mpmath numbers."""
    table = [(f, x, w, *curve(f)) for f, x, w in nodes(m, v, tilt)]
    p_sum = mp.fsum(w * p for _, _, w, _, p, _, _, _ in table)
    q_sum = mp.fsum(w * q for _, _, w, _, _, q, _, _ in table)
    tilted = [(w * p / p_sum, x, d1, d2) for _, x, w, _, p, _, d1, d2 in table]
    d = mp.fsum(w * d1 for w, _, d1, _ in tilted)
    spread = mp.fsum(w * (d1 - d) ** 2 for w, _, d1, _ in tilted)
    x_mean = mp.fsum(w * x for w, x, _, _ in tilted)
    x_var = mp.fsum(w * (x - x_mean) ** 2 for w, x, _, _ in tilted)
    A = 2 * p_sum * d
    return {
        "log_z": mp.log(p_sum) if p_sum < 0.5 else mp.log1p(-q_sum),
        "mean": m + mp.sqrt(v) * x_mean,
        "variance": v * x_var,
        "d_mean": d,
        "d2_mean": mp.fsum(w * d2 for w, _, _, d2 in tilted) + spread,
        "A": A,
        "b": p_sum - q_sum - A * m,
        "Omega": 4 * p_sum * q_sum - A * A * v,
        "proba": p_sum,
        "elp": mp.fsum(w * logp for _, _, w, logp, *_ in table),
        "elp_m": mp.fsum(w * d1 for _, _, w, _, _, _, d1, _ in table),
        "elp_v": mp.fsum(w * d2 for _, _, w, _, _, _, _, d2 in table) / 2,
    }


def answers(likelihood, m, v):
    tilted = likelihood.tilted_moments(1.0, np.array([m]), np.array([v]))
    mirrored = likelihood.tilted_moments(-1.0, np.array([-m]), np.array([v]))
    np.testing.assert_allclose(tilted.log_z, mirrored.log_z, rtol=1e-14)
    np.testing.assert_allclose(tilted.d2_mean, mirrored.d2_mean, rtol=1e-11)
    fit = likelihood.linearise(np.array([m]), np.array([v]))
    expected = likelihood.expected_log_prob(1.0, np.array([m]), np.array([v]))
    return {
        **tilted._asdict(),
        **fit._asdict(),
        "proba": likelihood.predict_proba(np.array([m]), np.array([v])),
        "elp": expected.value,
        "elp_m": expected.d_mean,
        "elp_v": expected.d_var,
    }


def scales(truth, m, v):
    """What an error is relative to, where that is not the value.

    The tilted mean and b are differences of numbers in double precision (``m + v d_mean`` and
    ``E[y] - A m`` with E[y] of order one), and may be zero: a rounding of those is the limit.
    """
    return {
        "mean": abs(truth["mean"]) + mp.sqrt(v) + abs(m),
        "b": 1 + abs(truth["A"] * m),
    }


def worst_errors(likelihood, truth, m, v):
    found = answers(likelihood, m, v)
    scale = scales(truth, m, v)
    return {
        key: float(abs((mp.mpf(float(found[key][0])) - value) / scale.get(key, abs(value))))
        for key, value in truth.items()
    }


@pytest.mark.parametrize(("m", "v"), GRID)
def test_logit_agrees_with_forty_digits(m, v):
    truth = reference(logistic, m, mp.mpf(v), tilt=min(2.5 * np.sqrt(v), 18))
    errors = worst_errors(Logit(), truth, m, v)
    assert max(errors.values()) < 1e-10, errors


@pytest.mark.slow
@pytest.mark.parametrize(("m", "v"), [(-35.0, 1e-8), (-3.0, 4.0), (6.0, 0.81), (20.0, 25.0)])
def test_probit_agrees_with_forty_digits(m, v):
    truth = reference(normal, m, mp.mpf(v), tilt=abs(m) * np.sqrt(v) / (1 + v))
    errors = worst_errors(Probit(), truth, m, v)
    assert max(errors.values()) < 1e-10, errors


@pytest.mark.parametrize("z", [-1e4, -60.0, -12.0, -4.01, -3.99, -2.0, 0.3, 5.0, 20.0])
def test_probit_derivatives_in_both_tails(z):
    r = mp.npdf(z) / mp.ncdf(z)
    truth = r, -r * (z + r), r * ((z + r) * (z + 2 * r) - 1)
    found = Probit().derivatives(np.ones(1), np.array([z]))
    for got, value in zip(found, truth, strict=True):
        assert abs(mp.mpf(float(got[0])) / value - 1) < 2e-12


@pytest.mark.parametrize("field", ["log_z", "mean", "variance", "d_mean", "d2_mean"])
def test_quadrature_agrees_with_the_closed_forms_of_the_probit(field):
    y, m, v = np.meshgrid(LABELS, np.linspace(-50, 50, 21), np.logspace(-8, 6, 29), indexing="ij")
    closed = getattr(Probit().tilted_moments(y, m, v), field)
    quadrature = getattr(by_quadrature.tilted_moments(Probit(), y, m, v), field)
    # the tilted mean may be near zero: there a rounding of m is the limit; elsewhere underflow
    floor = np.abs(m) + np.sqrt(v) if field == "mean" else 1e-280
    assert np.all(np.abs(quadrature - closed) <= 1e-11 * (np.abs(closed) + floor))


def test_quadrature_agrees_with_the_linearisation_and_prediction_of_the_probit():
    m, v = np.meshgrid(np.linspace(-50, 50, 21), np.logspace(-8, 6, 29), indexing="ij")
    rare = by_quadrature.rare_label(Probit(), m)
    tilted = by_quadrature.tilted_moments(Probit(), rare, m, v)
    quadrature = linearisation(rare, tilted.log_z, tilted.d_mean, m, v)
    closed = Probit().linearise(m, v)
    np.testing.assert_allclose(quadrature.A, closed.A, rtol=1e-11)
    np.testing.assert_allclose(quadrature.b, closed.b, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(quadrature.Omega, closed.Omega, rtol=1e-11)
    proba = by_quadrature.predict_proba(Probit(), m, v)
    np.testing.assert_allclose(proba, Probit().predict_proba(m, v), rtol=1e-11)


finite_mean = st.floats(-1e150, 1e150)
any_var = st.floats(0.0, 1e300)
practical_mean, practical_var = st.floats(-400, 400), st.floats(0.0, 1e5)


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", [Probit(), Logit()])
@settings(max_examples=150, deadline=None)
@given(
    st.one_of(st.tuples(finite_mean, any_var), st.tuples(practical_mean, practical_var)),
    st.sampled_from([-1.0, 1.0]),
)
def test_every_finite_input_has_a_finite_answer(likelihood, site, y):
    m, v = np.array([site[0]]), np.array([site[1]])
    tilted = likelihood.tilted_moments(y, m, v)
    fit = likelihood.linearise(m, v)
    expected = likelihood.expected_log_prob(y, m, v)
    pointwise = (likelihood.log_prob(y, m), *likelihood.derivatives(y, m))
    assert all(np.isfinite(a).all() for a in (*tilted, *fit, *expected, *pointwise))
    proba, mirrored = likelihood.predict_proba(m, v), likelihood.predict_proba(-m, v)
    assert 0.0 <= proba <= 1.0
    assert abs(proba + mirrored - 1.0) <= 1e-12
    assert 0.0 <= tilted.variance <= v * (1.0 + 1e-12)
    assert tilted.log_z <= 0.0
    assert -1.0 / np.maximum(v, 1e-300) * (1 + 1e-12) <= tilted.d2_mean <= 0.0
    assert fit.Omega > 0.0


@pytest.mark.parametrize("likelihood", [Probit(), Logit()])
def test_a_site_does_not_depend_on_the_batch(likelihood):
    rng = np.random.default_rng(3)
    m, v = rng.normal(0, 30, 500), 10.0 ** rng.uniform(-8, 6, 500)
    together = likelihood.tilted_moments(1.0, m, v)
    expected = likelihood.expected_log_prob(1.0, m, v)
    for i in (0, 17, 499):
        alone = likelihood.tilted_moments(1.0, m[i], v[i])
        assert [float(a) for a in alone] == [float(a[i]) for a in together]
        alone = likelihood.expected_log_prob(1.0, m[i], v[i])
        assert [float(a) for a in alone] == [float(a[i]) for a in expected]


def test_the_logit_cavities_met_in_practice():
    tilted = Logit().tilted_moments(LABELS, 300.0, 6000.0)
    # as far as the Gaussian is wide the logistic is a step: RW06 eq. 3.82 without the 1
    q = float(mp.ncdf(-300 / mp.sqrt(6000)))
    np.testing.assert_allclose(np.exp(tilted.log_z), [1 - q, q], rtol=6e-3)
    np.testing.assert_allclose(tilted.log_z[0], np.log1p(-np.exp(tilted.log_z[1])), rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LIKELIHOODS.values())
def test_every_registered_likelihood_keeps_the_laws(kind):
    check_likelihood(kind())


def test_get_likelihood():
    assert get_likelihood("logit") == Logit()
    own = Probit()
    assert get_likelihood(own) is own
    with pytest.raises(ValueError, match=r"'cloglog' is not known.*'probit', 'logit'"):
        get_likelihood("cloglog")
    with pytest.raises(TypeError, match="must be a name or a Likelihood object, got 3"):
        get_likelihood(3)


@dataclass(frozen=True)
class OwnLikelihood(Likelihood):
    """A user's class: pointwise answers of its own, the rest by quadrature."""

    name: ClassVar[str] = "own"
    log_concave: ClassVar[bool] = True

    def log_prob(self, y, f):
        return Logit().log_prob(y, f)

    def derivatives(self, y, f):
        return Logit().derivatives(y, f)


class Cloglog(OwnLikelihood):
    """p(+1|f) = 1 - exp(-exp(f)): log-concave, and not symmetric."""

    def log_prob(self, y, f):
        g = np.exp(np.clip(f, -700, 690))
        plus = np.where(f < -30, f, np.log(-np.expm1(-np.maximum(g, 1e-20))))
        return np.where(y > 0, plus, -g)

    def derivatives(self, y, f):
        g = np.exp(np.clip(f, -700, 690))
        h = np.where(g < 1e-8, 1 - g / 2, g / np.expm1(np.minimum(g, 700)))
        # log(1 - exp(-g)) has h = g / (e^g - 1) as its derivative by f, and
        # dh/df = h (1 - g - h), d2h/df2 = h ((1 - g - h)^2 - g - dh/df)
        k = np.where(g < 1e-8, -g / 2, 1 - g - h)
        d3 = np.where(h == 0, 0.0, h * (k * k - g - h * k))
        minus = y < 0
        return Derivatives(
            np.where(minus, -g, h), np.where(minus, -g, h * k), np.where(minus, -g, d3)
        )


class LapsingLogit(OwnLikelihood):
    """A logistic that errs at random once in ten: smooth, and not log-concave."""

    log_concave: ClassVar[bool] = False

    def log_prob(self, y, f):
        return np.log(0.1 + 0.8 * np.exp(Logit().log_prob(y, f)))

    def derivatives(self, y, f):
        s = np.exp(Logit().log_prob(y, f))
        t = 1.0 - s
        p, p1, p2 = 0.1 + 0.8 * s, 0.8 * s * t, 0.8 * s * t * (1 - 2 * s)
        p3 = 0.8 * s * t * (1 - 6 * s * t)
        a, b, c = p1 / p, p2 / p, p3 / p
        return Derivatives(y * a, b - a * a, y * (c - 3 * a * b + 2 * a**3))


@pytest.mark.parametrize("likelihood", [OwnLikelihood(), LapsingLogit()])
def test_a_users_own_likelihood_needs_only_pointwise_answers(likelihood):
    check_likelihood(likelihood)


def test_quadrature_of_an_asymmetric_likelihood():
    # with exp(f) for the label -1: E[-exp(f)] = -exp(m + v/2), and a deep evidence by Laplace
    m, v = np.array([-2.0, 0.0, 3.0]), np.array([0.5, 1.0, 2.0])
    expected = by_quadrature.expected_log_prob(Cloglog(), -1.0, m, v)
    np.testing.assert_allclose(expected.value, -np.exp(m + v / 2), rtol=1e-12)
    np.testing.assert_allclose(expected.d_mean, -np.exp(m + v / 2), rtol=1e-12)
    np.testing.assert_allclose(expected.d_var, -np.exp(m + v / 2) / 2, rtol=1e-12)
    both = [by_quadrature.tilted_moments(Cloglog(), y, m, v).log_z for y in LABELS]
    np.testing.assert_allclose(np.exp(both[0]) + np.exp(both[1]), 1.0, rtol=1e-13)
    truth = mp.quad(
        lambda f: mp.exp(-mp.exp(f)) * mp.npdf(f, 3, mp.sqrt(2)), mp.linspace(-20, 10, 25)
    )
    assert abs(np.exp(both[1][2]) / float(truth) - 1) < 1e-12


def broken(method, change):
    """The logit with one method's answer changed by ``change(answer, *arguments)``."""

    def replaced(self, *arguments):
        return change(getattr(Logit(), method)(*arguments), *arguments)

    return type("Broken", (OwnLikelihood,), {method: replaced})()


def misprinted_omega(fit, mean, var):
    alpha = Logit().predict_proba(mean, var)
    return fit._replace(Omega=1 - alpha**2 - fit.A**2 * var)


class NotConcave(LapsingLogit):
    log_concave: ClassVar[bool] = True


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        (broken("log_prob", lambda a, y, f: a - 1e-9), "probabilities"),
        (broken("derivatives", lambda a, y, f: a._replace(second=1.00001 * a.second)), "second"),
        (broken("derivatives", lambda a, y, f: a._replace(third=-a.third)), "third"),
        (NotConcave(), "log-concavity"),
        (broken("tilted_moments", lambda a, y, m, v: a._replace(mean=a.mean + 1e-3)), "no spread"),
        (
            broken("tilted_moments", lambda a, y, m, v: a._replace(log_z=a.log_z + 1e-8 * v)),
            "log_z",
        ),
        (
            broken(
                "tilted_moments", lambda a, y, m, v: a._replace(variance=a.variance * 1.0000001)
            ),
            "tilted variance",
        ),
        (broken("linearise", misprinted_omega), "Omega"),
        (broken("expected_log_prob", lambda a, *_: a._replace(d_var=2 * a.d_var)), "d_var = dE/dv"),
        # the probability at the mean, in place of the mean of the probability
        (
            broken("predict_proba", lambda a, m, v: np.exp(Logit().log_prob(1.0, m))),
            "predict_proba",
        ),
        (
            broken("linearise", lambda a, m, v: a._replace(b=np.where(v > 1e200, np.nan, a.b))),
            "finite: linearise b",
        ),
    ],
)
def test_a_wrong_likelihood_fails_the_law_it_breaks(wrong, law):
    with pytest.raises(AssertionError, match=law):
        check_likelihood(wrong)
