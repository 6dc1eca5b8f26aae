"""Inference and learning on a prior that never forms an n x n matrix."""

import pickle

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from gpclass.estimator.binary_model import BinaryModel
from gpclass.inference import EP, Laplace, PosteriorLinearisation, TangentBound, Variational
from gpclass.learning import BinaryProblem, MaximiseEvidence
from gpclass.likelihoods import Logit, NoisyThreshold, Probit
from gpclass.priors import Dense, DensePrior, Inducing, InducingPrior
from gpclass.testing import check_prior, check_prior_form
from helpers import slow

N = 40
METHODS = {
    "Laplace": (Laplace(), Logit()),
    "EP": (EP(), Probit()),
    "EP, logit": (EP(), Logit()),
    "EP, sequential": (EP(schedule="sequential"), Probit()),
    "EP, threshold": (EP(), NoisyThreshold(0.1)),
    "PL": (PosteriorLinearisation(), Probit()),
    "PL, sequential": (PosteriorLinearisation(schedule="sequential"), Logit()),
    "VI": (Variational(), Logit()),
    "VI by the EP energy": (Variational(evidence="ep"), Probit()),
    "lower bound": (TangentBound("lower"), Logit()),
    "upper bound": (TangentBound("upper"), Logit()),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N, 2))
    return X, np.where(X[:, 0] + 0.5 * rng.standard_normal(N) > 0, 1.0, -1.0), X[::5].copy()


def random_prior(n=24, m=5):
    rng = np.random.default_rng(0)
    return InducingPrior(rng.standard_normal((n, m)), rng.uniform(0.1, 1.0, n))


def test_laws_of_the_prior():
    check_prior(random_prior())


def test_laws_of_the_form(data):
    X, _, Z = data
    kernel = 2.0 * RBF([1.0, 2.0])
    check_prior_form(Inducing(Z), kernel, X)
    check_prior_form(Dense(), kernel, X)


def test_all_points_inducing_is_the_exact_prior(data):
    X, _, _ = data
    kernel = 2.0 * RBF(0.3)
    K = Inducing(X).make(kernel, X, 0.0)
    np.testing.assert_allclose(K.U @ K.U.T + np.diag(K.delta), kernel(X), atol=1e-9)


@pytest.mark.parametrize("name", slow(METHODS, "PL, sequential"))
def test_method_agrees_with_the_dense_prior(name, data):
    X, y, Z = data
    method, likelihood = METHODS[name]
    kernel, form = 3.0 * RBF(1.2), Inducing(Z)
    low_rank = form.make(kernel, X, 0.0)
    K = low_rank.U @ low_rank.U.T + np.diag(low_rank.delta)
    got, want = method(low_rank, y, likelihood), method(DensePrior(K), y, likelihood)
    assert got.converged
    assert want.converged
    np.testing.assert_allclose(got.log_evidence, want.log_evidence, rtol=1e-8)
    np.testing.assert_allclose(got.posterior.mean, want.posterior.mean, atol=1e-7)

    X_new = np.random.default_rng(4).standard_normal((7, 2))
    K_cross, k_diag = form.cross(kernel, X, X_new)
    full = low_rank.U @ low_rank.whitened(K_cross.copy())
    for found, exact in zip(
        got.posterior.predict(K_cross, k_diag),
        want.posterior.predict(full, k_diag),
        strict=True,
    ):
        np.testing.assert_allclose(found, exact, atol=1e-7)

    G, G_dense = got.evidence_pullback(), want.evidence_pullback()
    np.testing.assert_allclose(G[0], 2.0 * G_dense @ low_rank.U, atol=1e-6)
    np.testing.assert_allclose(G[1], np.diagonal(G_dense), atol=1e-6)
    gradient = form.pull(kernel, X, low_rank, G)
    for k, step in enumerate(1e-4 * np.eye(len(kernel.theta))):
        ends = []
        for theta in (kernel.theta + step, kernel.theta - step):
            prior = form.make(kernel.clone_with_theta(theta), X, 0.0)
            ends.append(method(prior, y, likelihood).log_evidence)
        slope = (ends[0] - ends[1]) / 2e-4
        assert gradient[k] == pytest.approx(slope, rel=1e-5, abs=1e-7)


def test_learner_and_model_take_any_form_of_the_prior(data):
    X, y, Z = data
    form, X_new = Inducing(Z), np.random.default_rng(5).standard_normal((9, 2))
    problem = BinaryProblem(2.0 * RBF(1.0), X, y, Probit(), EP(), prior_form=form)
    learned = MaximiseEvidence().learn(problem, problem.theta[None])
    start, end = (problem.evaluate(theta) for theta in (problem.theta, learned.theta))
    assert learned.log_evidence > start.log_evidence + 0.1
    assert np.abs(end.gradient).max() < 1e-3

    model = pickle.loads(pickle.dumps(BinaryModel.of(problem, learned)))
    mean, variance = model.latent(X_new)
    kernel = problem.at(learned.theta).kernel
    low_rank = form.make(kernel, X, 0.0)
    K = low_rank.U @ low_rank.U.T + np.diag(low_rank.delta)
    K_cross, k_diag = form.cross(kernel, X, X_new)
    full = low_rank.U @ low_rank.whitened(K_cross)
    want = EP()(DensePrior(K), y, Probit()).posterior.predict(full, k_diag)
    np.testing.assert_allclose(mean, want[0], atol=1e-6)
    np.testing.assert_allclose(variance, want[1], atol=1e-6)
    assert model.sample(X_new, 3, np.random.RandomState(0)).shape == (9, 3)
    P = np.exp(model.log_probabilities(X_new))
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-12)
