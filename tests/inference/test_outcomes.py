"""How hostile problems end: finite numbers, an outcome that says why, and within few sweeps."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from gpclass import GaussianProcessClassifier
from gpclass.exceptions import ConvergenceWarning
from gpclass.inference import EP, Outcome, PosteriorLinearisation, Variational
from gpclass.inference.approximation import LARGEST_EVIDENCE
from gpclass.likelihoods import Logit, NoisyThreshold, Probit
from helpers import noisy_problem, rbf


def twins(n, seed=0):
    """Rows in pairs at one place, with opposite labels."""
    X, y = noisy_problem(n, seed)
    X[n // 2 :], y[n // 2 :] = X[: n // 2], -y[: n // 2]
    return X, y


def assert_finite(q):
    assert np.isfinite(q.log_evidence)
    assert np.isfinite(q.posterior.mean).all()
    assert np.isfinite(q.posterior.with_covariance().variance).all()
    assert np.isfinite(q.evidence_pullback()).all()
    assert np.isfinite(q.likelihood_gradient()).all()


@pytest.mark.parametrize("epsilon", [1e-3, 0.05])
@pytest.mark.parametrize("signal", [1.0, 30.0])
def test_a_collapsed_posterior_has_finite_gradients(epsilon, signal):
    # no fixed point: the variance of opposite twins shrinks at every step, to zero
    X, y = twins(8)
    q = PosteriorLinearisation()(rbf(X, signal), y, NoisyThreshold(epsilon))
    assert_finite(q)
    assert not q.converged


@pytest.mark.slow
def test_an_evidence_above_zero_is_never_a_solution():
    for seed in range(4):
        X, y = twins(8, seed)
        for signal in (0.3, 3.0, 100.0):
            for epsilon in (0.0, 1e-3, 0.05):
                q = PosteriorLinearisation()(rbf(X, signal), y, NoisyThreshold(epsilon))
                assert q.log_evidence <= LARGEST_EVIDENCE or not q.converged


def test_a_likelihood_that_is_not_log_concave_may_have_several_fixed_points():
    X, y = noisy_problem(10)
    q = EP()(rbf(X), y, NoisyThreshold(0.1))
    assert q.outcome is Outcome.ONE_OF_SEVERAL
    assert q.converged
    assert "several" in q.outcome.value
    assert EP()(rbf(X), y, Probit()).outcome is Outcome.CONVERGED


@pytest.mark.parametrize("epsilon", [1e-3, 0.05])
def test_variational_sites_without_a_cavity_have_an_outcome(epsilon):
    for seed in range(3):
        X, y = twins(10, seed)
        for signal in (1.0, 30.0, 1e3):
            q = Variational("ep")(rbf(X, signal), y, NoisyThreshold(epsilon))
            assert_finite(q)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "likelihood"),
    [
        (EP(), NoisyThreshold(0.3)),
        (EP("sequential"), NoisyThreshold(0.05)),
        (EP("sequential"), Logit()),
        (PosteriorLinearisation("sequential"), Probit()),
        (PosteriorLinearisation("sequential"), NoisyThreshold(0.05)),
    ],
    ids=repr,
)
def test_hostile_problems_end_within_few_sweeps(method, likelihood):
    for signal in (10.0, 1e3):
        X, y = twins(10)
        q = method(rbf(X, signal), y, likelihood, weights=np.linspace(0.3, 2.5, 10))
        assert_finite(q)
        assert q.n_iter <= (1 + method.fallback) * method.max_iter
        assert q.n_factorisations <= 4 * (1 + method.fallback) * method.max_iter


@pytest.mark.slow
def test_a_collapse_is_not_chosen_as_the_best_of_a_fit():
    X, y = twins(8)
    model = GaussianProcessClassifier(
        1.0 * RBF(1.0), likelihood=NoisyThreshold(1e-3), inference="pl", n_restarts_optimizer=1
    )
    for seed in range(4):
        with pytest.warns(ConvergenceWarning, match="no proper fixed point|above zero"):
            model.set_params(random_state=seed).fit(X, y)
        value = model.log_marginal_likelihood_value_
        assert np.isnan(value) or value <= LARGEST_EVIDENCE
        assert not model.converged_
