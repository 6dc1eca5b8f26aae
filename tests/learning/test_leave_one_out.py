"""Learning by the leave-one-out log predictive: its gradient, and what it leads to."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from gpclass import GaussianProcessClassifier
from gpclass.inference import EP, Laplace, PosteriorLinearisation, TangentBound, Variational
from gpclass.learning import BinaryProblem, MaximiseEvidence, MaximiseLeaveOneOut
from gpclass.learning.leave_one_out import leave_one_out
from gpclass.likelihoods import Logit, NoisyThreshold, Probit
from helpers import noisy_problem, pairs

TOL = 1e-10
METHODS = {
    "laplace": (Laplace(), Logit()),
    "laplace, probit": (Laplace(), Probit()),
    "ep": (EP(tol=TOL), Probit()),
    "ep, logit": (EP(tol=TOL), Logit()),
    "ep, sequential": (EP("sequential", tol=TOL), Probit()),
    "ep, threshold": (EP(tol=TOL), NoisyThreshold(0.1, "fixed")),
    "pl": (PosteriorLinearisation(tol=TOL), Probit()),
    "vi": (Variational(tol=TOL), Logit()),
    "vi, energy": (Variational("ep", tol=TOL), Logit()),
    "lower bound": (TangentBound(tol=TOL), Logit()),
    "upper bound": (TangentBound("upper", tol=TOL), Logit()),
}
KERNELS = {
    "usual": 4.0 * RBF([1.0, 2.0]) + WhiteKernel(0.1),
    "strong": 900.0 * RBF([0.8, 3.0]) + WhiteKernel(0.1),
}


def problem_of(method, kernel, weights=None, **data):
    X, y = noisy_problem(**({"n": 20} | data))
    inference, likelihood = METHODS[method]
    return BinaryProblem(kernel, X, y, likelihood, inference, weights)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "kernel", "weighted"), pairs(METHODS, KERNELS, (False, True)))
def test_gradient_is_that_of_central_differences(method, kernel, weighted):
    weights = np.random.default_rng(1).choice([0.5, 1.0, 2.5], 20) if weighted else None
    problem = problem_of(method, KERNELS[kernel], weights)
    theta = problem.theta
    score = leave_one_out(problem, theta, True, None)
    assert score.approximation.converged

    def value(theta):
        return leave_one_out(problem, theta, False, score.approximation.sites).value

    h = 1e-3
    for i, slope in enumerate(score.gradient):
        v = [value(theta + t * h * np.eye(len(theta))[i]) for t in (-2, -1, 1, 2)]
        want = (8 * (v[2] - v[1]) - (v[3] - v[0])) / (12 * h)
        assert slope == pytest.approx(want, abs=1e-5 * np.abs(score.gradient).max())


@pytest.mark.parametrize("method", ["ep", "laplace"])
def test_the_value_is_that_of_the_estimator(method):
    weights = np.random.default_rng(1).choice([0.5, 1.0, 2.5], 20)
    problem = problem_of(method, KERNELS["usual"], weights)
    inference, likelihood = METHODS[method]
    model = GaussianProcessClassifier(
        problem.kernel, inference=inference, likelihood=likelihood, optimizer=None
    ).fit(problem.X, problem.y, weights)
    value = leave_one_out(problem, problem.theta, False, None).value
    assert value == pytest.approx(-weights.sum() * model.loo_log_loss_, rel=1e-7)


@pytest.mark.parametrize("method", ["ep", "laplace"])
def test_it_ends_where_the_gradient_is_zero(method):
    problem = problem_of(method, 1.0 * RBF(1.0), n=60, seed=1, noise=1.5)
    start = problem.theta[None]
    learned = MaximiseLeaveOneOut().learn(problem, start)
    score = leave_one_out(problem, learned.theta, True, None)
    # on a ridge: variance and length-scale may both grow
    assert np.abs(score.gradient).max() < 2e-3
    evidence = MaximiseEvidence().learn(problem, start)
    assert score.value > leave_one_out(problem, evidence.theta, False, None).value + 1e-3
    assert learned.log_evidence == pytest.approx(score.approximation.log_evidence, abs=1e-7)
    assert learned.runs[0].log_evidence == pytest.approx(learned.log_evidence, abs=1e-7)


def test_the_estimator_learns_by_it():
    X, y = noisy_problem(60, seed=1, noise=1.5)
    model = GaussianProcessClassifier(1.0 * RBF(1.0), learning="loo").fit(X, y)
    evidence = GaussianProcessClassifier(1.0 * RBF(1.0)).fit(X, y)
    assert model.loo_log_loss_ < evidence.loo_log_loss_
    # the default kernel has a prior over its hyperparameters
    classes = np.digitize(X[:, 0] + 0.3 * X[:, 1] * y, [-0.5, 0.5])
    settings = {"learning": "loo", "multi_class": "one_vs_rest", "inference": "laplace"}
    assert GaussianProcessClassifier(**settings).fit(X, classes).converged_


def test_an_optimizer_of_the_users_own():
    problem = problem_of("laplace", 1.0 * RBF(1.0))
    seen = []

    def optimizer(obj_func, initial_theta, bounds):
        seen.append(obj_func(initial_theta))
        return initial_theta + 0.1, 0.0

    learned = MaximiseLeaveOneOut(optimizer).learn(problem, problem.theta[None])
    np.testing.assert_allclose(learned.theta, problem.theta + 0.1)
    score = leave_one_out(problem, problem.theta, True, None)
    assert seen[0][0] == pytest.approx(-score.value)
    with pytest.raises(ValueError, match="optimizer must be"):
        MaximiseLeaveOneOut("newton")


@pytest.mark.parametrize(
    ("settings", "n_classes", "message"),
    [
        ({}, 3, "learns binary problems"),
        ({"multi_class": "differences"}, 3, "learns binary problems"),
        ({"likelihood": "threshold"}, 2, "no derivative by the hyperparameters"),
        ({"inference": "mcmc"}, 2, "no sites to leave out"),
    ],
)
def test_what_has_no_gradient_is_refused(settings, n_classes, message):
    X, _ = noisy_problem(30)
    y = np.arange(30) % n_classes
    with pytest.raises(ValueError, match=message):
        GaussianProcessClassifier(1.0 * RBF(1.0), learning="loo", **settings).fit(X, y)
