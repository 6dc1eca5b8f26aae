"""Inference and learning on a prior that never forms an n x n matrix."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)

from gpclass.estimator.binary_model import BinaryModel
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference import EP, Laplace, PosteriorLinearisation, TangentBound, Variational
from gpclass.kernels import ColumnKernel, MixedRBF
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


NOISY = 3.0 * RBF([1.0, 2.0]) + 0.2 * Matern(2.0, nu=1.5) + WhiteKernel(0.3)


@pytest.mark.parametrize("name", slow(METHODS, "PL, sequential"))
def test_all_points_inducing_gives_the_dense_answers(name, data):
    X, y, _ = data
    method, likelihood = METHODS[name]
    exact = BinaryProblem(NOISY, X, y, likelihood, method)
    got, want = (
        problem.evaluate(problem.theta)
        for problem in (replace(exact, prior_form=Inducing(X[::-1].copy())), exact)
    )
    assert got.log_evidence == pytest.approx(want.log_evidence, rel=1e-6)
    np.testing.assert_allclose(got.gradient, want.gradient, rtol=1e-6, atol=1e-6)
    new = np.vstack([X[:3], np.random.default_rng(1).standard_normal((20, 2))])
    answers = [
        found.approximation.posterior.predict(*form.cross(NOISY, X, new))
        for form, found in ((Inducing(X[::-1].copy()), got), (Dense(), want))
    ]
    np.testing.assert_allclose(*answers, rtol=1e-6, atol=1e-6)


KERNELS = {
    "ard": 2.0 * RBF([1.0, 2.0, 3.0]),
    "noise": 2.0 * Matern([1.0, 2.0, 3.0], nu=2.5) + WhiteKernel(0.2),
    "noise of one part": (RBF(1.0) + WhiteKernel(0.5)) * ConstantKernel(2.0),
    "line": RBF(2.0) + 0.5 * DotProduct(1.0) + 1.0,
    "categories": 2.0 * MixedRBF([1.0, 2.0], (2,), 0.8),
    "columns": ColumnKernel([0, 1], RBF([1.0, 2.0])) * 2.0 + ColumnKernel(2, RBF(1.0)),
    "power": RationalQuadratic(1.3, 0.7) ** 2 * 3.0,
    "own": 2.0 * PairwiseKernel(0.3, "fixed", metric="rbf") + WhiteKernel(0.1),
}


@pytest.mark.parametrize(
    ("method", "likelihood"), [(Laplace(), Logit()), (EP(), Probit())], ids=["Laplace", "EP"]
)
@pytest.mark.parametrize("name", KERNELS)
def test_gradients_are_central_differences(name, method, likelihood):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((30, 2)), rng.integers(3, size=30)])
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(30) > 0, 1.0, -1.0)
    kernel = KERNELS[name]
    problem = BinaryProblem(kernel, X, y, likelihood, method, prior_form=Inducing(X[::4] + 0.0))
    theta, step = problem.theta, 1e-4
    found = problem.evaluate(theta).gradient
    ends = [
        [problem.evaluate(theta + s * e, gradient=False).log_evidence for s in (step, -step)]
        for e in np.eye(len(theta))
    ]
    slopes = [(up - down) / (2 * step) for up, down in ends]
    np.testing.assert_allclose(found, slopes, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_against_the_formula_and_the_integral(n):
    rng = np.random.default_rng(n)
    X, Z = rng.standard_normal((n, 1)), rng.standard_normal((min(n, 2), 1))
    y, kernel = np.where(rng.random(n) < 0.5, 1.0, -1.0), 2.0 * RBF(1.0)
    prior = InducingPrior.of(kernel, X, Z)
    shared = kernel(X, Z) @ np.linalg.inv(kernel(Z)) @ kernel(Z, X)
    K = shared - np.diag(np.diag(shared)) + np.diag(kernel.diag(X))
    np.testing.assert_allclose(prior.multiply(np.ones(n)), K.sum(axis=1), rtol=1e-9)
    # P(y) of a probit is that of an orthant
    cov = y[:, None] * (K + np.eye(n)) * y
    truth = np.log(multivariate_normal(np.zeros(n), cov).cdf(np.zeros(n)))
    assert EP()(prior, y, Probit()).log_evidence == pytest.approx(truth, abs=5e-3)
    assert Variational()(prior, y, Probit()).log_evidence < truth + 1e-9


def test_weights_are_rows_repeated_where_points_leave_nothing(data):
    X, y, Z = data
    kernel, form = 2.0 * RBF(1.0), Inducing(Z)
    at = np.arange(0, N, 5)  # rows that are inducing points have no variance of their own
    weights = np.ones(N)
    weights[at] = 2.0
    weighted = BinaryProblem(kernel, X, y, Probit(), EP(), weights, prior_form=form)
    again = np.concatenate([np.arange(N), at])
    repeated = BinaryProblem(kernel, X[again], y[again], Probit(), EP(), prior_form=form)
    got, want = (one.evaluate(one.theta) for one in (weighted, repeated))
    assert got.log_evidence == pytest.approx(want.log_evidence, rel=1e-7)
    np.testing.assert_allclose(got.gradient, want.gradient, rtol=1e-5, atol=1e-7)


def test_bad_precisions_and_kernels_are_refused(data):
    X, _, Z = data
    prior = Inducing(Z).make(2.0 * RBF(1.0), X, 0.0)
    tau = np.zeros(N)
    i = int(prior.delta.argmax())
    tau[i] = -1.5 / prior.delta[i]
    with pytest.raises(NotPositiveDefiniteError, match="leaves a variance"):
        prior.factor(tau)
    tau[i] = -0.9 / prior.diagonal[i]
    prior.factor(tau)
    with pytest.raises(NotPositiveDefiniteError, match="weights"):
        prior.factor(np.full(N, -0.9 / prior.diagonal.max()))
    with pytest.raises(NotPositiveDefiniteError, match="covariance of the inducing points"):
        Inducing(Z).make(Exponentiation(1e200 * RBF(1.0), 2), X, 0.0)
    with pytest.raises(NotPositiveDefiniteError, match="not positive semi-definite"):
        Inducing(Z[:1]).make(PairwiseKernel(metric=_indefinite), X, 0.0)


def _indefinite(a, b, gamma=1.0):
    return 1.0 if np.array_equal(a, b) else 2.0


def test_jitter_of_values_beyond_rounding(data):
    X, y, Z = data
    problem = BinaryProblem(1e17 * RBF(1.0), X, y, Probit(), EP(), prior_form=Inducing(Z))
    assert problem.jitter > 0.0
    delta = problem.prior().delta
    np.testing.assert_allclose(delta[::5], problem.jitter, rtol=1e-2, atol=1e-12 * 1e17)
