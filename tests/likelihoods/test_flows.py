"""Closed forms and derivatives of class probabilities."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.likelihoods import NoisyThreshold, Probit
from gpclass.likelihoods.probabilities.differences import difference_flows, difference_probabilities
from gpclass.likelihoods.probabilities.flows import argmax_flows, softmax_flows
from gpclass.likelihoods.probabilities.gaussian import (
    Cubature,
    argmax_probabilities,
    softmax_probabilities,
)
from gpclass.likelihoods.probabilities.three import largest_of_three

SIZES = np.array([0.1, 1.0, 10.0, 30.0])


def latents(C, sizes=SIZES):
    rng = np.random.default_rng(C)
    W = rng.standard_normal((len(sizes), C, C))
    cov = (W @ W.transpose(0, 2, 1) / C + 0.1 * np.eye(C)) * sizes[:, None, None]
    return np.sqrt(sizes)[:, None] * rng.standard_normal((len(sizes), C)), cov


def by_mean(f, mean, step):
    """Central differences of f (m, ...) by the means, (m, ..., C)."""
    steps = step * np.eye(mean.shape[1])
    return np.stack([(f(mean + e) - f(mean - e)) / (2.0 * step) for e in steps], axis=-1)


def by_covariance(f, cov, step):
    """The same by the entries of the covariance, each on its own."""
    C = cov.shape[1]
    found = np.empty((*cov.shape[:2], C, C))
    for j in range(C):
        for k in range(C):
            E = np.zeros((C, C))
            E[j, k] += 0.5 * step
            E[k, j] += 0.5 * step
            found[:, :, j, k] = (f(cov + E) - f(cov - E)) / (2.0 * step)
    return found


def test_the_largest_of_three_against_scipy():
    mean, cov = latents(3)
    gaps = np.array([[[1, -1, 0], [1, 0, -1]], [[-1, 1, 0], [0, 1, -1]], [[-1, 0, 1], [0, -1, 1]]])
    got = largest_of_three(mean, cov)
    for i in range(len(mean)):
        for c, A in enumerate(gaps):
            want = multivariate_normal.cdf(A @ mean[i], cov=A @ cov[i] @ A.T, abseps=1e-12)
            np.testing.assert_allclose(got[i, c], want, rtol=0, atol=1e-10)


def test_the_largest_of_three_at_the_edges():
    third = largest_of_three(np.zeros((1, 3)), np.eye(3)[None])
    np.testing.assert_allclose(third, 1.0 / 3.0, rtol=1e-14)
    # without variance, and where one direction alone has some: f_0 = -f_1 = z, f_2 = 0
    sure = largest_of_three(np.array([[0.0, 2.0, 1.0]]), np.zeros((1, 3, 3)))
    np.testing.assert_allclose(sure, [[0.0, 1.0, 0.0]])
    line = np.array([1.0, -1.0, 0.0])
    half = largest_of_three(np.zeros((1, 3)), np.outer(line, line)[None])
    np.testing.assert_allclose(half, [[0.5, 0.5, 0.0]], atol=1e-12)
    tie = largest_of_three(np.zeros((1, 3)), np.zeros((1, 3, 3)))
    np.testing.assert_allclose(tie, 1.0 / 3.0, rtol=1e-12)
    with pytest.raises(NotPositiveDefiniteError, match="three classes"):
        largest_of_three(np.zeros((1, 3)), np.diag([1.0, 1.0, -0.7])[None])


@pytest.mark.parametrize("noise", [1.0, 0.5])
@pytest.mark.parametrize("C", [2, 3])
def test_flows_of_the_largest(C, noise):
    mean, cov = latents(C)
    flows = argmax_flows(mean, cov, noise)
    want = by_mean(lambda m: argmax_probabilities(m, cov, noise), mean, 1e-5)
    np.testing.assert_allclose(flows.by_mean(), want, rtol=0, atol=1e-9)
    want = by_covariance(lambda S: argmax_probabilities(mean, S, noise), cov, 1e-5)
    np.testing.assert_allclose(flows.by_covariance(), want, rtol=0, atol=1e-9)


def test_slopes_of_the_flows_of_four_classes():
    mean, cov = latents(4)
    want = by_mean(lambda m: argmax_flows(m, cov).between, mean, 1e-3)
    np.testing.assert_allclose(argmax_flows(mean, cov).slopes, want, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("C", [4, 5])
def test_flows_of_more_classes(C):
    mean, cov = latents(C)
    # the points have errors of 1e-7, and jumps where their number changes
    tight = Cubature(tolerance=1e-7)
    want = by_mean(lambda m: argmax_probabilities(m, cov, settings=tight), mean, 0.02)
    np.testing.assert_allclose(argmax_flows(mean, cov).by_mean(), want, rtol=0, atol=5e-5)


def test_flows_of_the_softmax():
    mean, cov = latents(3)
    flows = softmax_flows(mean, cov)
    want = by_mean(lambda m: softmax_probabilities(m, cov), mean, 1e-3)
    np.testing.assert_allclose(flows.by_mean(), want, rtol=0, atol=1e-6)
    want = by_covariance(lambda S: softmax_probabilities(mean, S), cov, 1e-3)
    np.testing.assert_allclose(flows.by_covariance(), want, rtol=0, atol=2e-6)


def test_flows_of_the_softmax_of_five_classes():
    mean, cov = latents(5, np.array([0.5]))
    # Gauss and Hermite, 12 nodes for each of five latents
    x, w = np.polynomial.hermite_e.hermegauss(12)
    Z = np.stack(np.meshgrid(*[x] * 5)).reshape(5, -1)
    weights = np.prod(np.meshgrid(*[w / w.sum()] * 5), axis=0).ravel()
    f = mean[0][:, None] + np.linalg.cholesky(cov[0]) @ Z
    p = np.exp(f - f.max(axis=0))
    p /= p.sum(axis=0)
    np.testing.assert_allclose(
        softmax_flows(mean, cov).between[0], (p * weights) @ p.T, rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("likelihood", [Probit(), NoisyThreshold(0.1)], ids=str)
def test_flows_of_the_differences(likelihood):
    mean, cov = latents(3)
    want = by_mean(lambda m: difference_probabilities(m, cov, likelihood), mean, 1e-5)
    got = difference_flows(mean, cov, likelihood).by_mean()
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-9)
