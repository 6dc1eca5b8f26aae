"""Theta is split and joined in one place, and may have a prior."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, ConstantKernel

from gpclass.inference import EP, Laplace
from gpclass.learning import (
    BinaryProblem,
    ExpectationMaximisation,
    Hyperparameters,
    HyperPrior,
    MaximiseEvidence,
)
from gpclass.learning.objective import Objective
from gpclass.likelihoods import Logit, NoisyThreshold, Probit
from helpers import Normal

# ------------------------------------------------------------ split and join


@pytest.mark.parametrize(
    ("kernel", "names"),
    [
        (2.0 * RBF([1.0, 3.0]), ("k1__constant_value", "k2__length_scale[0]")),
        (ConstantKernel(2.0, "fixed") * RBF(1.0), ("k2__length_scale",)),
        (CompoundKernel([RBF(1.0), 2.0 * RBF(3.0)]), ("kernels[0]__length_scale",)),
    ],
    ids=["ard", "partly fixed", "one a class"],
)
def test_every_entry_has_a_name_a_value_and_bounds(kernel, names):
    free = Hyperparameters(kernel, NoisyThreshold(0.1))
    assert free.names[: len(names)] == names
    assert free.names[-1] == "likelihood__epsilon"
    assert len(free.names) == len(free.theta) == len(free.bounds) == sum(free.sizes)
    np.testing.assert_array_equal(free.theta[: free.n_kernel], kernel.theta)
    np.testing.assert_array_equal(free.theta[free.n_kernel :], np.log([0.1]))


def test_other_values_reach_the_kernel_of_their_class_and_the_likelihood():
    free = Hyperparameters(CompoundKernel([RBF(1.0), 2.0 * RBF(3.0)]), NoisyThreshold(0.1))
    there = free.at(np.log([5.0, 6.0, 7.0, 0.2]))
    first, second = there.kernels
    assert first.length_scale == pytest.approx(5.0)
    assert second.k1.constant_value == pytest.approx(6.0)
    assert second.k2.length_scale == pytest.approx(7.0)
    assert there.likelihood.epsilon == pytest.approx(0.2)
    np.testing.assert_allclose(there.theta, np.log([5.0, 6.0, 7.0, 0.2]))


def test_what_is_left_out_stays():
    free = Hyperparameters(RBF(1.0), NoisyThreshold(0.1))
    np.testing.assert_allclose(free.completed(np.log([3.0])), np.log([3.0, 0.1]))
    np.testing.assert_allclose(free.completed(np.log([3.0, 0.2])), np.log([3.0, 0.2]))


def test_entries_of_a_vector_are_tied():
    kernel = ConstantKernel(2.0, "fixed") * RBF([1.0, 3.0]) + RBF(1.0)
    free = Hyperparameters(CompoundKernel([kernel, RBF([1.0, 2.0])]), NoisyThreshold(0.1))
    owners = [0, 0, 1, 2, 2, 3]
    np.testing.assert_array_equal(free.ties, np.eye(4)[owners])


def test_nothing_free():
    free = Hyperparameters(RBF(1.0, "fixed"), Probit())
    assert free.theta.shape == (0,)
    assert free.bounds.shape == (0, 2)
    assert free.at(np.empty(0)).kernel == free.kernel


# ------------------------------------------------------ a prior over theta


def problem_of(inference, likelihood, n=50):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n, 2))
    latent = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.7 * rng.standard_normal(n)
    return BinaryProblem(1.0 * RBF(1.0), X, np.where(latent > 0, 1.0, -1.0), likelihood, inference)


@pytest.mark.parametrize("learner", [MaximiseEvidence, ExpectationMaximisation])
@pytest.mark.parametrize(
    ("inference", "likelihood"),
    [
        pytest.param(EP(), Probit(), id="ep"),
        pytest.param(Laplace(), Logit(), id="laplace"),
        pytest.param(EP(), NoisyThreshold(0.2), id="threshold", marks=pytest.mark.slow),
    ],
)
def test_the_maximum_is_that_of_the_penalised_objective(learner, inference, likelihood):
    problem = problem_of(inference, likelihood)
    prior = Normal(-0.5, 0.3)
    found = learner(hyperprior=prior).learn(problem, problem.theta[None])

    def penalised(theta):
        return problem.evaluate(theta, gradient=False).log_evidence + prior.log_density(theta)[0]

    h = 1e-4 * np.eye(len(found.theta))
    slope = [(penalised(found.theta + e) - penalised(found.theta - e)) / 2e-4 for e in h]
    low, high = problem.bounds.T
    free = (found.theta > low) & (found.theta < high)
    np.testing.assert_allclose(np.array(slope)[free], 0.0, atol=1e-2)
    other = minimize(lambda theta: -penalised(np.clip(theta, low, high)), found.theta + 0.1,
                     method="Nelder-Mead", options={"maxiter": 150})  # fmt: skip
    assert -other.fun <= penalised(found.theta) + 1e-4
    # the evidence that is reported is without the prior, which has moved the maximum
    there = problem.evaluate(found.theta, gradient=False, init=found.best.sites)
    assert found.log_evidence == pytest.approx(there.log_evidence, abs=1e-8)
    alone = learner().learn(problem, problem.theta[None])
    assert np.abs(alone.theta - found.theta).max() > 0.1
    assert alone.log_evidence > found.log_evidence


def test_the_gradient_of_the_penalised_objective():
    problem = problem_of(EP(), Probit())
    objective = Objective(problem, hyperprior=Normal(0.3, 0.5))
    theta = problem.theta + np.array([0.2, -0.1])
    point = objective.evaluate(theta, gradient=True)
    h = 1e-4
    slope = [
        (objective.evaluate(theta + e, False).value - objective.evaluate(theta - e, False).value)
        / (2 * h)
        for e in h * np.eye(2)
    ]
    np.testing.assert_allclose(point.gradient, slope, atol=1e-6)
    density, _ = objective.log_density(theta)
    assert point.value == point.log_evidence + density


def test_a_density_that_is_not_finite_is_a_rejected_step():
    class Wall(HyperPrior):
        def log_density(self, theta):
            return (0.0 if theta[0] < 0.5 else -np.inf), np.zeros(len(theta))

    problem = problem_of(EP(), Probit())
    found = MaximiseEvidence(hyperprior=Wall()).learn(problem, problem.theta[None])
    assert found.theta[0] < 0.5
    assert found.runs[0].n_rejected >= 1


# ----------------------------------------------------- rejected evaluations


@pytest.mark.slow
def test_an_impossible_evidence_is_a_rejected_evaluation():
    """A log probability above zero: no data have it, and it must not be the best of a run."""

    def method(prior, y, likelihood, *, weights=None, init=None):
        found = EP()(prior, y, likelihood, weights=weights, init=init)
        if prior.diagonal[0] > 1.5:
            object.__setattr__(found, "log_evidence", 2.5e15)
        return found

    problem = problem_of(method, Probit())
    free = problem_of(EP(), Probit())
    assert MaximiseEvidence().learn(free, free.theta[None]).theta[0] > np.log(1.5)
    for learner in (MaximiseEvidence(), ExpectationMaximisation()):
        found = learner.learn(problem, problem.theta[None])
        (run,) = found.runs
        assert run.n_rejected >= 1
        assert found.log_evidence < 0
        assert found.theta[0] <= np.log(1.5) + 1e-9
