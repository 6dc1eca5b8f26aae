"""Averages of a row's log probability: derivatives of one value, any order of classes."""

import numpy as np
import pytest

from gpclass.inference.probit_terms import MultinomialProbitTerms
from gpclass.inference.row_terms import BinaryTerms, SoftmaxTerms
from gpclass.likelihoods import LIKELIHOODS, Logit, Probit
from gpclass.likelihoods.classes import MultinomialProbitLikelihood, SoftmaxLikelihood
from gpclass.likelihoods.probabilities.points import normals
from gpclass.testing.comparison import difference

SMOOTH = [kind() for kind in LIKELIHOODS.values() if kind.smooth]
TERMS = [
    *map(BinaryTerms, SMOOTH),
    SoftmaxTerms(2),
    SoftmaxTerms(3, 32),
    SoftmaxTerms(7),
    MultinomialProbitTerms(2),
    MultinomialProbitTerms(5),
]


def problem(terms, n=12, spread=1.0):
    rng = np.random.default_rng(0)
    C = terms.n_latents
    y = rng.choice([-1.0, 1.0], n) if C == 1 else rng.integers(C, size=n)
    return y, 3.0 * rng.normal(size=(n, C)), spread * rng.uniform(0.1, 4.0, (n, C))


@pytest.mark.parametrize("terms", TERMS, ids=repr)
def test_derivatives_are_those_of_the_value(terms):
    y, m, v = problem(terms)
    found = terms(y, m, v)
    for c in range(terms.n_latents):
        e = np.eye(terms.n_latents)[c]
        by_mean = difference(lambda t, e=e: terms(y, m + t * e, v).value, 1e-3)
        by_variance = difference(lambda t, e=e: terms(y, m, v * (1.0 + t * e)).value, 1e-3)
        np.testing.assert_allclose(found.by_mean[:, c], by_mean, atol=1e-8, rtol=1e-7)
        np.testing.assert_allclose(v[:, c] * found.by_variance[:, c], by_variance, atol=1e-8)


@pytest.mark.parametrize("spread", [1e-3, 1e-6, 1e-7, 1e-12, 0.0])
def test_the_slope_by_a_small_variance_is_its_limit(spread):
    terms = SoftmaxTerms(4, 256)
    y, m, v = problem(terms, spread=spread)
    p = SoftmaxLikelihood().probabilities(m)
    # of the first order in v
    np.testing.assert_allclose(
        terms(y, m, v).by_variance, -0.5 * p * (1.0 - p), atol=1e-11 + 4.0 * spread
    )


@pytest.mark.parametrize("terms", TERMS, ids=repr)
def test_the_likelihoods_gradient(terms):
    y, m, v = problem(terms)
    gradient = terms.likelihood_gradient(y, m, v)
    theta = terms.likelihood.theta if isinstance(terms, BinaryTerms) else np.empty(0)
    assert gradient.shape == (len(theta), len(y))
    for k, e in enumerate(np.eye(len(theta))):

        def value(t, e=e):
            return BinaryTerms(terms.likelihood.with_theta(theta + t * e))(y, m, v).value

        np.testing.assert_allclose(gradient[k], difference(value, 1e-3), atol=1e-8)


def test_two_classes_are_the_logit_of_their_difference():
    terms = SoftmaxTerms(2, 4096)
    y, m, v = problem(terms)
    binary = BinaryTerms(Logit())(2.0 * y - 1.0, m[:, 1:] - m[:, :1], v.sum(axis=1, keepdims=True))
    found = terms(y, m, v)
    np.testing.assert_allclose(found.value, binary.value, atol=3e-4)
    np.testing.assert_allclose(found.by_mean[:, 1:], binary.by_mean, atol=3e-4)
    np.testing.assert_allclose(found.by_variance[:, 1:], binary.by_variance, atol=3e-4)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_the_multinomial_probit_is_bounded_below_and_closely(n_classes):
    terms, likelihood = MultinomialProbitTerms(n_classes), MultinomialProbitLikelihood()
    y, m, v = problem(terms, n=100, spread=0.5)
    found, Z = terms(y, m, v), normals(n_classes, 0, 512)
    truth = np.mean([likelihood.log_prob(y, m + np.sqrt(v) * z) for z in Z.T], axis=0)
    # the sum over points is itself a few 1e-3 off
    assert (found.value < truth + 5e-3).all()
    assert (truth - found.value).max() < 0.1


def test_the_noise_is_found_where_variances_are_wide_and_unlike():
    """At the maximum slopes are derivatives; whole steps swing about it."""
    terms, rng = MultinomialProbitTerms(10), np.random.default_rng(0)
    y, m = rng.integers(10, size=200), rng.normal(size=(200, 10))
    v = 100.0 * rng.exponential(size=(200, 10)) * 10.0 ** rng.uniform(-1.0, 1.0, (200, 10))
    found = terms(y, m, v)
    for e in np.eye(10)[:3]:
        by_mean = difference(lambda t, e=e: terms(y, m + t * e, v).value, 1e-2)
        np.testing.assert_allclose(found.by_mean @ e, by_mean, atol=1e-6)


def test_the_noise_of_a_row_is_conditioned_on_its_latents():
    """Two classes by brute force: a grid over the Gaussians of u given the latents."""
    gap, v = -0.7, 1.3
    found = MultinomialProbitTerms(2)(np.ones(1, int), np.array([[0.0, gap]]), np.full((1, 2), v))
    grid = np.meshgrid(*(np.linspace(*ends, 31) for ends in [(0.3, 1.3), (-0.6, 0.0), (0.3, 1.0)]))
    # u = a + b (f_y - m_y) - b (f_j - m_j) + s^1/2 z, by the symmetry of the two
    a, b, s = (one.ravel() for one in grid)
    expected = Probit().expected_log_prob(np.ones_like(a), a + gap, s + 2.0 * (1.0 + b) ** 2 * v)
    bounds = expected.value - 0.5 * (s + a**2 + 2.0 * b**2 * v - 1.0 - np.log(s))
    assert bounds.max() == pytest.approx(found.value[0], abs=1e-3)
    assert bounds.max() <= found.value[0] + 1e-9


def test_how_far_the_points_are_from_the_integral():
    truth, found = SoftmaxTerms(10, 2**14), SoftmaxTerms(10)
    y, m, v = problem(found, n=200)
    assert np.abs(found(y, m, v).value - truth(y, m, v).value).max() < 0.1
    assert abs(np.mean(found(y, m, v).value - truth(y, m, v).value)) < 5e-3


def test_classes_may_be_numbered_in_any_order():
    terms = SoftmaxTerms(5, order=(3, 1, 4, 0, 2))
    y, m, v = problem(terms)
    number = np.array([4, 2, 0, 1, 3])
    renamed = SoftmaxTerms(5, order=tuple(np.array(terms.order)[np.argsort(number)]))
    found = terms(y, m, v)
    other = renamed(number[y], m[:, np.argsort(number)], v[:, np.argsort(number)])
    np.testing.assert_allclose(other.value, found.value, rtol=1e-13)
    np.testing.assert_allclose(other.by_mean[:, number], found.by_mean, rtol=1e-12, atol=1e-16)
    np.testing.assert_allclose(other.by_variance[:, number], found.by_variance, atol=1e-15)


@pytest.mark.parametrize("terms", TERMS, ids=repr)
@pytest.mark.parametrize("size", [1e-300, 1e10, 1e150, 1.7e308])
def test_everything_is_finite(terms, size):
    y, m, v = problem(terms)
    for mean in (m, np.sign(m) * size):
        for variance in (v, np.full_like(v, size), np.zeros_like(v)):
            assert all(np.isfinite(one).all() for one in terms(y, mean, variance))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"n_classes": 1}, "n_classes"),
        ({"n_classes": 3, "n_points": 100}, "n_points"),
        ({"n_classes": 40, "n_points": 128}, "n_points"),
        ({"n_classes": 3, "order": (0, 1, 1)}, "order"),
    ],
)
def test_settings_that_cannot_work(settings, named):
    with pytest.raises(ValueError, match=named):
        SoftmaxTerms(**settings)


def test_one_class_is_none():
    with pytest.raises(ValueError, match="n_classes"):
        MultinomialProbitTerms(1)
