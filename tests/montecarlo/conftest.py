"""Small problems whose evidence and posterior moments are known by exact integration."""

from typing import NamedTuple

import numpy as np
import pytest

from gpclass.likelihoods import Logit, NoisyThreshold, Probit


class Exact(NamedTuple):
    log_evidence: float
    mean: np.ndarray
    variance: np.ndarray


def integrate(K, y, likelihood, weights=None, reach=8.5, panels=12, order=8):
    """Gauss-Legendre on a tensor grid of f, split where some likelihoods jump.

    K of full rank and n <= 3. The grid is in f with the panels cut at f = 0, so that a jump of
    p(y|f) there lies on the edge of a panel. Against 20 panels of order 10 the digits below agree
    to 1e-8.
    """
    n = len(y)
    weights = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    nodes, node_weights = np.polynomial.legendre.leggauss(order)
    axes, measures = [], []
    for i in range(n):
        edges = np.linspace(-1, 1, panels + 1) * reach * np.sqrt(K[i, i])
        half = np.diff(edges) / 2
        axes.append((edges[:-1, None] + half[:, None] * (1 + nodes)).ravel())
        measures.append((half[:, None] * node_weights).ravel())
    f = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")])
    measure = np.prod([m.ravel() for m in np.meshgrid(*measures, indexing="ij")], axis=0)
    quadratic = (f * np.linalg.solve(K, f)).sum(0)
    log_prior = -0.5 * (quadratic + np.linalg.slogdet(2 * np.pi * K)[1])
    y = np.asarray(y, dtype=float)
    density = measure * np.exp(log_prior + weights @ likelihood.log_prob(y[:, None], f))
    Z = density.sum()
    mean = f @ density / Z
    return Exact(np.log(Z), mean, (f - mean[:, None]) ** 2 @ density / Z)


LIKELIHOODS = [Probit(), Logit(), NoisyThreshold(0.05)]


@pytest.fixture(params=LIKELIHOODS, ids=lambda likelihood: likelihood.name)
def likelihood(request):
    return request.param


@pytest.fixture
def small():
    """Three points of which two are close and disagree."""
    x = np.array([0.0, 0.7, 2.0])
    K = 4.0 * np.exp(-0.5 * (x[:, None] - x) ** 2)
    return K, np.array([1.0, -1.0, 1.0])
