"""The estimator's argument ``hyperprior``."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from gpclass import GaussianProcessClassifier
from gpclass.learning import (
    ExpectationMaximisation,
    HyperPrior,
    KeepFixed,
    Learner,
    MaximiseEvidence,
    weak_hyperprior,
)
from helpers import Normal

RNG = np.random.default_rng(3)
X = RNG.standard_normal((45, 2))
Y = np.digitize(X[:, 0] + 0.3 * RNG.standard_normal(45), [-0.5, 0.5])
TWO = (Y > 0).astype(int)


def stationary(model, prior_of):
    """Largest entry of the gradient of the penalised evidence of each problem."""
    slopes = []
    for one in model.models_:
        problem = one.problem
        theta = problem.theta
        found = problem.evaluate(theta, init=one.sites)
        _, slope = prior_of(problem).log_density(theta)
        slopes.append(np.abs(found.gradient + slope).max())
    return max(slopes)


def weak(problem):
    return weak_hyperprior(problem.hyperparameters, problem.inputs)


@pytest.mark.slow
@pytest.mark.parametrize("learning", ["evidence", "em", MaximiseEvidence()])
@pytest.mark.parametrize("y", [TWO, Y], ids=["two", "three"])
def test_the_default_is_weak_and_evidences_are_without_it(learning, y):
    model = GaussianProcessClassifier(learning=learning).fit(X, y)
    assert stationary(model, weak) < 2e-3
    at = model.log_marginal_likelihood(model.kernel_.theta)
    assert model.log_marginal_likelihood_value_ == pytest.approx(at, abs=1e-7)
    free = GaussianProcessClassifier(learning="evidence", hyperprior=None).fit(X, y)
    assert free.log_marginal_likelihood_value_ > at


@pytest.mark.parametrize("hyperprior", ["auto", None])
def test_a_kernel_that_is_given_has_none(hyperprior):
    kernel = 1.0 * RBF(1.0)
    found = GaussianProcessClassifier(kernel, hyperprior=hyperprior).fit(X, TWO)
    theta = found.kernel_.theta
    _, gradient = found.log_marginal_likelihood(theta, eval_gradient=True)
    assert np.abs(gradient).max() < 1e-4


@pytest.mark.parametrize("multi_class", ["joint", "one_vs_rest", "one_vs_one"])
def test_a_kernel_that_is_given_may_have_the_weak_one(multi_class):
    kernel = 1.0 * RBF(1.0)
    model = GaussianProcessClassifier(kernel, hyperprior="weak", multi_class=multi_class).fit(X, Y)
    assert stationary(model, weak) < 2e-3


@pytest.mark.parametrize("multi_class", ["joint", "one_vs_rest"])
def test_kernels_of_the_classes_may_differ_in_their_hyperparameters(multi_class):
    kernels = [1.0 * RBF(1.0), 1.0 * RBF([1.0, 1.0]), RBF(1.0)]
    model = GaussianProcessClassifier(
        kernels, hyperprior="weak", multi_class=multi_class, inference="laplace"
    ).fit(X, Y)
    assert stationary(model, weak) < 2e-3


def test_an_object():
    prior = Normal(0.5, 0.1)
    model = GaussianProcessClassifier(1.0 * RBF(1.0), hyperprior=prior).fit(X, TWO)
    assert stationary(model, lambda problem: prior) < 2e-3
    np.testing.assert_allclose(model.kernel_.theta, 0.5, atol=0.2)


def test_a_learner_keeps_its_own():
    own = Normal(0.5, 0.1)
    for hyperprior in ("auto", None):
        model = GaussianProcessClassifier(
            1.0 * RBF(1.0), learning=MaximiseEvidence(hyperprior=own), hyperprior=hyperprior
        ).fit(X, TWO)
        assert stationary(model, lambda problem: own) < 2e-3
    with pytest.raises(ValueError, match="hyperprior='weak', but the learner has Normal"):
        GaussianProcessClassifier(learning=MaximiseEvidence(hyperprior=own), hyperprior="weak").fit(
            X, TWO
        )


def test_a_learner_without_the_field():
    class Own(Learner):
        def learn(self, problem, starts, *, init=None, n_jobs=None, progress=None):
            return KeepFixed().learn(problem, starts, init=init)

    GaussianProcessClassifier(1.0 * RBF(1.0), learning=Own()).fit(X, TWO)
    GaussianProcessClassifier(learning=Own()).fit(X, TWO)
    with pytest.raises(ValueError, match="hyperprior='weak' does not reach the learner"):
        GaussianProcessClassifier(learning=Own(), hyperprior="weak").fit(X, TWO)


@pytest.mark.parametrize("hyperprior", ["auto", "weak", Normal(0.0, 1.0)])
def test_nothing_is_learnt_without_an_optimizer(hyperprior):
    kernel = 2.0 * RBF(1.5)
    model = GaussianProcessClassifier(kernel, optimizer=None, hyperprior=hyperprior).fit(X, TWO)
    assert model.kernel_ == kernel


def test_a_gradient_of_another_shape_is_named():
    class Wrong(HyperPrior):
        def log_density(self, theta):
            return 0.0, np.zeros(len(theta) + 1)

    with pytest.raises(ValueError, match=r"Wrong has a gradient of shape \(3,\), expected \(2,\)"):
        GaussianProcessClassifier(1.0 * RBF(1.0), hyperprior=Wrong()).fit(X, TWO)


@pytest.mark.slow
@pytest.mark.parametrize("learning", ["evidence", ExpectationMaximisation()])
def test_weights_are_repetition(learning):
    weights = RNG.integers(0, 4, len(X))
    keep = weights > 0
    assert len(np.unique(TWO[keep])) == 2
    weighted = GaussianProcessClassifier(learning=learning).fit(X, TWO, sample_weight=weights)
    repeated = GaussianProcessClassifier(learning=learning).fit(
        np.repeat(X, weights, axis=0), np.repeat(TWO, weights)
    )
    np.testing.assert_allclose(
        weighted.predict_proba(X),
        repeated.predict_proba(X),
        atol=1e-6 if learning == "evidence" else 1e-3,
    )
