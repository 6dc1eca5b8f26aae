"""Intervals of class probabilities given the latents."""

import numpy as np
import pytest
from scipy.special import expit, ndtr, ndtri
from sklearn.datasets import load_iris
from sklearn.gaussian_process.kernels import RBF

from gpclass import GaussianProcessClassifier
from gpclass.estimator.intervals import probability_intervals

X, Y = load_iris(return_X_y=True)


@pytest.mark.parametrize(("likelihood", "link"), [("probit", ndtr), ("logit", expit)])
def test_two_classes_in_closed_form(likelihood, link):
    model = GaussianProcessClassifier(4.0 * RBF(1.5), likelihood=likelihood, optimizer=None)
    model.fit(X[50::4], Y[50::4])
    mean, variance = model.latent_mean_and_variance(X[51::9])
    found = probability_intervals(model, X[51::9], confidence=0.9)
    reach = ndtri(0.95) * np.sqrt(variance)
    np.testing.assert_allclose(found.lower[:, 1], link(mean - reach), rtol=1e-9)
    np.testing.assert_allclose(found.upper[:, 1], link(mean + reach), rtol=1e-9)
    np.testing.assert_allclose(found.lower[:, 0], 1.0 - found.upper[:, 1], atol=1e-12)
    np.testing.assert_allclose(found.deviation, np.sqrt(variance)[:, None].repeat(2, 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{}, {"inference": "laplace"}, {"multi_class": "differences"}], ids=str
)
def test_ends_average_to_the_probability(settings):
    # P(c) is the mean of P(c | g) over the quantiles u of g
    model = GaussianProcessClassifier(9.0 * RBF(1.5), optimizer=None, **settings)
    model.fit(X[::6], Y[::6])
    new = X[1::15]
    nodes, weights = np.polynomial.legendre.leggauss(12)
    total = np.zeros((len(new), 3))
    for node, weight in zip(nodes, weights, strict=True):
        found = probability_intervals(model, new, confidence=0.5 + 0.5 * node)
        total += 0.5 * weight * 0.5 * (found.lower + found.upper)
    np.testing.assert_allclose(total, model.predict_proba(new), atol=3e-3)


def test_intervals_grow_and_have_the_probability_inside():
    model = GaussianProcessClassifier(multi_class="one_vs_rest", optimizer=None)
    model.fit(X[::6], Y[::6])
    P = model.predict_proba(X[1::7])
    narrow, wide = (probability_intervals(model, X[1::7], c) for c in (0.8, 0.99))
    assert (wide.lower <= narrow.lower).all()
    assert (narrow.lower <= P).all()
    assert (narrow.upper >= P).all()
    assert (narrow.upper <= wide.upper).all()


@pytest.mark.parametrize("confidence", [0.0, 1.0, np.nan])
def test_mistakes(confidence):
    model = GaussianProcessClassifier(RBF(1.0), optimizer=None).fit(X[50::9], Y[50::9])
    with pytest.raises(ValueError, match="confidence must be between 0 and 1"):
        probability_intervals(model, X[:1], confidence)
