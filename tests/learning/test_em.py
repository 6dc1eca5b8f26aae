"""Learning by EM: its objective, that it rises, and that it ends where the evidence does."""

import os

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

from gpclass.app.datasets import load_dataset
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference import EP, Laplace, PosteriorLinearisation, TangentBound, Variational
from gpclass.learning import (
    BinaryProblem,
    ExpectationMaximisation,
    MaximiseEvidence,
    draw_starts,
)
from gpclass.learning.surrogate import Surrogate
from gpclass.likelihoods import Logit, NoisyThreshold, Probit

# By KG06's Theorem 1, extended to the likelihood, F has the gradient of the evidence without c.
EXACT = [
    (EP(), Probit()),
    (EP(), Logit()),
    (EP(), NoisyThreshold(0.1)),
    (Variational(), Probit()),
    (Variational(), Logit()),
    (TangentBound(), Logit()),
]
CORRECTED = [
    (Laplace(), Probit()),
    (Laplace(), Logit()),
    (PosteriorLinearisation(), Probit()),
    (PosteriorLinearisation(), NoisyThreshold(0.1)),
    (Variational(), NoisyThreshold(0.1)),
    (Variational(evidence="ep"), Logit()),
    (TangentBound("upper"), Logit()),
]


def name(value):
    return getattr(value, "name", None) or type(value).__name__


def make_problem(inference, likelihood, n=40, seed=1, kernel=None, noise=0.5, weights=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    latent = np.sin(2 * X[:, 0]) + np.cos(2 * X[:, 1])
    y = np.where(latent + noise * rng.standard_normal(n) > 0, 1.0, -1.0)
    kernel = 2.0 * RBF([1.0, 2.0]) if kernel is None else kernel
    return BinaryProblem(kernel, X, y, likelihood, inference, weights=weights)


def central(F, theta, h=1e-4):
    """Central differences of fourth order."""
    near, far = (
        np.array([F(theta + t * e)[0] - F(theta - t * e)[0] for e in np.eye(len(theta))])
        for t in (h, 2 * h)
    )
    return (8 * near - far) / (12 * h)


def starts_of(problem, n_restarts=0):
    return draw_starts(problem, n_restarts, np.random.RandomState(0))


def both(problem, **settings):
    starts = starts_of(problem)
    em = ExpectationMaximisation(**settings).learn(problem, starts)
    return em, MaximiseEvidence().learn(problem, starts)


def held(problem, found=None):
    """F of an E-step at the problem's own hyperparameters."""
    found = problem.evaluate(problem.theta) if found is None else found
    sites, gradient = found.approximation.sites, found.gradient
    return Surrogate.of(problem, problem.theta, sites, found.log_evidence, gradient)


# ------------------------------------------------------------- the objective


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize(("inference", "likelihood"), EXACT + CORRECTED, ids=name)
def test_the_m_step_begins_with_the_evidence_and_its_gradient(inference, likelihood, weighted):
    weights = np.random.default_rng(1).uniform(0.5, 1.0, 40) if weighted else None
    problem = make_problem(inference, likelihood, weights=weights)
    found = problem.evaluate(problem.theta)
    assert found.approximation.converged
    value, gradient = held(problem, found)(problem.theta)
    assert value == pytest.approx(found.log_evidence, abs=1e-9)
    np.testing.assert_allclose(gradient, found.gradient, atol=1e-9)


@pytest.mark.parametrize(("inference", "likelihood"), EXACT, ids=name)
def test_where_theorem_1_holds_nothing_is_corrected(inference, likelihood):
    np.testing.assert_allclose(held(make_problem(inference, likelihood)).tilt, 0.0, atol=1e-7)


@pytest.mark.parametrize(("inference", "likelihood"), CORRECTED, ids=name)
def test_elsewhere_it_would_not(inference, likelihood):
    """The sites of these methods are no stationary point of their evidence."""
    assert np.abs(held(make_problem(inference, likelihood)).tilt).max() > 1e-4


@pytest.mark.parametrize(("inference", "likelihood"), EXACT + CORRECTED, ids=name)
def test_the_gradient_of_the_m_step_away_from_there(inference, likelihood):
    problem = make_problem(inference, likelihood)
    F = held(problem)
    theta = problem.theta + np.linspace(0.3, -0.2, len(problem.theta))
    np.testing.assert_allclose(F(theta)[1], central(F, theta), atol=1e-6)


@pytest.mark.parametrize("name", ["nested", "softmax", "differences"])
def test_the_m_step_of_a_joint_model(name, joint_problem):
    problem = joint_problem(name)
    found = problem.evaluate(problem.theta)
    F = held(problem, found)
    value, gradient = F(problem.theta)
    assert value == pytest.approx(found.log_evidence, abs=1e-9)
    np.testing.assert_allclose(gradient, found.gradient, atol=1e-9)
    if name != "softmax":  # EP's evidence is stationary in the sites
        np.testing.assert_allclose(F.tilt, 0.0, atol=1e-6)
    theta = problem.theta + np.linspace(0.3, -0.2, len(problem.theta))
    np.testing.assert_allclose(F(theta)[1], central(F, theta), atol=1e-6)


def test_the_tangents_objective_is_a_bound_below_the_next_e_step():
    problem = make_problem(TangentBound(), Logit())
    F = held(problem)
    rng = np.random.default_rng(0)
    for _ in range(10):
        theta = np.clip(problem.theta + rng.normal(0, 0.3, len(problem.theta)), *problem.bounds.T)
        # from these sites, so that no lower maximum of the bound is found instead
        following = problem.evaluate(theta, gradient=False, init=F.sites)
        assert F(theta)[0] <= following.log_evidence + 1e-9


@pytest.mark.slow
def test_the_objective_of_a_singular_covariance():
    """Every row twice: K has no inverse, and KG06's objective does not exist."""
    single = make_problem(EP(), Probit(), n=25)
    twice = np.repeat(np.arange(25), 2)
    problem = BinaryProblem(single.kernel, single.X[twice], single.y[twice], Probit(), EP())
    assert np.linalg.matrix_rank(problem.kernel(problem.X)) < 26
    np.testing.assert_allclose(held(problem).tilt, 0.0, atol=1e-7)
    em, evidence = both(problem)
    assert em.log_evidence >= evidence.log_evidence - 1e-3


# ------------------------------------------------------------------ learning


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("inference", "likelihood"),
    [
        (EP(), Probit()),
        (EP(), Logit()),
        (Laplace(), Logit()),
        (PosteriorLinearisation(), Probit()),
        pytest.param(Variational(), Probit(), marks=pytest.mark.slow),
        (Variational(), Logit()),
        # not the upper bound: its maximum is at an infinite variance, which EM nears by small steps
        (TangentBound(), Logit()),
    ],
    ids=name,
)
def test_em_ends_where_learning_by_the_evidence_ends(inference, likelihood, seed):
    problem = make_problem(inference, likelihood, n=60, seed=seed, kernel=1.0 * RBF(1.0), noise=0.8)
    em, evidence = both(problem)
    assert em.log_evidence == pytest.approx(evidence.log_evidence, abs=1e-3)
    assert em.runs[0].message.startswith("converged")


@pytest.mark.slow
@pytest.mark.parametrize(
    "inference", [EP(), Laplace(), PosteriorLinearisation(), TangentBound("upper")], ids=name
)
def test_the_evidence_never_falls(inference):
    problem = make_problem(inference, Logit(), n=60, seed=4)
    em = ExpectationMaximisation().learn(problem, starts_of(problem))
    (run,) = em.runs
    # a step that was refused is the one exception, and the run does not end there
    assert run.log_evidence == pytest.approx(np.nanmax(run.trace), abs=1e-9)
    assert run.log_evidence == pytest.approx(
        problem.evaluate(run.end, gradient=False).log_evidence, abs=1e-9
    )


def test_no_step_of_the_bound_is_refused():
    """F is a lower bound that touches: maximising it cannot lower the next."""
    problem = make_problem(TangentBound(), Logit(), n=60)
    em = ExpectationMaximisation().learn(problem, starts_of(problem))
    assert (np.diff(em.runs[0].trace) >= -1e-9).all()


@pytest.mark.slow
def test_epsilon_is_learnt_from_flipped_labels():
    rng = np.random.default_rng(3)
    X = np.sort(rng.uniform(-3, 3, (120, 1)), axis=0)
    y = np.where(np.sin(2 * X[:, 0]) > 0, 1.0, -1.0)
    y[rng.permutation(120)[:12]] *= -1  # one in ten
    problem = BinaryProblem(5.0 * RBF(1.0), X, y, NoisyThreshold(0.05), EP())
    em, evidence = both(problem)
    epsilon = float(np.exp(em.theta[-1]))
    assert 0.06 < epsilon < 0.14
    assert em.log_evidence >= evidence.log_evidence - 1e-3


@pytest.mark.slow
def test_each_e_step_starts_from_nothing_where_there_may_be_several_fixed_points():
    inits = []

    def method(prior, y, likelihood, *, weights=None, init=None):
        inits.append(init)
        return EP()(prior, y, likelihood, weights=weights, init=init)

    for likelihood, warm in ((NoisyThreshold(0.1), False), (Probit(), True)):
        inits.clear()
        problem = make_problem(method, likelihood)
        ExpectationMaximisation(max_iter=4).learn(problem, starts_of(problem))
        assert all((init is not None) is warm for init in inits[1:-1])


def test_bounds_are_respected_and_reported():
    kernel = ConstantKernel(1.0, (0.5, 2.0)) * RBF([1.0, 1.0], (0.9, 1.5))
    problem = make_problem(EP(), Probit(), kernel=kernel, noise=0.1)
    em, evidence = both(problem)
    low, high = problem.bounds.T
    assert (em.theta >= low).all()
    assert (em.theta <= high).all()
    assert em.runs[0].at_bounds == evidence.runs[0].at_bounds != ()
    assert em.log_evidence == pytest.approx(evidence.log_evidence, abs=1e-6)


@pytest.mark.parametrize(
    "kernel", [RBF(1.0, "fixed"), RBF(1.0, (1.0, 1.0))], ids=["fixed", "equal"]
)
def test_nothing_to_learn(kernel):
    problem = make_problem(EP(), Probit(), kernel=kernel)
    em = ExpectationMaximisation().learn(problem, starts_of(problem))
    assert em.runs == ()
    assert em.log_evidence == problem.evaluate(problem.theta).log_evidence


def test_some_of_it_fixed():
    kernel = ConstantKernel(3.0, "fixed") * RBF([1.0, 1.0]) + WhiteKernel(0.1, "fixed")
    problem = make_problem(EP(), Probit(), kernel=kernel)
    em, evidence = both(problem)
    np.testing.assert_allclose(em.theta, evidence.theta, atol=1e-2)
    assert em.log_evidence == pytest.approx(evidence.log_evidence, abs=1e-6)


@pytest.mark.slow
def test_a_start_outside_the_bounds_is_moved_into_them():
    problem = make_problem(EP(), Probit(), kernel=1.0 * RBF(1.0) + DotProduct(0.0, (1e-3, 1e3)))
    em, evidence = both(problem)
    assert np.isneginf(em.runs[0].start).any()
    assert em.log_evidence == pytest.approx(evidence.log_evidence, abs=1e-3)


# ---------------------------------------------------------------- the report


@pytest.mark.slow
def test_the_report_of_a_run():
    seen = []
    problem = make_problem(EP(), Probit())
    starts = starts_of(problem, 2)
    em = ExpectationMaximisation().learn(
        problem, starts, progress=lambda value, theta=None: seen.append(value)
    )
    assert seen == [value for run in em.runs for value in run.trace]
    for start, run in zip(starts, em.runs, strict=True):
        np.testing.assert_array_equal(run.start, start)
        assert run.n_evaluations == len(run.trace)
        assert "evaluations of M-steps" in run.message
    assert em.log_evidence == pytest.approx(max(run.log_evidence for run in em.runs), abs=1e-9)


def test_max_iter_counts_e_steps():
    problem = make_problem(EP(), Probit())
    (run,) = ExpectationMaximisation(max_iter=3).learn(problem, starts_of(problem)).runs
    assert run.n_evaluations == 3
    assert run.message.startswith("stopped at 3 E-steps")


def bits(learned):
    traces = tuple(np.array(run.trace).tobytes() for run in learned.runs)
    return learned.theta.tobytes(), np.float64(learned.log_evidence).tobytes(), traces


@pytest.mark.slow
def test_the_bits_do_not_depend_on_n_jobs():
    problem = make_problem(EP(), Probit(), n=150)
    starts = starts_of(problem, 2)
    one, two = (ExpectationMaximisation().learn(problem, starts, n_jobs=n) for n in (1, 2))
    assert bits(one) == bits(two)


class Edge(ConstantKernel):
    """A constant that overflows above 3."""

    def __call__(self, X, Y=None, eval_gradient=False):
        value = super().__call__(X, Y, eval_gradient)
        if self.constant_value < 3:
            return value
        return (value[0] * np.inf, value[1]) if eval_gradient else value * np.inf


def test_steps_beyond_the_edge_are_shortened():
    X = np.random.default_rng(0).standard_normal((40, 1))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    problem = BinaryProblem(Edge(1.0, (1e-2, 1e3)) * RBF(1.0, "fixed"), X, y, Probit(), EP())
    em = ExpectationMaximisation().learn(problem, np.log([[5.0], [1.0]]))
    failed, good = em.runs
    assert failed.message == "no evaluation of the evidence succeeded"
    assert 1 < np.exp(good.end[0]) < 3
    with pytest.raises(NotPositiveDefiniteError, match="NaN or infinity"):
        ExpectationMaximisation().learn(problem, np.log([[5.0]]))


@pytest.mark.parametrize("settings", [{"max_iter": 0}, {"tol": 0.0}, {"max_m_evaluations": 1}])
def test_settings_that_cannot_work(settings):
    with pytest.raises(ValueError, match="max_iter must be at least 1"):
        ExpectationMaximisation(**settings)


# ----------------------------------------------------------------- real data


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inference", "likelihood"),
    [(EP(), Probit()), (Laplace(), Logit()), (PosteriorLinearisation(), Probit())],
    ids=name,
)
@pytest.mark.parametrize("table", ["crabs_sex", "pima_tr", "ionosphere"])
def test_real_tables(table, inference, likelihood):
    if "GPCLASS_DATA" not in os.environ:
        pytest.skip(f"GPCLASS_DATA is not set: no {table}")
    data = load_dataset(table)
    X = np.asarray(data.X, dtype=float)
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    y = np.where(data.y == np.unique(data.y)[0], -1.0, 1.0)
    kernel = 1.0 * RBF(np.sqrt(X.shape[1]))
    em, evidence = both(BinaryProblem(kernel, X, y, likelihood, inference))
    assert em.log_evidence == pytest.approx(evidence.log_evidence, abs=1e-3)
