"""Learning by the leave-one-out log predictive: its gradient, and what it leads to."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, ConstantKernel, WhiteKernel

from gpclass import GaussianProcessClassifier
from gpclass.inference import EP, Laplace, PosteriorLinearisation, TangentBound, Variational
from gpclass.inference.joint import LatentDifferences, MultinomialProbit, Softmax
from gpclass.learning import BinaryProblem, JointProblem, MaximiseEvidence, MaximiseLeaveOneOut
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
    "ep, free epsilon": (EP(tol=TOL), NoisyThreshold(0.1)),
    "pl, free epsilon": (PosteriorLinearisation(tol=TOL), NoisyThreshold(0.2)),
    "vi, free epsilon": (Variational(tol=TOL), NoisyThreshold(0.2)),
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


def check_gradient(problem):
    """The gradient at the problem's own theta against central differences of fourth order."""
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


@pytest.mark.slow
@pytest.mark.parametrize(("method", "kernel", "weighted"), pairs(METHODS, KERNELS, (False, True)))
def test_gradient_is_that_of_central_differences(method, kernel, weighted):
    weights = np.random.default_rng(1).choice([0.5, 1.0, 2.5], 20) if weighted else None
    check_gradient(problem_of(method, KERNELS[kernel], weights))


JOINT = {
    "nested": (MultinomialProbit(), Probit(), EP(tol=TOL)),
    "softmax": (Softmax(), Logit(), Laplace()),
    "differences": (LatentDifferences(), Probit(), EP(tol=TOL)),
    "differences, laplace": (LatentDifferences(), Logit(), Laplace()),
    "differences, pl": (LatentDifferences(), Probit(), PosteriorLinearisation(tol=TOL)),
    "differences, vi": (LatentDifferences(), Logit(), Variational(tol=TOL)),
}
OF_CLASSES = {
    "shared": 4.0 * RBF([1.0, 2.0]) + WhiteKernel(0.1),
    "one a class": CompoundKernel(
        [ConstantKernel(4.0) * RBF(1.0), ConstantKernel(1.0) * RBF(0.5), RBF(2.0)]
    ),
}


def joint_problem_of(method, kernel="shared", weights=None, n=16):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 2))
    codes = np.digitize(X[:, 0] + 0.5 * rng.standard_normal(n), [-0.4, 0.5])
    codes[:3] = np.arange(3)
    scheme, likelihood, inference = JOINT[method]
    return JointProblem(OF_CLASSES[kernel], X, codes, 3, scheme, likelihood, inference, weights)


@pytest.mark.parametrize(
    ("method", "kernel", "weights"),
    [
        *(pytest.param(m, k, None, marks=pytest.mark.slow) for m in JOINT for k in OF_CLASSES),
        ("nested", "one a class", (0.0, 0.5, 1.0)),
        ("softmax", "one a class", (0.0, 0.5, 1.0, 2.5)),
        ("softmax", "shared", None),
        pytest.param("differences", "shared", (0.5, 1.0, 2.5), marks=pytest.mark.slow),
    ],
)
def test_the_gradient_of_a_joint_model(method, kernel, weights):
    if weights is not None:
        weights = np.random.default_rng(1).choice(weights, 16)
    check_gradient(joint_problem_of(method, kernel, weights))


@pytest.mark.parametrize("settings", [{}, {"inference": "laplace"}, {"multi_class": "differences"}])
def test_a_joint_model_learns_by_it(settings):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 2))
    y = np.digitize(X[:, 0] + 0.5 * rng.standard_normal(50), [-0.4, 0.5])
    kernel = 1.0 * RBF(1.0)
    evidence = GaussianProcessClassifier(kernel, **settings).fit(X, y)
    model = GaussianProcessClassifier(kernel, learning="loo", **settings).fit(X, y)
    assert model.loo_log_loss_ < evidence.loo_log_loss_ - 1e-3
    problem = model.models_[0].problem
    score = leave_one_out(problem, problem.theta, True, None)
    # within a thousandth: fixed points, and those of the prediction
    assert score.value == pytest.approx(-50 * model.loo_log_loss_, abs=0.1)
    inside = ~np.isclose(problem.theta[:, None], problem.bounds).any(axis=1)
    assert np.abs(score.gradient[inside]).max(initial=0.0) < 2e-3


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
        ({"multi_class": "differences", "likelihood": "threshold"}, 3, "jumps"),
        ({"inference": "mcmc"}, 2, "no sites to leave out"),
    ],
)
def test_what_has_no_gradient_is_refused(settings, n_classes, message):
    X, _ = noisy_problem(30)
    y = np.arange(30) % n_classes
    with pytest.raises(ValueError, match=message):
        GaussianProcessClassifier(1.0 * RBF(1.0), learning="loo", **settings).fit(X, y)


def test_copies_have_no_gradient_in_the_multinomial_probit():
    X, _ = noisy_problem(30)
    model = GaussianProcessClassifier(1.0 * RBF(1.0), learning="loo")
    with pytest.raises(ValueError, match="sample_weight above 1 has no leave-one-out gradient"):
        model.fit(X, np.arange(30) % 3, np.full(30, 2.0))


def test_a_free_epsilon_is_learnt():
    X, y = noisy_problem(60, seed=1)
    settings = {"likelihood": "threshold", "learning": "loo"}
    model = GaussianProcessClassifier(RBF(1.0, "fixed"), **settings).fit(X, y)
    problem = model.models_[0].problem
    score = leave_one_out(problem, problem.theta, True, model.models_[0].sites)
    assert model.likelihood_.epsilon != pytest.approx(0.01, rel=0.1)
    inside = ~np.isclose(problem.theta[:, None], problem.bounds).any(axis=1)
    assert np.abs(score.gradient[inside]).max(initial=0.0) < 2e-3
