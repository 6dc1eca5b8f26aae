"""Solvers that end at one fixed point: parallel, sequential, double loop, damped steps."""

import numpy as np
import pytest

from gpclass.inference import EP, Outcome, PosteriorLinearisation
from gpclass.inference.cavities import Copies
from gpclass.inference.ep import EPRule
from gpclass.inference.linearisation import LinearisationRule
from gpclass.inference.sites import Sites
from gpclass.inference.solvers.double_loop import DoubleLoop
from gpclass.inference.solvers.natural_steps import NaturalSteps
from gpclass.inference.solvers.sequential import SequentialSweeps
from gpclass.inference.solvers.variances import VarianceIteration
from gpclass.inference.variational import VariationalRule
from gpclass.likelihoods import Logit, NoisyThreshold, Probit
from gpclass.priors import DensePrior
from helpers import noisy_problem, pairs, rbf

ROWS = SequentialSweeps.block
SMOOTH = pytest.mark.parametrize("likelihood", [Logit(), Probit()], ids=repr)
ALL = [Logit(), Probit(), NoisyThreshold(0.05), NoisyThreshold(0.2), NoisyThreshold(0.4)]


def same(a, b, atol=1e-7):
    assert a.converged, a.outcome
    assert b.converged, b.outcome
    assert a.log_evidence == pytest.approx(b.log_evidence, abs=atol)
    np.testing.assert_allclose(a.posterior.mean, b.posterior.mean, atol=atol)
    np.testing.assert_allclose(
        a.posterior.with_covariance().variance, b.posterior.with_covariance().variance, atol=atol
    )


@pytest.mark.parametrize(
    ("likelihood", "signal", "seed"),
    pairs([*ALL, NoisyThreshold(0.0)], [0.3, 1.0, 5.0], range(3)),
)
def test_ep_ends_at_one_fixed_point_by_both_schedules(likelihood, signal, seed):
    X, y = noisy_problem(20, seed)
    K = rbf(X, signal) + 0.01 * signal**2 * np.eye(20)
    same(EP()(K, y, likelihood), EP("sequential")(K, y, likelihood))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("likelihood", "signal", "seed"), pairs(ALL[:2] + ALL[3:], [0.3, 1.0, 5.0], range(3))
)
def test_linearisation_ends_at_one_fixed_point_by_both_schedules(likelihood, signal, seed):
    X, y = noisy_problem(20, seed)
    K = rbf(X, signal) + 0.5 * signal**2 * np.eye(20)
    same(
        PosteriorLinearisation()(K, y, likelihood),
        PosteriorLinearisation("sequential")(K, y, likelihood),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "likelihood", "method"),
    pairs(
        [ROWS, ROWS + 1, 2 * ROWS + 17],
        [Logit(), Probit(), NoisyThreshold(0.2)],
        [EP, PosteriorLinearisation],
    ),
)
def test_blocks_do_not_show(n, likelihood, method):
    X, y = noisy_problem(n)
    weights = np.random.default_rng(2).choice([0.0, 0.5, 1.0, 2.0], n)
    K = rbf(X, 2.0) + np.eye(n)
    same(
        method()(K, y, likelihood, weights=weights),
        method("sequential")(K, y, likelihood, weights=weights),
    )


def ends(rule, solvers, n=25, signal=3.0, likelihood=None, weights=None):
    X, y = noisy_problem(n)
    prior = DensePrior(rbf(X, signal) + 1e-3 * np.eye(n))
    weights = np.ones(n) if weights is None else weights
    found = rule(prior, Copies(likelihood, y, weights, np.zeros(n)))
    return [solver(found).run(Sites.zero(n)) for solver in solvers]


def plain(rule):
    return VarianceIteration(rule, 1e-9, 100)


def sequential(rule):
    return SequentialSweeps(rule, 1e-9, 100)


def damped(rule):
    return NaturalSteps(rule, 1e-9, 500, Outcome.DAMPED)


def double_loop(rule):
    # on its own it needs some hundreds of factorisations under large signal variances
    return DoubleLoop(rule, 1e-9, 300)


def same_sites(ends):
    first = ends[0].sweep.posterior.sites
    for end in ends:
        assert end.outcome.converged, end.outcome
        assert end.sweep.residual <= 1e-9
        np.testing.assert_allclose(end.sweep.posterior.sites.nu, first.nu, atol=1e-7)
        np.testing.assert_allclose(end.sweep.posterior.sites.tau, first.tau, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signal", "likelihood", "weighted"), pairs([0.3, 3.0, 8.0], [Logit(), Probit()], [False, True])
)
def test_four_solvers_end_at_the_fixed_point_of_ep(signal, likelihood, weighted):
    weights = np.random.default_rng(1).uniform(0.2, 2.5, 25) if weighted else None
    solvers = (plain, sequential, damped, double_loop)
    found = ends(EPRule, solvers, signal=signal, likelihood=likelihood, weights=weights)
    same_sites(found)
    assert [end.outcome for end in found] == [
        Outcome.CONVERGED,
        Outcome.CONVERGED,
        Outcome.DAMPED,
        Outcome.DOUBLE_LOOP,
    ]


@pytest.mark.parametrize(
    ("rule", "likelihood", "signal"),
    pairs([EPRule, LinearisationRule, VariationalRule], [Logit(), Probit()], [0.3, 3.0]),
)
def test_damped_steps_end_where_the_plain_iteration_does(rule, likelihood, signal):
    same_sites(ends(rule, (plain, damped), signal=signal, likelihood=likelihood))


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.05, 0.2, 0.4])
def test_the_double_loop_needs_no_log_concavity(epsilon):
    solvers = (double_loop, sequential)
    same_sites(ends(EPRule, solvers, signal=1.0, likelihood=NoisyThreshold(epsilon)))


@SMOOTH
def test_steps_of_variational_inference_raise_the_bound(likelihood):
    X, y = noisy_problem(25)
    prior = DensePrior(rbf(X, 10.0))
    rule = VariationalRule(prior, Copies(likelihood, y, np.ones(25), np.zeros(25)))
    sites, height = Sites.zero(25), -np.inf
    for _ in range(15):
        sweep = NaturalSteps(rule, 1e-9, 1, Outcome.DAMPED).run(sites).sweep
        reached = rule.sweep(sweep.posterior).objective
        assert reached >= height - 1e-10
        sites, height = sweep.posterior.sites, reached


@pytest.mark.parametrize("solver", [plain, sequential, damped, double_loop])
def test_starting_at_the_end_takes_next_to_nothing(solver):
    X, y = noisy_problem(25)
    prior = DensePrior(rbf(X, 3.0))
    rule = EPRule(prior, Copies(Probit(), y, np.ones(25), np.zeros(25)))
    end = solver(rule).run(EP(tol=1e-11)(prior, y, Probit()).sites)
    assert end.outcome.converged
    assert end.n_factorisations <= 2


@pytest.mark.parametrize("schedule", ["parallel", "sequential"])
@pytest.mark.parametrize("method", [EP, PosteriorLinearisation])
def test_the_iteration_limit_is_reported(method, schedule):
    X, y = noisy_problem(30)
    q = method(schedule, max_iter=1)(rbf(X, 20.0), y, Probit())
    assert not q.converged
    assert q.outcome is Outcome.MAX_ITER
    assert np.isfinite(q.log_evidence)
