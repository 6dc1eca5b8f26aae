"""Class probabilities of joint Gaussian latents: laws, limits, and accuracy against integrals."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.special import softmax as softmax_of
from scipy.stats import multivariate_normal

from gpclass.exceptions import NotPositiveDefiniteError, NumericalWarning
from gpclass.likelihoods import Logit
from gpclass.likelihoods.probabilities import contrasts, cubature, noise
from gpclass.likelihoods.probabilities import gaussian as probabilities
from gpclass.likelihoods.probabilities.gaussian import (
    Cubature,
    Plan,
    argmax_probabilities,
    softmax_probabilities,
)
from helpers import each, pairs


def threshold(mean, cov, **settings):
    return argmax_probabilities(mean, cov, noise=0.0, **settings)


BOTH = pytest.mark.parametrize("method", [softmax_probabilities, argmax_probabilities])
METHODS = [softmax_probabilities, argmax_probabilities, threshold]
ALL = pytest.mark.parametrize("method", METHODS)


def posterior_like(m, C, seed=0, size=3.0, coupling=0.2):
    """Latents as a posterior has them: mostly variance of each class alone."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((m, C, 2 * C))
    own = size * rng.uniform(0.3, 1.0, (m, C))
    cov = own[:, :, None] * np.eye(C) + coupling * size * W @ W.transpose(0, 2, 1) / (2 * C)
    return np.sqrt(size) * rng.standard_normal((m, C)), cov


def any_covariance(m, C, seed=0, size=1.0):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((m, C, C))
    return np.sqrt(size) * rng.standard_normal((m, C)), size * W @ W.transpose(0, 2, 1) / C


def softmax_by_grid(mean, cov):
    """E[softmax] of three classes: a trapezoidal rule in the two contrasts of a square root."""
    w, V = np.linalg.eigh(cov)
    axis, step = np.linspace(-8.5, 8.5, 341, retstep=True)
    g = np.exp(-0.5 * axis**2) * step / np.sqrt(2 * np.pi)
    root = V * np.sqrt(np.maximum(w, 0))
    # the smallest of the three directions by a coarser rule
    few, few_weights = np.polynomial.hermite_e.hermegauss(40)
    few_weights = few_weights / few_weights.sum()
    total = np.zeros(3)
    a, b = np.meshgrid(axis, axis, indexing="ij")
    for x, weight in zip(few, few_weights, strict=True):
        f = mean + x * root[:, 0] + a[..., None] * root[:, 1] + b[..., None] * root[:, 2]
        total += weight * np.einsum("i,j,ijc->c", g, g, softmax_of(f, axis=-1))
    return total


def argmax_by_cdf(mean, cov):
    """The orthant probabilities of the differences by scipy, to about 1e-6."""
    C = len(mean)
    out = np.empty(C)
    for c in range(C):
        D = -np.delete(np.eye(C), c, axis=0)
        D[:, c] = 1.0
        normal = multivariate_normal(
            cov=D @ cov @ D.T, allow_singular=True, seed=c, abseps=3e-6, releps=0, maxpts=300_000
        )
        out[c] = normal.cdf(D @ mean)
    return out


# -- laws --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("C", "method"), each([1, 2, 3, 5, 10, 2], METHODS))
def test_positive_and_sums_to_one(method, C):
    mean, cov = posterior_like(20, C)
    mean[0] *= 1e4
    P = method(mean, cov)
    assert P.shape == (20, C)
    assert (P > 0).all()
    assert np.isfinite(np.log(P)).all()
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("method", "C", "make"), pairs(METHODS, [3, 4, 6], [posterior_like, any_covariance])
)
def test_the_order_of_the_classes(method, C, make):
    mean, cov = make(4, C, seed=C)
    P = method(mean, cov)
    orders = list(itertools.permutations(range(C)))
    for order in orders[:: max(1, len(orders) // 8)]:
        order = list(order)
        Q = method(mean[:, order], cov[:, order][:, :, order])
        np.testing.assert_allclose(Q, P[:, order], rtol=0, atol=1e-10)


@ALL
def test_classes_that_are_the_same_have_the_same_probability(method):
    mean, cov = any_covariance(1, 5, seed=2)
    swap = [0, 2, 1, 4, 3]
    mean = 0.5 * (mean + mean[:, swap])
    cov = 0.5 * (cov + cov[:, swap][:, :, swap])
    P = method(mean, cov)
    np.testing.assert_allclose(P[:, swap], P, rtol=0, atol=1e-12)
    Q = method(mean[:, ::-1], cov[:, ::-1, ::-1])
    np.testing.assert_allclose(Q[:, ::-1], P, rtol=0, atol=1e-10)
    rest = np.full((1, 7), 1 / 7)
    np.testing.assert_allclose(method(np.zeros((1, 7)), np.eye(7)[None]), rest, atol=1e-12)


@pytest.mark.slow
@ALL
@pytest.mark.parametrize("make", [posterior_like, any_covariance])
def test_a_row_does_not_see_its_neighbours(method, make):
    mean, cov = make(12, 5, seed=1)
    P = method(mean, cov)
    for rows in ([3], [11, 0], [7, 7, 2], range(11, -1, -1)):
        rows = list(rows)
        np.testing.assert_array_equal(method(mean[rows], cov[rows]), P[rows])


@ALL
def test_a_row_does_not_see_its_chunk(method):
    mean, cov = posterior_like(9, 4, seed=3)
    P = method(mean, cov)
    np.testing.assert_array_equal(method(mean, cov, settings=Cubature(chunk=32)), P)


@ALL
def test_what_all_classes_share_is_no_change(method):
    mean, cov = any_covariance(5, 4, seed=4)
    P = method(mean, cov)
    np.testing.assert_allclose(method(mean + 3.0, cov + 7.0), P, rtol=0, atol=1e-10)
    # the input has lost ten digits here
    np.testing.assert_allclose(method(mean, cov + 1e6), P, rtol=0, atol=2e-7)


def test_memory_of_many_rows_is_bounded():
    mean, cov = posterior_like(3000, 10, size=1e-3)
    mean[:, 0] += 30.0
    P = argmax_probabilities(mean, cov)
    np.testing.assert_array_equal(P.argmax(axis=1), 0)


def test_no_rows():
    assert argmax_probabilities(np.zeros((0, 3)), np.zeros((0, 3, 3))).shape == (0, 3)


# -- limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("C", "size"), each([2, 3, 5, 10, 30], [0.0, 1e-12]))
def test_no_variance_is_the_softmax(C, size):
    mean, cov = any_covariance(3, C, seed=C)
    P = softmax_probabilities(3.0 * mean, size * cov)
    np.testing.assert_allclose(P, softmax_of(3.0 * mean, axis=1), rtol=0, atol=5e-6)


def test_no_variance_and_no_noise_is_one_hot():
    mean = np.array([[0.1, 0.3, 0.2], [5.0, 4.0, 5.0]])
    P = threshold(mean, np.zeros((2, 3, 3)))
    np.testing.assert_allclose(P, [[0, 1, 0], [0.5, 0, 0.5]], atol=1e-12)


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0])
def test_two_classes_are_the_probit(noise):
    mean, cov = any_covariance(10, 2, seed=5, size=9.0)
    v = cov[:, 0, 0] + cov[:, 1, 1] - 2 * cov[:, 0, 1] + 2 * noise
    expected = ndtr((mean[:, 0] - mean[:, 1]) / np.sqrt(v))
    P = argmax_probabilities(mean, cov, noise=noise)
    np.testing.assert_allclose(P[:, 0], expected, rtol=1e-12)
    np.testing.assert_allclose(P[:, 1], 1 - expected, rtol=0, atol=1e-14)


def test_two_classes_are_the_logit():
    mean, cov = any_covariance(10, 2, seed=6, size=9.0)
    v = cov[:, 0, 0] + cov[:, 1, 1] - 2 * cov[:, 0, 1]
    P = softmax_probabilities(mean, cov)
    np.testing.assert_allclose(P[:, 0], Logit().predict_proba(mean[:, 0] - mean[:, 1], v), 1e-12)


@BOTH
def test_classes_that_nothing_speaks_for_leave_two(method):
    mean, cov = any_covariance(6, 2, seed=7)
    wide = np.concatenate([mean, np.full((6, 3), -60.0)], axis=1)
    big = np.zeros((6, 5, 5))
    big[:, :2, :2] = cov
    big[:, 2:, 2:] = np.eye(3)
    P = method(wide, big)
    np.testing.assert_allclose(P[:, :2], method(mean, cov), rtol=0, atol=1e-8)
    assert (P[:, 2:] < 1e-12).all()


def test_small_probabilities_keep_their_size():
    mean = np.array([[0.0, -12.0, -20.0]])
    P = softmax_probabilities(mean, np.zeros((1, 3, 3)))
    np.testing.assert_allclose(np.log(P[0, 1:]), [-12.0, -20.0], atol=1e-3)


# -- accuracy ----------------------------------------------------------------------------------

HARD = {
    "posterior": lambda C: posterior_like(1, C, seed=C),
    "far from the data": lambda C: (np.zeros((1, C)), 9.0 * np.eye(C)[None] + 4.0),
    "correlated": lambda C: (
        any_covariance(1, C)[0],
        4.0 * (0.95 * np.ones((1, C, C)) + 0.05 * np.eye(C)),
    ),
    "in a chain": lambda C: (
        any_covariance(1, C)[0],
        4.0 * np.exp(-np.abs(np.subtract.outer(np.arange(C), np.arange(C))) / 3.0)[None],
    ),
    "any": lambda C: any_covariance(1, C, seed=C + 1),
    "variance 30": lambda C: any_covariance(1, C, seed=C + 2, size=30.0),
    "variance 1e4": lambda C: any_covariance(1, C, seed=C + 3, size=1e4),
    "rank one": lambda C: (
        any_covariance(1, C, seed=2)[0],
        5.0 * np.outer(np.arange(C) - 1.7, np.arange(C) - 1.7)[None] / C,
    ),
    "rank two": lambda C: (
        any_covariance(1, C, seed=2)[0],
        np.einsum("ik,jk->ij", *2 * [np.random.default_rng(1).standard_normal((C, 2))])[None],
    ),
    "each its own size": lambda C: (
        any_covariance(1, C, seed=9)[0],
        np.diag(10.0 ** np.linspace(-3, 3, C))[None],
    ),
    "tiny": lambda C: (any_covariance(1, C)[0], any_covariance(1, C, size=1e-8)[1]),
}


@pytest.mark.parametrize(
    ("case", "C", "noise"),
    pairs(HARD, [3, 5, 10], [1.0, 0.0], marks=lambda _, C, __: pytest.mark.slow if C > 5 else ()),
)
def test_argmax_against_orthant_probabilities(case, C, noise):
    mean, cov = HARD[case](C)
    P = argmax_probabilities(mean, cov, noise=noise)
    expected = argmax_by_cdf(mean[0], cov[0] + noise * np.eye(C))
    np.testing.assert_allclose(P[0], expected, rtol=0, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("case", [name for name in HARD if name != "variance 1e4"])
def test_softmax_against_a_grid(case):
    mean, cov = HARD[case](3)
    P = softmax_probabilities(mean, cov)
    # three classes have two contrasts: the grid needs no third direction of any size
    H = np.eye(3) - 1 / 3
    np.testing.assert_allclose(P[0], softmax_by_grid(mean[0], H @ cov[0] @ H), rtol=0, atol=1.2e-4)


# E[softmax] by scipy's own scrambled Sobol points, the plain average of the softmax over
# 24 x 2^17 points; standard errors over the 24 seeds: 1.7e-5, 2e-6, 4e-6.
SOFTMAX_VALUES = [
    (
        posterior_like(1, 10, seed=20, size=9.0),
        [
            0.090338,
            0.522858,
            0.042914,
            0.059488,
            0.00369,
            0.167858,
            0.033805,
            0.06219,
            0.00044,
            0.016418,
        ],
    ),
    (
        any_covariance(1, 5, seed=21, size=9.0),
        [0.296125, 0.057579, 0.552457, 0.040402, 0.053438],
    ),
    (
        any_covariance(1, 10, seed=22, size=3.0),
        [
            0.062257,
            0.026289,
            0.04825,
            0.177869,
            0.03711,
            0.1106,
            0.103606,
            0.068215,
            0.338942,
            0.026861,
        ],
    ),
]


@pytest.mark.parametrize(("latents", "expected"), SOFTMAX_VALUES)
def test_softmax_against_monte_carlo(latents, expected):
    P = softmax_probabilities(*latents)
    np.testing.assert_allclose(P[0], expected, rtol=0, atol=1e-4)


def both_positive(a, b, rho):
    """P(X < a, Y < b) of standard normals: the conditional of Y, on panels about its step."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    rest = np.sqrt(1.0 - rho * rho)
    around = b / rho + rest * np.array([-16, -8, -4, -2, -1, 0, 1, 2, 4, 8, 16])
    cuts = np.unique(np.clip(np.concatenate([np.linspace(-9, 9, 60), around]), -9, min(a, 9)))
    half = 0.5 * np.diff(cuts)[:, None]
    x = cuts[:-1, None] + half + half * nodes
    density = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)
    return (half * weights * density * ndtr((b - rho * x) / rest)).sum()


@pytest.mark.slow
@pytest.mark.parametrize("size", [9.0, 8600.0])
def test_no_error_of_three_classes_goes_unseen(size):
    """One row of these was off by 2.4e-4, without a warning, when halves agreed by chance."""
    rows = [any_covariance(1, 3, seed=5000 + k, size=size) for k in range(250)]
    mean, cov = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    P = threshold(mean, cov)
    for c, (i, j) in enumerate([(1, 2), (0, 2), (0, 1)]):
        D = np.eye(3)[[c, c]] - np.eye(3)[[i, j]]
        V, d = D @ cov @ D.T, mean @ D.T
        sd = np.sqrt(np.diagonal(V, axis1=1, axis2=2))
        z, rho = d / sd, V[:, 0, 1] / sd.prod(axis=1)
        expected = [both_positive(*row) for row in zip(*z.T, rho, strict=True)]
        np.testing.assert_allclose(P[:, c], expected, rtol=0, atol=1e-4)


def test_thirty_classes_far_from_the_data():
    mean = np.zeros((1, 30))
    mean[0, 0] = 1.0
    P = argmax_probabilities(mean, 3.0 * np.eye(30)[None])
    # P(z_0 largest) = E[Phi(t + 1/2)^29], t ~ N(0, 1)
    t, weights = np.polynomial.hermite_e.hermegauss(80)
    expected = (weights * ndtr(t + 0.5) ** 29).sum() / weights.sum()
    np.testing.assert_allclose(P[0, 0], expected, rtol=0, atol=5e-5)
    np.testing.assert_allclose(P[0, 1:], (1 - expected) / 29, rtol=0, atol=5e-6)


def test_the_rules_agree():
    mean, cov = posterior_like(6, 4, seed=11, size=2.0)
    answers = {}
    for gumbel in (False, True):
        centred, differences, largest = contrasts.contrasts(mean, cov + (not gumbel) * np.eye(4))
        rows = contrasts.prepared(centred, differences, largest, gumbel)
        for rule in (cubature.independent, cubature.softmax if gumbel else cubature.orthant):
            plan = Plan(rule, 64)
            answers[gumbel, rule.__name__] = probabilities._mean_over(plan, rows, 0, 16_384)
    pairs = [
        ((False, "orthant"), (False, "independent")),
        ((True, "softmax"), (True, "independent")),
    ]
    for one, other in pairs:
        np.testing.assert_allclose(answers[one], answers[other], rtol=0, atol=1e-4)


def test_the_parts_of_the_covariance():
    mean, cov = any_covariance(5, 6, seed=12)
    centred, differences, largest = contrasts.contrasts(mean, cov)
    rows = contrasts.prepared(centred, differences, largest, gumbel=False)
    H = np.eye(6) - 1 / 6
    expected = H @ cov @ H
    np.testing.assert_allclose(rows.root @ rows.root.transpose(0, 2, 1), expected, atol=1e-7)
    own = H @ (rows.own[:, :, None] * np.eye(6)) @ H
    rest = rows.rest @ rows.rest.transpose(0, 2, 1)
    np.testing.assert_allclose(own + rest, expected, atol=1e-7)


def test_variances_of_each_class_alone_leave_no_rest():
    """A diagonal covariance is all in ``own``, although what the classes share is removed."""
    variances = np.array([[1.0, 1.2, 0.9, 1.4], [500.0, 600.0, 700.0, 550.0]])
    cov = variances[:, :, None] * np.eye(4)
    centred, differences, largest = contrasts.contrasts(np.zeros((2, 4)), cov)
    rows = contrasts.prepared(centred, differences, largest, gumbel=False)
    np.testing.assert_allclose(rows.own, variances, rtol=1e-8)
    np.testing.assert_allclose(rows.rest / np.sqrt(largest)[:, None, None], 0.0, atol=1e-3)


@pytest.mark.parametrize("shape", [0.0, 0.03, 0.2, 0.5, 0.8, 0.97, 1.0])
def test_the_noise_polynomials(shape):
    lower, upper, c = noise.noise_polynomials(np.full((1, 1), shape))
    x = np.linspace(-1, 1, 101)
    w = lower[0, 0] + 0.5 * (upper[0, 0] - lower[0, 0]) * (x + 1)
    F = np.exp(-np.exp(-np.polynomial.polynomial.polyval(x, c[0, 0])))
    np.testing.assert_allclose(F, np.exp(-np.exp(-noise.double_log(w, shape))), atol=5e-5)


# -- bad input and warnings --------------------------------------------------------------------


@BOTH
def test_shapes(method):
    with pytest.raises(ValueError, match=r"mean must have shape \(m, C\)"):
        method(np.zeros(3), np.zeros((3, 3)))
    with pytest.raises(ValueError, match=r"cov must have shape \(2, 3, 3\).*not \(2, 3\)"):
        method(np.zeros((2, 3)), np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"cov must have shape \(2, 3, 3\).*not \(2, 4, 4\)"):
        method(np.zeros((2, 3)), np.zeros((2, 4, 4)))


@BOTH
def test_values(method):
    mean, cov = posterior_like(2, 3)
    for bad in (np.nan, np.inf):
        wrong = mean.copy()
        wrong[1, 2] = bad
        with pytest.raises(ValueError, match="mean must be finite"):
            method(wrong, cov)
        wrong = cov.copy()
        wrong[1, 2, 0] = bad
        with pytest.raises(ValueError, match="cov must be finite"):
            method(mean, wrong)


@BOTH
def test_covariances(method):
    mean, cov = posterior_like(2, 3)
    skew = cov.copy()
    skew[1, 2, 0] += 0.1
    with pytest.raises(NotPositiveDefiniteError, match=r"symmetric.*row 1"):
        method(mean, skew)
    with pytest.raises(NotPositiveDefiniteError, match="positive semi-definite"):
        method(mean, -10 * cov)
    # every difference has a positive variance here, but not every contrast
    u = np.array([1.0, 1.0, -1.0, -1.0])
    indefinite = 4.0 * np.eye(4) - 1.5 * np.outer(u, u)
    with pytest.raises(NotPositiveDefiniteError, match="eigenvalue"):
        method(np.zeros((1, 4)), indefinite[None])


@pytest.mark.parametrize("noise", [-1e-3, np.nan, np.inf])
def test_noise(noise):
    with pytest.raises(ValueError, match="noise must be finite and at least 0"):
        argmax_probabilities(np.zeros((1, 3)), np.eye(3)[None], noise=noise)


@ALL
def test_rounding_is_no_negative_variance(method):
    v = np.array([1.0, 2.0, 4.0])
    cov = np.outer(v, v)[None]
    cov[0, 0, 0] -= 1e-9
    P = method(np.zeros((1, 3)), cov)
    np.testing.assert_allclose(P, method(np.zeros((1, 3)), np.outer(v, v)[None]), atol=1e-4)


def test_the_input_is_left_alone():
    mean, cov = posterior_like(3, 4)
    before = mean.copy(), cov.copy()
    argmax_probabilities(mean, cov)
    softmax_probabilities(mean, cov)
    np.testing.assert_array_equal(mean, before[0])
    np.testing.assert_array_equal(cov, before[1])


def test_what_cannot_be_reached_is_a_warning():
    mean, cov = any_covariance(2, 8, seed=13, size=1e4)
    with pytest.warns(NumericalWarning, match="estimated error at most"):
        softmax_probabilities(mean, cov, settings=Cubature(max_points=128))


def test_confident_rows_are_not_integrated(monkeypatch):
    def refuse(rows, settings):
        raise AssertionError("no points are needed here")

    monkeypatch.setattr(probabilities, "_integrated", refuse)
    mean, cov = posterior_like(4, 10)
    mean[:, 3] += 60.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for method in (softmax_probabilities, argmax_probabilities):
            P = method(mean, cov)
            assert (P[:, 3] > 1 - 1e-6).all()
