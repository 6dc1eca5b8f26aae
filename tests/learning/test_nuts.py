"""Averaging over draws of the hyperparameters."""

import itertools
import sys

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass import GaussianProcessClassifier
from gpclass.exceptions import ConvergenceWarning
from gpclass.inference import Laplace
from gpclass.learning import BinaryProblem, HyperPrior, MaximiseEvidence, NoUTurn
from gpclass.learning.neighbourhood import Neighbourhood
from gpclass.likelihoods import Logit
from helpers import noisy_problem

KERNEL = 1.0 * RBF(1.0)


class Normal(HyperPrior):
    """Independent normal densities of the logarithms."""

    def log_density(self, theta):
        return -0.5 * float(theta @ theta), -theta


def problem(kernel=KERNEL, n=25):
    X, y = noisy_problem(n)
    return BinaryProblem(kernel, X, y, Logit(), Laplace())


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "mici", None)
    with pytest.raises(ImportError, match=r"pip install 'gpclass\[nuts\]'"):
        NoUTurn().learn(problem(), problem().theta[None])


@pytest.mark.parametrize(
    "settings", [{"n_chains": 0}, {"n_draws": 3}, {"n_kept": 300}, {"n_warm_up": 0}]
)
def test_bad_settings(settings):
    with pytest.raises(ValueError, match="n_chains, n_warm_up and n_kept"):
        NoUTurn(**settings)


@pytest.mark.slow
def test_draws_are_those_of_the_posterior():
    """Moments of theta against a grid."""
    pytest.importorskip("mici")
    there = problem()
    learner = NoUTurn(hyperprior=Normal(), n_kept=150)
    learned = learner.learn(there, there.theta[None])
    thetas = np.array([node.theta for node in learned.nodes[1:]])
    grid = np.linspace(-3.5, 3.5, 17)
    points = np.array(list(itertools.product(grid, grid)))
    log_p = np.array(
        [
            there.evaluate(theta, gradient=False).log_evidence + Normal().log_density(theta)[0]
            for theta in points
        ]
    )
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = p @ points
    deviation = np.sqrt(p @ (points - mean) ** 2)
    assert thetas.shape == (600, 2)
    np.testing.assert_allclose(thetas.mean(axis=0), mean, atol=0.25 * deviation.min())
    np.testing.assert_allclose(thetas.std(axis=0), deviation, rtol=0.15)
    mode = MaximiseEvidence(hyperprior=Normal()).learn(there, there.theta[None])
    np.testing.assert_allclose(learned.theta, mode.theta)
    assert learned.nodes[0].weight == 0.0
    assert "split R-hat" in learned.runs[-1].message


@pytest.mark.slow
def test_the_seed_decides_and_bounds_hold():
    pytest.importorskip("mici")
    there = problem(ConstantKernel(1.0, (0.5, 20.0)) * RBF(1.0, (0.3, 3.0)))
    few = NoUTurn(n_warm_up=10, n_draws=20, n_kept=20, n_chains=2)
    with pytest.warns(ConvergenceWarning, match="effective draws"):
        runs = [few.learn(there, there.theta[None]) for _ in range(2)]
    thetas = [np.array([node.theta for node in one.nodes]) for one in runs]
    np.testing.assert_array_equal(*thetas)
    assert np.ptp(thetas[0], axis=0).min() > 0.1
    low, high = there.bounds.T
    assert ((thetas[0] >= low) & (thetas[0] <= high)).all()


def test_the_density_does_not_depend_on_what_was_evaluated_before():
    there = problem()
    mode = MaximiseEvidence().learn(there, there.theta[None])
    around = Neighbourhood.of(there, mode, None, None)
    thetas = [around.theta(z) for z in np.random.default_rng(0).normal(size=(10, 2))]
    forth = [around.evaluate(theta) for theta in thetas]
    back = [around.evaluate(theta) for theta in reversed(thetas)]
    assert [p.value for p in forth] == [p.value for p in reversed(back)]
    np.testing.assert_array_equal([p.gradient for p in forth], [p.gradient for p in reversed(back)])


def test_short_chains_are_said():
    pytest.importorskip("mici")
    with pytest.warns(ConvergenceWarning, match="effective draws"):
        NoUTurn(n_warm_up=5, n_draws=8, n_kept=2, hyperprior=Normal()).learn(
            problem(), problem().theta[None]
        )


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_estimator_averages_as_by_ccd(n_classes):
    pytest.importorskip("mici")
    X, y = noisy_problem(30)
    codes = (y > 0) + (X[:, 1] > 0) * (n_classes - 2)
    settings = {"hyperprior": "weak", "inference": "laplace", "likelihood": "logit"}
    draws = GaussianProcessClassifier(1.0 * RBF(1.0), learning="nuts", random_state=2, **settings)
    draws.fit(X, codes)
    design = GaussianProcessClassifier(1.0 * RBF(1.0), learning="ccd", **settings).fit(X, codes)
    mode = GaussianProcessClassifier(1.0 * RBF(1.0), **settings).fit(X, codes)
    np.testing.assert_allclose(draws.kernel_.theta, mode.kernel_.theta, atol=1e-6)
    P = draws.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)
    assert np.abs(P - design.predict_proba(X)).max() < 0.03
    assert draws.loo_log_loss_ == pytest.approx(design.loo_log_loss_, abs=0.02)


def test_what_is_fixed_has_no_draws():
    pytest.importorskip("mici")
    there = problem(ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed"))
    assert len(NoUTurn().learn(there, there.theta[None]).nodes) == 1
