"""Displays of a model that averages over settings of its hyperparameters."""

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.datasets import load_iris
from sklearn.gaussian_process.kernels import RBF

from gpclass import GaussianProcessClassifier
from gpclass.displays import (
    DecisionSurfaceDisplay,
    EffectDisplay,
    EvidenceSurfaceDisplay,
    OutlierDisplay,
    RelevanceDisplay,
)
from gpclass.estimator.intervals import probability_intervals


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X[50::4, 2:], y[50::4]


@pytest.fixture(scope="module")
def averaged(iris):
    settings = {"learning": "ccd", "hyperprior": "weak"}
    model = GaussianProcessClassifier(1.0 * RBF([1.0, 1.0]), **settings).fit(*iris)
    assert len(model.models_[0].learned.nodes) > 5
    return model


def test_probabilities_and_deviations_are_averages(averaged, iris):
    X, y = iris
    effect = EffectDisplay.compute(averaged, X, 0, n_points=3)
    there = X.copy()
    there[:, 0] = effect.values[1]
    P = averaged.predict_proba(there)
    np.testing.assert_allclose(effect.by_row[1], P, atol=1e-12)
    mode = GaussianProcessClassifier(averaged.kernel_, optimizer=None).fit(X, y)
    assert np.abs(mode.predict_proba(there) - P).max() > 1e-3
    surface = DecisionSurfaceDisplay.compute(averaged, X, (0, 1), n_points=2)
    row = [[surface.x[1], surface.y[0]]]
    np.testing.assert_allclose(surface.probability[0, 1], averaged.predict_proba(row)[0])
    variance = averaged.latent_mean_and_variance(row)[1][0]
    assert surface.deviation[0, 1] ** 2 == pytest.approx(variance)
    rows = np.arange(len(y))
    own = OutlierDisplay.of_training(averaged).own
    np.testing.assert_allclose(own, averaged.loo_proba_[rows, averaged.y_train_])


def test_the_interval_holds_draws_of_all_settings(averaged, iris):
    X, _ = iris
    draws = ndtr(averaged.sample_latent(X, 4000, random_state=0)[:, 1] * 2.0)
    found = probability_intervals(averaged, X, 0.9)
    inside = (draws >= found.lower[:, [1]]) & (draws <= found.upper[:, [1]])
    # by the mean and variance of all settings together: wider where these are far apart
    assert inside.mean(axis=1).min() > 0.88
    assert np.median(inside.mean(axis=1)) < 0.93


def test_what_is_of_the_hyperparameters_shows_the_mode(averaged):
    surface = EvidenceSurfaceDisplay.compute(averaged, (0, 1), n_points=3)
    np.testing.assert_allclose(np.log(surface.learnt), averaged.kernel_.theta[:2])
    assert surface.labels == ("variance of the smooth part", "length-scale of column 0")
    assert len(surface.path) > 1
    lengths = averaged.kernel_.k2.length_scale
    found = RelevanceDisplay.compute(averaged)
    by_column = dict(zip(found.names, found.relevance[0], strict=True))
    spread = averaged.X_train_.std(axis=0)
    for j in range(2):
        assert by_column[f"column {j}"] == pytest.approx(spread[j] / lengths[j])
