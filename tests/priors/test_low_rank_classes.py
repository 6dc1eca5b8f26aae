"""Joint models under a prior that has no n x n matrix: softmax and nested EP."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, CompoundKernel
from tests.priors.low_rank_classes import LowRankClasses, LowRankFactor, LowRankJoint

from gpclass.estimator.joint_model import JointModel
from gpclass.inference import EP, Laplace
from gpclass.inference.joint import MultinomialProbit, Softmax
from gpclass.inference.nested import nested_ep
from gpclass.inference.softmax import SoftmaxLaplace
from gpclass.learning import JointProblem, MaximiseEvidence
from gpclass.likelihoods import Logit, Probit
from gpclass.priors import Inducing
from gpclass.priors.classes import ClassPrior

N, C, RANK = 18, 3, 4
METHODS = {
    "softmax": SoftmaxLaplace(),
    "nested": lambda prior, codes, weights=None: nested_ep(prior, codes, EP(tol=1e-10), weights),
}


def parts(seed=0):
    rng = np.random.default_rng(seed)
    U = rng.standard_normal((C, N, RANK))
    delta = rng.gamma(2.0, 0.3, size=(N, C))
    return U, delta, rng.integers(C, size=N), rng.uniform(0.5, 2.0, N)


def low_rank(U, delta):
    V = np.zeros((N, C, C, RANK))
    for c in range(C):
        V[:, c, c] = U[c]
    return LowRankClasses(V.reshape(N, C, -1), delta)


def dense(U, delta):
    return ClassPrior([u @ u.T + np.diag(x) for u, x in zip(U, delta.T, strict=True)], C)


@pytest.mark.parametrize("model", METHODS)
@pytest.mark.parametrize("weighted", [False, True])
def test_low_rank_is_dense(model, weighted):
    U, delta, codes, weights = parts()
    weights = np.ceil(weights) if weighted else None
    q = METHODS[model](low_rank(U, delta), codes, weights=weights)
    want = METHODS[model](dense(U, delta), codes, weights=weights)
    assert isinstance(q.posterior.factor, LowRankFactor)
    assert q.converged
    assert q.log_evidence == pytest.approx(want.log_evidence, rel=1e-9)
    np.testing.assert_allclose(q.posterior.mean, want.posterior.mean, atol=1e-8)
    G_V, G_delta = q.evidence_pullback()
    G = want.evidence_pullback()
    for c in range(C):
        np.testing.assert_allclose(G_delta[:, c], np.diagonal(G[c]), atol=1e-7)
        by_U = G_V.reshape(N, C, C, RANK)[:, c, c]
        np.testing.assert_allclose(by_U, 2 * G[c] @ U[c], atol=1e-7)
    rng = np.random.default_rng(1)
    new = rng.standard_normal((C, 5, RANK))
    crosses = [u @ w.T for u, w in zip(U, new, strict=True)]
    news = [w @ w.T + np.eye(5) for w in new]
    k_diag = np.stack([K.diagonal() for K in news], axis=1)
    for got, expected in (
        (q.posterior.predict(crosses, k_diag), want.posterior.predict(crosses, k_diag)),
        (q.posterior.joint(crosses, news), want.posterior.joint(crosses, news)),
    ):
        np.testing.assert_allclose(got[0], expected[0], atol=1e-8)
        np.testing.assert_allclose(got[1], expected[1], atol=1e-8)


@pytest.mark.parametrize("model", METHODS)
def test_gradient_by_central_differences(model):
    U, delta, codes, _ = parts(2)
    G_V, G_delta = METHODS[model](low_rank(U, delta), codes).evidence_pullback()
    rng = np.random.default_rng(3)
    dU, d_delta = rng.standard_normal(U.shape), rng.standard_normal(delta.shape) * delta
    by_U = G_V.reshape(N, C, C, RANK)
    slope = sum((by_U[:, c, c] * dU[c]).sum() for c in range(C)) + (G_delta * d_delta).sum()
    h = 1e-4
    values = [
        METHODS[model](low_rank(U + s * h * dU, delta + s * h * d_delta), codes).log_evidence
        for s in (2, 1, -1, -2)
    ]
    difference = (8 * (values[1] - values[2]) - (values[0] - values[3])) / (12 * h)
    assert slope == pytest.approx(difference, rel=1e-7)


JOINT = {
    "softmax": (Softmax(), Logit(), Laplace()),
    "nested": (MultinomialProbit(), Probit(), EP(tol=1e-10)),
}


def joint_problem(model, shared):
    rng = np.random.default_rng(6)
    X = rng.standard_normal((30, 2))
    codes = np.argmax(X @ rng.standard_normal((2, C)) + 0.3 * rng.gumbel(size=(30, C)), axis=1)
    kernel = (
        2.0 * RBF([1.0, 2.0]) if shared else CompoundKernel([2.0 * RBF(1.0 + c) for c in range(C)])
    )
    scheme, likelihood, inference = JOINT[model]
    form = LowRankJoint(Inducing(X[::5].copy()))
    return JointProblem(kernel, X, codes, C, scheme, likelihood, inference, prior_form=form)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("model", JOINT)
def test_gradient_by_hyperparameters(model, shared):
    problem = joint_problem(model, shared)
    found = problem.evaluate(problem.theta)
    for k, step in enumerate(1e-4 * np.eye(len(problem.theta))):
        up, down = (problem.evaluate(problem.theta + s * step).log_evidence for s in (1, -1))
        assert found.gradient[k] == pytest.approx((up - down) / 2e-4, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("model", JOINT)
def test_the_learner_and_the_model_are_those_of_dense_priors(model):
    problem = joint_problem(model, shared=True)
    start = problem.evaluate(problem.theta).log_evidence
    learned = MaximiseEvidence().learn(problem, problem.theta[None])
    assert learned.log_evidence > start
    P = JointModel.of(problem, learned).probabilities(problem.X)
    assert (P.argmax(axis=1) == problem.codes).mean() > 0.8
