"""Averaging over hyperparameters by a central composite design."""

import itertools
import pickle
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass import GaussianProcessClassifier
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference import EP, Laplace, Outcome
from gpclass.inference.sites import Sites
from gpclass.learning import BinaryProblem, CentralComposite, HyperPrior, MaximiseEvidence
from gpclass.learning.ccd import design
from gpclass.learning.problem import Evaluation
from gpclass.likelihoods import Logit, Probit
from helpers import noisy_problem


@pytest.mark.parametrize("p", [1, 2, 3, 5, 7, 11, 13])
def test_design_has_the_moments_of_a_gaussian(p):
    Z = design(p, 128)
    np.testing.assert_array_equal(Z[0], 0.0)
    np.testing.assert_allclose((Z[1:] ** 2).sum(axis=1), p)
    f0 = 1.1
    weights = np.full(len(Z), f0**-2 / (len(Z) - 1))
    weights[0] = 1 - f0**-2
    assert weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(weights @ (f0 * Z), 0.0, atol=1e-12)
    np.testing.assert_allclose(
        f0**2 * np.einsum("k,ki,kj->ij", weights, Z, Z), np.eye(p), atol=1e-12
    )
    corners = Z[2 * p + 1 :]
    for i, j, k in itertools.combinations(range(p), 3):
        assert corners[:, i] @ (corners[:, j] * corners[:, k]) == 0
    if p <= 11:  # interactions are kept apart
        both = [corners[:, i] * corners[:, j] for i, j in itertools.combinations(range(p), 2)]
        for one, other in itertools.combinations(both, 2):
            assert one @ other == 0


class Found:
    """What is read of an approximation."""

    sites, outcome, n_iter, converged = Sites.zero(1), Outcome.CONVERGED, 1, True

    def __init__(self, log_evidence):
        self.log_evidence = log_evidence


@dataclass(frozen=True)
class Analytic:
    """A log evidence that is a function of theta."""

    function: object
    bounds: np.ndarray
    n_rows = 10
    single_optimum = True

    @property
    def theta(self):
        return np.zeros(len(self.bounds))

    @property
    def hyperparameters(self):
        return SimpleNamespace(ties=np.eye(len(self.bounds)))

    def evaluate(self, theta, *, gradient=True, init=None, check=False):
        value, slope = self.function(theta)
        return Evaluation(value, slope if gradient else None, Found(value))


def moments(learned):
    weights = np.array([node.weight for node in learned.nodes])
    thetas = np.array([node.theta for node in learned.nodes])
    mean = weights @ thetas
    return mean, np.einsum("k,ki,kj->ij", weights, thetas - mean, thetas - mean)


@pytest.mark.parametrize("p", [1, 2, 3, 6])
def test_a_gaussian_has_its_mean_and_covariance(p):
    A = np.random.default_rng(p).standard_normal((p, p))
    H = A @ A.T + 2.0 * np.eye(p)
    centre = np.linspace(-0.5, 0.5, p)

    def gaussian(theta):
        away = theta - centre
        return -3.0 - 0.5 * away @ H @ away, -H @ away

    problem = Analytic(gaussian, np.tile([-50.0, 50.0], (p, 1)))
    learned = CentralComposite().learn(problem, problem.theta[None])
    mean, covariance = moments(learned)
    np.testing.assert_allclose(learned.theta, centre, atol=1e-6)
    np.testing.assert_allclose(mean, centre, atol=1e-6)
    np.testing.assert_allclose(covariance, np.linalg.inv(H), atol=1e-6)
    assert learned.nodes[0].weight == pytest.approx(1 - 1.1**-2)


def test_a_skew_density_is_followed_on_either_side():
    """Of the logarithm of a gamma variable, whose mode is 0."""

    def skewed(theta):
        return (3.0 * theta - 3.0 * np.exp(theta)).sum() - 1.0, 3.0 - 3.0 * np.exp(theta)

    problem = Analytic(skewed, np.tile([-20.0, 20.0], (2, 1)))
    grid = np.linspace(-6, 3, 4001)
    density = np.exp(3.0 * grid - 3.0 * np.exp(grid))
    density /= density.sum()
    want = density @ grid  # -.176
    variance = density @ (grid - want) ** 2  # .395, where the curvature says .333
    mean, covariance = moments(CentralComposite().learn(problem, problem.theta[None]))
    np.testing.assert_allclose(mean, want, atol=0.06)
    np.testing.assert_allclose(np.diag(covariance), variance, rtol=0.15)


class Normal(HyperPrior):
    """Independent normal densities of the logarithms."""

    def log_density(self, theta):
        return -0.5 * float(theta @ theta), -theta


@pytest.mark.slow
@pytest.mark.parametrize("inference", [(EP(), Probit()), (Laplace(), Logit())])
def test_predictions_are_nearer_to_the_average_than_the_modes(inference):
    """The average over a grid of two hyperparameters."""
    X, y = noisy_problem(30)
    method, likelihood = inference
    kernel = ConstantKernel(1.0, (1e-4, 1e4)) * RBF(1.0, (1e-4, 1e4))
    settings = {"inference": method, "likelihood": likelihood, "hyperprior": Normal()}
    new = np.random.default_rng(5).standard_normal((50, 2))
    grid, log_w, P = np.linspace(-3.5, 3.5, 15), [], []
    for theta in itertools.product(grid, grid):
        theta = np.array(theta)
        one = GaussianProcessClassifier(kernel.clone_with_theta(theta), optimizer=None, **settings)
        one.set_params(hyperprior=None).fit(X, y)
        log_w.append(one.log_marginal_likelihood_value_ + Normal().log_density(theta)[0])
        P.append(one.predict_proba(new)[:, 1])
    weights = np.exp(np.array(log_w) - max(log_w))
    want = weights @ np.array(P) / weights.sum()
    mode = GaussianProcessClassifier(kernel, **settings).fit(X, y)
    model = GaussianProcessClassifier(kernel, learning="ccd", **settings).fit(X, y)
    np.testing.assert_allclose(model.kernel_.theta, mode.kernel_.theta, atol=1e-6)
    found, before = (np.abs(m.predict_proba(new)[:, 1] - want).max() for m in (model, mode))
    assert found < 0.3 * before
    assert len(model.models_[0].learned.nodes) == 9


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"inference": "laplace", "likelihood": "logit"}])
def test_joint_models_average(settings):
    X, y = noisy_problem(36)
    codes = (np.digitize(X[:, 1], [-0.6, 0.6]) + (y > 0)) % 3
    model = GaussianProcessClassifier(1.0 * RBF(1.0), learning="ccd", hyperprior="weak", **settings)
    model.fit(X, codes)
    learned = model.models_[0].learned
    assert len(learned.nodes) > 3
    assert learned.best is learned.nodes[0]
    P = model.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)
    again = pickle.loads(pickle.dumps(model))
    assert again.predict_proba(X).tobytes() == P.tobytes()
    assert np.isfinite(model.loo_proba_).all()


def test_what_is_on_a_bound_stays_there():
    X, y = noisy_problem(30)
    kernel = ConstantKernel(1.0, (0.5, 1.2)) * RBF(1.0, (1e-2, 1e2))
    problem = BinaryProblem(kernel, X, y, Probit(), EP())
    learned = CentralComposite().learn(problem, problem.theta[None])
    thetas = np.array([node.theta for node in learned.nodes])
    np.testing.assert_allclose(thetas[:, 0], np.log(1.2))
    assert len(thetas) == 3
    assert np.ptp(thetas[:, 1]) > 0.1
    fixed = replace(problem, kernel=ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed"))
    assert len(CentralComposite().learn(fixed, fixed.theta[None]).nodes) == 1


def test_points_that_fail_count_nothing():
    """Beyond a wall there is no evidence; next to the mode its absence is an error."""

    def walled(at):
        def function(theta):
            if theta[0] > at:
                raise NotPositiveDefiniteError("wall")
            return -1.0 - 0.5 * theta @ theta, -theta

        return Analytic(function, np.tile([-50.0, 50.0], (2, 1)))

    problem = walled(1.2)
    learned = CentralComposite().learn(problem, problem.theta[None])
    assert 3 < len(learned.nodes) < 9
    assert all(node.theta[0] <= 1.2 for node in learned.nodes)
    assert sum(node.weight for node in learned.nodes) == pytest.approx(1.0)
    problem = walled(0.01)
    with pytest.raises(NotPositiveDefiniteError, match="next to its maximum"):
        CentralComposite().learn(problem, problem.theta[None])


@pytest.mark.parametrize(
    "settings", [{"radius": 1.0}, {"max_corners": 0}, {"negligible": 1.0}, {"optimizer": "newton"}]
)
def test_bad_settings(settings):
    with pytest.raises(ValueError, match=r"radius must be|optimizer must be"):
        CentralComposite(**settings)


def test_the_reported_setting_is_the_mode():
    X, y = noisy_problem(30)
    problem = BinaryProblem(1.0 * RBF(1.0), X, y, Logit(), Laplace())
    learned = CentralComposite(negligible=0.0).learn(problem, problem.theta[None])
    mode = MaximiseEvidence().learn(problem, problem.theta[None])
    np.testing.assert_allclose(learned.theta, mode.theta)
    assert learned.log_evidence == pytest.approx(mode.log_evidence)
