"""Models that average over several settings of the hyperparameters."""

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

from gpclass import GaussianProcessClassifier
from gpclass.learning import Learned, Learner, MaximiseEvidence, Node

WEIGHTS = (0.2, 0.5, 0.3)
STEPS = (-0.7, 0.0, 0.6)


@dataclass(frozen=True)
class ThreeSettings(Learner):
    """The maximum of the evidence and a setting on either side, with given weights."""

    def learn(self, problem, starts, *, init=None, n_jobs=None, progress=None):
        best = MaximiseEvidence().learn(problem, starts, init=init, progress=progress)
        nodes = []
        for weight, step in zip(WEIGHTS, STEPS, strict=True):
            theta = best.theta + step
            found = problem.evaluate(theta, gradient=False, init=best.best.sites)
            nodes.append(Node.of(theta, found, weight))
        return Learned(tuple(nodes), best.runs)


def table(n_classes, n=60):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((n, 2))
    score = X[:, 0] + 0.5 * np.sin(2 * X[:, 1]) + 0.4 * rng.standard_normal(n)
    return X, np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))


SETTINGS = {
    "binary, ep": (2, {}),
    "binary, laplace": (2, {"inference": "laplace", "likelihood": "logit"}),
    "one against the rest": (3, {"multi_class": "one_vs_rest"}),
    "nested ep": (3, {}),
    "softmax": (3, {"inference": "laplace", "likelihood": "logit"}),
    "differences": (3, {"multi_class": "differences"}),
}


@pytest.fixture(params=SETTINGS)
def fitted(request):
    """An averaging classifier, its data, and one classifier for each of its settings alone."""
    n_classes, settings = SETTINGS[request.param]
    X, y = table(n_classes)
    model = GaussianProcessClassifier(1.0 * RBF(1.0), learning=ThreeSettings(), **settings)
    model.fit(X, y)
    alone = []
    for k in range(len(WEIGHTS)):
        one = clone(model).set_params(learning="evidence", optimizer=None).fit(X, y)
        one.models_ = [
            type(part).of(part.problem, Learned((replace(part.learned.nodes[k], weight=1.0),)))
            for part in model.models_
        ]
        alone.append(one)
    return model, alone, X, y


def test_probabilities_are_averages(fitted):
    model, alone, X, _ = fitted
    new = X[:20] + 0.1
    P = model.predict_proba(new)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)
    if len(model.models_) > 1:  # averages of each problem, then normalised
        odds = [np.exp([m.log_probabilities(new) for m in one.models_]) for one in alone]
        mean = np.einsum("k,kjmi->jmi", WEIGHTS, odds)[:, :, 1].T
        np.testing.assert_allclose(P, mean / mean.sum(axis=1, keepdims=True), atol=1e-12)
    else:
        each = [one.predict_proba(new) for one in alone]
        np.testing.assert_allclose(P, np.einsum("k,kmc->mc", WEIGHTS, each), atol=1e-12)
        assert np.abs(each[0] - each[2]).max() > 0.01


def test_latents_have_the_total_mean_and_covariance(fitted):
    model, alone, X, _ = fitted
    mean, covariance = model.predict_latent(X[:7])
    means, covariances = zip(*(one.predict_latent(X[:7]) for one in alone), strict=True)
    second = np.array(covariances) + np.einsum("kmc,kmd->kmcd", means, means)
    expected = np.einsum("k,kmc->mc", WEIGHTS, means)
    np.testing.assert_allclose(mean, expected, atol=1e-12)
    total = np.einsum("k,kmcd->mcd", WEIGHTS, second) - np.einsum("mc,md->mcd", expected, expected)
    if len(model.models_) > 1:  # independent latents
        total = total * np.eye(total.shape[1])
    np.testing.assert_allclose(covariance, total, atol=1e-10)


@pytest.mark.slow
def test_draws_come_from_all_settings(fitted):
    model, _, X, _ = fitted
    draws = model.sample_latent(X[:3], n_samples=4000, random_state=0)
    mean, covariance = model.predict_latent(X[:3])
    error = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2) / 4000)
    assert draws.shape == (3, mean.shape[1], 4000)
    assert (np.abs(draws.mean(axis=2) - mean) < 5 * error).all()
    np.testing.assert_allclose(
        draws.var(axis=2), np.diagonal(covariance, axis1=1, axis2=2), rtol=0.15
    )


def test_what_is_reported_is_that_of_the_best_setting(fitted):
    model, alone, _, _ = fitted
    assert model.converged_
    best = alone[int(np.argmax(WEIGHTS))]
    np.testing.assert_array_equal(model.kernel_.theta, best.kernel_.theta)
    expected = np.mean([m.learned.nodes[1].log_evidence for m in model.models_])
    assert model.log_marginal_likelihood_value_ == pytest.approx(expected)
    again = model.log_marginal_likelihood(model.kernel_.theta)
    assert again == pytest.approx(model.log_marginal_likelihood_value_, abs=1e-7)


def test_a_saved_model_averages_as_before(fitted):
    model, _, X, _ = fitted
    expected = model.predict_proba(X[:9])
    saved = pickle.dumps(model)
    assert len(saved) < 60_000  # no n x n factor of a setting
    found = pickle.loads(saved).predict_proba(X[:9])
    assert found.tobytes() == expected.tobytes()


@pytest.mark.slow
def test_the_approximation_is_computed_once(fitted):
    model = fitted[0]
    first, second = model.approximation_, model.approximation_
    if len(model.models_) == 1:
        first, second = [first], [second]
    assert all(a is b for a, b in zip(first, second, strict=True))
    for q, part in zip(first, model.models_, strict=True):
        assert q.log_evidence == pytest.approx(part.log_evidence, abs=1e-8)


def test_weights_that_are_no_probabilities_are_refused():
    X, y = table(2)
    learned = GaussianProcessClassifier().fit(X, y).models_[0].learned
    with pytest.raises(ValueError, match="weights of nodes must be probabilities"):
        Learned((replace(learned.best, weight=0.4), replace(learned.best, weight=0.4)))
    with pytest.raises(ValueError, match="weights of nodes must be probabilities"):
        Learned(())
