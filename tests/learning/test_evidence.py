"""Learning by the evidence: what the optimiser does, run by run."""

import functools

import joblib
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import kstest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    Matern,
    WhiteKernel,
)
from threadpoolctl import threadpool_info, threadpool_limits

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference import Laplace
from gpclass.learning import BinaryProblem, KeepFixed, MaximiseEvidence, draw_starts
from gpclass.likelihoods import Logit, Probit


def make_problem(kernel, n=60, seed=0, noise=0.5, likelihood=None, second=0.0):
    """Two columns; the second says nothing unless ``second`` is positive."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    latent = np.sin(2 * X[:, 0]) + second * np.cos(2 * X[:, 1])
    y = np.where(latent + noise * rng.standard_normal(n) > 0, 1.0, -1.0)
    return BinaryProblem(kernel, X, y, likelihood or Logit(), Laplace())


def starts_of(problem, n_restarts=0, seed=0):
    return draw_starts(problem, n_restarts, np.random.RandomState(seed))


class Spy:
    """Inference that writes down every evidence that it returns."""

    def __init__(self):
        self.seen = []

    def __call__(self, prior, y, likelihood, *, weights=None, init=None):
        result = Laplace()(prior, y, likelihood, weights=weights, init=init)
        self.seen.append(result.log_evidence)
        return result


class Fragile(ConstantKernel):
    """A constant that cannot be evaluated above 3."""

    def __init__(self, constant_value=1.0, constant_value_bounds=(1e-2, 1e3), how="infinite"):
        super().__init__(constant_value, constant_value_bounds)
        self.how = how

    def __call__(self, X, Y=None, eval_gradient=False):
        value = super().__call__(X, Y, eval_gradient)
        if self.constant_value < 3:
            return value
        if self.how == "infinite":
            return (value[0] * np.inf, value[1]) if eval_gradient else value * np.inf
        if self.how == "indefinite":
            return (-10 * value[0], value[1]) if eval_gradient else -10 * value
        if self.how == "FloatingPointError":
            raise FloatingPointError("underflow in the user's kernel")
        raise OverflowError("overflow in the user's kernel")


FAILURES = ["infinite", "indefinite", "FloatingPointError", "OverflowError"]


# ------------------------------------------------------------------ starts


def test_the_first_start_is_the_kernels_own():
    problem = make_problem(2.0 * RBF([0.5, 3.0]))
    starts = starts_of(problem, 3)
    assert starts.shape == (4, 3)
    np.testing.assert_array_equal(starts[0], problem.theta)


def test_starts_are_uniform_in_the_logarithms():
    """scikit-learn takes the exponential of a draw that is a logarithm already."""
    kernel = ConstantKernel(1.0, (1e-3, 1e5)) * RBF(1.0, (1e-5, 1e2)) + WhiteKernel()
    problem = make_problem(kernel)
    draws = starts_of(problem, 4000)[1:]
    low, high = problem.bounds.T
    assert (draws >= low).all()
    assert (draws <= high).all()
    unit = (draws - low) / (high - low)
    for column in unit.T:
        assert kstest(column, "uniform").pvalue > 1e-3
    np.testing.assert_allclose(np.corrcoef(unit.T), np.eye(3), atol=0.06)
    # as many below 1 as the bounds say
    assert (draws[:, 0] < 0).mean() == pytest.approx(3 / 8, abs=0.03)


def test_starts_are_reproducible_and_more_of_them_have_the_same_prefix():
    problem = make_problem(1.0 * RBF([1.0, 1.0]))
    np.testing.assert_array_equal(starts_of(problem, 7)[:4], starts_of(problem, 3))
    assert not np.array_equal(starts_of(problem, 3)[1:], starts_of(problem, 3, seed=1)[1:])


def test_no_restart_draws_nothing():
    random_state = np.random.RandomState(0)
    draw_starts(make_problem(1.0 * RBF()), 0, random_state)
    assert random_state.uniform() == np.random.RandomState(0).uniform()


@pytest.mark.parametrize("bounds", [(1e-3, np.inf), (1e-3, 1e400)])
def test_infinite_bounds_cannot_be_drawn_from(bounds):
    problem = make_problem(ConstantKernel(1.0, bounds) * RBF())
    with pytest.raises(ValueError, match=r"n_restarts_optimizer > 0 .* bounds must be finite"):
        starts_of(problem, 1)
    # but can be learnt within
    learned = MaximiseEvidence().learn(problem, starts_of(problem))
    assert np.isfinite(learned.log_evidence)


def test_a_kernel_without_hyperparameters_has_one_start():
    problem = make_problem(RBF(1.0, "fixed"))
    assert starts_of(problem, 0).shape == (1, 0)
    learned = MaximiseEvidence().learn(problem, starts_of(problem, 0))
    assert learned.theta.shape == (0,)
    assert learned.runs == ()
    assert learned.log_evidence == problem.evaluate(problem.theta).log_evidence


# ----------------------------------------------------------------- L-BFGS-B


@pytest.mark.parametrize("likelihood", [Logit(), Probit()], ids=lambda x: x.name)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "kernel",
    [1.0 * RBF(1.0), 1.0 * RBF([1.0, 1.0]), 1.0 * Matern(1.0, nu=1.5)],
    ids=["rbf", "ard", "matern"],
)
def test_an_interior_maximum_has_no_gradient(kernel, seed, likelihood):
    problem = make_problem(kernel, seed=seed, likelihood=likelihood, n=80, second=1.0)
    learned = MaximiseEvidence().learn(problem, starts_of(problem))
    (run,) = learned.runs
    free = np.setdiff1d(np.arange(len(learned.theta)), run.at_bounds)
    gradient = problem.evaluate(learned.theta).gradient
    assert len(free)
    assert np.abs(gradient[free]).max() <= 1e-7


def test_no_other_optimiser_finds_better_from_there():
    problem = make_problem(1.0 * RBF([1.0, 1.0]))
    learned = MaximiseEvidence().learn(problem, starts_of(problem))
    other = minimize(
        lambda theta: -problem.evaluate(theta, gradient=False).log_evidence,
        learned.theta + 0.1,
        method="Nelder-Mead",
        options={"maxiter": 200},
    )
    assert -other.fun <= learned.log_evidence + 1e-9


@pytest.mark.parametrize("kernel", [1.0 * RBF(1.0), 1.0 * RBF([1.0, 1.0])], ids=["rbf", "ard"])
def test_the_first_step_is_short(kernel, monkeypatch):
    # L-BFGS-B's own is as long as the gradient where all is bounded, and leads into a corner
    problem = make_problem(kernel, n=200)
    assert np.linalg.norm(problem.evaluate(problem.theta).gradient) > 10.0
    thetas = []
    original = BinaryProblem.at

    def at(self, theta):
        thetas.append(np.array(theta))
        return original(self, theta)

    monkeypatch.setattr(BinaryProblem, "at", at)
    MaximiseEvidence().learn(problem, starts_of(problem))
    np.testing.assert_array_equal(thetas[0], problem.theta)
    assert 0.25 < np.linalg.norm(thetas[1] - thetas[0]) <= 2.0


def test_every_evaluation_lies_within_the_bounds():
    kernel = ConstantKernel(1.0, (0.5, 2.0)) * RBF([1.0, 1.0], (0.9, 1.5))
    problem = make_problem(kernel, noise=0.1)
    asked = []

    class Watched(Spy):
        def __call__(self, prior, y, likelihood, **options):
            asked.append(prior.description)
            return super().__call__(prior, y, likelihood, **options)

    object.__setattr__(problem, "inference", Watched())
    original = BinaryProblem.at
    thetas = []

    def at(self, theta):
        thetas.append(np.array(theta))
        return original(self, theta)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BinaryProblem, "at", at)
        learned = MaximiseEvidence().learn(problem, starts_of(problem, 2))
    low, high = problem.bounds.T
    assert len(thetas) == len(asked) >= 6
    for theta in thetas:
        assert (theta >= low - 1e-12).all()
        assert (theta <= high + 1e-12).all()
    assert learned.runs[0].at_bounds
    for run in learned.runs:
        on_bound = np.isclose(run.end[:, None], problem.bounds).any(axis=1)
        assert tuple(np.flatnonzero(on_bound)) == run.at_bounds


@pytest.mark.slow
@pytest.mark.parametrize("n_restarts", [0, 3])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "kernel",
    [
        ConstantKernel(1.0, (1e-3, 1e4)) * RBF(1.0, (1e-2, 1e2)) + WhiteKernel(),
        # the second column says nothing, so the evidence is flat in its length-scale
        1.0 * RBF([1.0, 1.0]),
    ],
    ids=["noise", "flat"],
)
def test_the_best_value_ever_seen_is_kept(kernel, seed, n_restarts):
    spy = Spy()
    problem = make_problem(kernel, seed=seed)
    watched = BinaryProblem(problem.kernel, problem.X, problem.y, problem.likelihood, spy)
    learned = MaximiseEvidence().learn(watched, starts_of(problem, n_restarts))
    assert learned.log_evidence == pytest.approx(max(spy.seen), abs=1e-10)
    traces = np.concatenate([run.trace for run in learned.runs])
    assert learned.log_evidence == pytest.approx(np.nanmax(traces), abs=1e-10)
    assert max(run.log_evidence for run in learned.runs) == pytest.approx(
        learned.log_evidence, abs=1e-10
    )


def test_the_report_of_a_run():
    spy = Spy()
    problem = make_problem(1.0 * RBF(1.0))
    watched = BinaryProblem(problem.kernel, problem.X, problem.y, problem.likelihood, spy)
    starts = starts_of(problem, 2)
    learned = MaximiseEvidence().learn(watched, starts)
    assert len(learned.runs) == 3
    # one more evaluation refines the sites
    assert sum(run.n_evaluations for run in learned.runs) == len(spy.seen) - 1
    for start, run in zip(starts, learned.runs, strict=True):
        np.testing.assert_array_equal(run.start, start)
        assert run.n_evaluations == len(run.trace)
        assert run.n_rejected == 0
        assert run.message
        at_end = problem.evaluate(run.end, gradient=False).log_evidence
        assert run.log_evidence == pytest.approx(at_end, abs=1e-9)
        at_start = problem.evaluate(run.start, gradient=False).log_evidence
        assert run.trace[0] == pytest.approx(at_start, abs=1e-9)
        assert run.log_evidence >= at_start
        # the trace belongs to the path
        assert run.path.shape == (run.n_evaluations, len(start))
        np.testing.assert_allclose(run.path[0], start, atol=1e-12)
        for theta, seen in list(zip(run.path, run.trace, strict=True))[::3]:
            found = problem.evaluate(theta, gradient=False).log_evidence
            assert seen == pytest.approx(found, abs=1e-6)


def test_each_evaluation_starts_from_the_last_sites():
    problem = make_problem(1.0 * RBF(1.0))
    inits = []

    def method(prior, y, likelihood, *, weights=None, init=None):
        inits.append(init)
        return Laplace()(prior, y, likelihood, weights=weights, init=init)

    watched = BinaryProblem(problem.kernel, problem.X, problem.y, problem.likelihood, method)
    MaximiseEvidence().learn(watched, starts_of(problem))
    assert inits[0] is None
    assert all(init is not None for init in inits[1:])


def test_evaluating_is_a_pure_function():
    problem = make_problem(1.0 * RBF([1.0, 1.0]))
    theta = problem.theta + 0.3
    before = problem.theta
    first = problem.evaluate(theta)
    problem.evaluate(theta + 1.0)
    second = problem.evaluate(theta)
    assert first.log_evidence == second.log_evidence
    assert first.gradient.tobytes() == second.gradient.tobytes()
    np.testing.assert_array_equal(problem.theta, before)
    warm = problem.evaluate(theta, init=problem.evaluate(theta + 0.2).approximation)
    assert warm.log_evidence == pytest.approx(first.log_evidence, abs=1e-10)
    np.testing.assert_allclose(warm.gradient, first.gradient, atol=1e-9)
    assert problem.evaluate(theta, gradient=False).gradient is None


# ------------------------------------------------------------------- n_jobs


def bits(learned):
    return (
        learned.theta.tobytes(),
        np.float64(learned.log_evidence).tobytes(),
        learned.best.sites.nu.tobytes(),
        learned.best.sites.tau.tobytes(),
        tuple(np.array(run.trace).tobytes() for run in learned.runs),
        tuple(run.end.tobytes() for run in learned.runs),
    )


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture
def threads():
    """Numbers of BLAS threads, put back for the tests that follow."""
    before = blas_threads()
    yield before
    threadpool_limits(limits=max(before, default=1), user_api="blas")


@pytest.mark.slow
def test_the_bits_do_not_depend_on_n_jobs(threads):
    # so large that BLAS would use several threads
    problem = make_problem(1.0 * RBF([1.0, 1.0]), n=300)
    starts = starts_of(problem, 3)
    learn = functools.partial(MaximiseEvidence().learn, problem, starts)
    expected = bits(learn(n_jobs=1))
    for n_jobs in (None, 2, -1):
        assert bits(learn(n_jobs=n_jobs)) == expected, n_jobs
    for backend in ("loky", "threading", "threading"):
        with joblib.parallel_config(backend, n_jobs=2):
            assert bits(learn()) == expected, backend
        assert blas_threads() == threads, backend


@pytest.mark.slow
def test_threads_leave_the_number_of_blas_threads_alone(threads):
    problem = make_problem(1.0 * RBF(1.0))
    for _ in range(5):
        with joblib.parallel_config("threading", n_jobs=2):
            MaximiseEvidence().learn(problem, starts_of(problem, 3))
        assert blas_threads() == threads


@pytest.mark.slow
def test_processes_of_multiprocessing_serve_too():
    problem = make_problem(1.0 * RBF(1.0))
    starts = starts_of(problem, 1)
    expected = bits(MaximiseEvidence().learn(problem, starts))
    with joblib.parallel_config("multiprocessing", n_jobs=2):
        assert bits(MaximiseEvidence().learn(problem, starts)) == expected


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_progress_is_reported(n_jobs):
    problem = make_problem(1.0 * RBF(1.0))
    seen = []
    learned = MaximiseEvidence().learn(
        problem,
        starts_of(problem, 1),
        n_jobs=n_jobs,
        progress=lambda value, theta=None: seen.append(value),
    )
    if n_jobs == 1:
        assert seen == [value for run in learned.runs for value in run.trace]
    else:
        assert seen == [run.log_evidence for run in learned.runs]


# ----------------------------------------------------------------- failures


@pytest.mark.parametrize("how", FAILURES)
def test_an_evaluation_that_fails_is_a_rejected_step(how):
    """The evidence rises all the way to the edge beyond which the kernel fails."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 1))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    kernel = Fragile(how=how) * RBF(1.0, "fixed")
    problem = BinaryProblem(kernel, X, y, Logit(), Laplace())
    assert problem.evaluate(np.log([2.9])).gradient[0] > 0.1
    learned = MaximiseEvidence().learn(problem, starts_of(problem))
    (run,) = learned.runs
    assert run.n_rejected >= 1
    assert run.n_rejected == np.isnan(run.trace).sum()
    assert np.exp(learned.theta[0]) < 3
    assert learned.log_evidence > problem.evaluate(problem.theta).log_evidence
    assert learned.log_evidence == pytest.approx(np.nanmax(run.trace), abs=1e-9)


@pytest.mark.parametrize("how", FAILURES)
@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_start_that_fails_does_not_stop_the_others(how, n_jobs):
    problem = make_problem(Fragile(how=how) * RBF(1.0, "fixed"))
    starts = np.log([[5.0], [1.0], [9.0]])
    learned = MaximiseEvidence().learn(problem, starts, n_jobs=n_jobs)
    failed, good, _ = learned.runs
    assert np.isnan(failed.log_evidence)
    assert failed.n_rejected == failed.n_evaluations >= 1
    assert failed.message == "no evaluation of the evidence succeeded"
    np.testing.assert_array_equal(failed.end, failed.start)
    np.testing.assert_array_equal(learned.theta, good.end)


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ("infinite", NotPositiveDefiniteError, "NaN or infinity"),
        ("indefinite", NotPositiveDefiniteError, "not positive semi-definite"),
        ("FloatingPointError", FloatingPointError, "in the user's kernel"),
        ("OverflowError", OverflowError, "in the user's kernel"),
    ],
)
def test_where_every_start_fails_the_kernels_own_error_is_raised(how, error, words):
    problem = make_problem(Fragile(5.0, how=how) * RBF(1.0, "fixed"))
    for starts in (np.log([[5.0]]), np.log([[5.0], [9.0]])):
        with pytest.raises(error, match=words):
            MaximiseEvidence().learn(problem, starts)


def test_an_error_of_the_kernel_that_is_no_failure_is_raised():
    class Broken(RBF):
        def __call__(self, X, Y=None, eval_gradient=False):
            raise KeyError("a mistake in the user's kernel")

    problem = make_problem(Broken())
    with pytest.raises(KeyError, match="a mistake"):
        MaximiseEvidence().learn(problem, starts_of(problem))


@pytest.mark.parametrize(
    "kernel",
    [
        ConstantKernel(1.0, (1e-3, 1e308)) * DotProduct(1.0, "fixed"),
        ConstantKernel(1e306, (1e-3, 1e308)) * DotProduct(1.0, "fixed"),
        Exponentiation(DotProduct(1.0, (1e-3, 1e5)), 60),
        RBF(1.0, (1e-300, 1e300)),
    ],
    ids=["constant", "constant near the end", "power", "length-scale"],
)
def test_kernels_that_overflow_within_their_bounds(kernel):
    rng = np.random.default_rng(0)
    X = 30 * rng.standard_normal((40, 2))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    problem = BinaryProblem(kernel, X, y, Logit(), Laplace())
    starts = np.vstack([starts_of(problem, 2), problem.bounds.T])
    learned = MaximiseEvidence().learn(problem, starts)
    assert np.isfinite(learned.log_evidence)
    assert np.isfinite(learned.theta).all()


# --------------------------------------------------------- a user's optimizer


def test_a_users_optimizer_is_called_as_in_scikit_learn():
    problem = make_problem(1.0 * RBF([1.0, 1.0]))
    calls = []

    def optimizer(obj_func, initial_theta, bounds):
        value, gradient = obj_func(initial_theta, eval_gradient=True)
        assert obj_func(initial_theta, eval_gradient=False) == pytest.approx(value, abs=1e-9)
        assert np.shape(value) == ()
        default = obj_func(initial_theta)
        assert default[0] == pytest.approx(value, abs=1e-9)
        np.testing.assert_allclose(default[1], gradient, atol=1e-8)
        calls.append((np.array(initial_theta), np.array(bounds), value, gradient))
        return initial_theta + 0.1, value

    learned = MaximiseEvidence(optimizer).learn(problem, starts_of(problem, 1))
    assert len(calls) == 2
    theta, bounds, value, gradient = calls[0]
    np.testing.assert_array_equal(theta, problem.theta)
    np.testing.assert_array_equal(bounds, problem.bounds)
    truth = problem.evaluate(theta)
    assert value == pytest.approx(-truth.log_evidence, abs=1e-9)
    np.testing.assert_allclose(gradient, -truth.gradient, atol=1e-8)
    ends = [start + 0.1 for start, *_ in calls]
    evidences = [problem.evaluate(end).log_evidence for end in ends]
    np.testing.assert_array_equal(learned.theta, ends[int(np.argmax(evidences))])
    assert learned.log_evidence == pytest.approx(max(evidences), abs=1e-9)


def test_a_users_optimizer_may_be_scipys_and_agrees_with_ours():
    def optimizer(obj_func, initial_theta, bounds):
        found = minimize(obj_func, initial_theta, jac=True, bounds=bounds, method="TNC")
        return found.x, found.fun

    problem = make_problem(1.0 * RBF(1.0))
    ours = MaximiseEvidence().learn(problem, starts_of(problem))
    theirs = MaximiseEvidence(optimizer).learn(problem, starts_of(problem))
    np.testing.assert_allclose(theirs.theta, ours.theta, atol=1e-3)
    assert theirs.log_evidence <= ours.log_evidence + 1e-9


def test_a_users_optimizer_sees_failures_as_bad_values():
    problem = make_problem(Fragile() * RBF(1.0, "fixed"))
    seen = []

    def optimizer(obj_func, initial_theta, bounds):
        thetas = (initial_theta, np.log([5.0]))
        seen.extend((obj_func(theta, eval_gradient=False), obj_func(theta)) for theta in thetas)
        return initial_theta, seen[0][0]

    MaximiseEvidence(optimizer).learn(problem, starts_of(problem))
    (good, _), (bad, (bad_again, gradient)) = seen
    assert np.isfinite(bad)
    assert bad > good
    assert bad_again > good
    np.testing.assert_array_equal(gradient, [0.0])


def test_unknown_optimizers_are_named():
    with pytest.raises(ValueError, match="optimizer must be 'fmin_l_bfgs_b', a callable or None"):
        MaximiseEvidence("newton")


# ----------------------------------------------------------------- KeepFixed


def test_keep_fixed_evaluates_once():
    spy = Spy()
    problem = make_problem(1.0 * RBF(1.0))
    watched = BinaryProblem(problem.kernel, problem.X, problem.y, problem.likelihood, spy)
    learned = KeepFixed().learn(watched, starts_of(problem))
    np.testing.assert_array_equal(learned.theta, problem.theta)
    assert len(spy.seen) == 1
    assert learned.runs == ()


def test_init_shortens_the_first_inference():
    problem = make_problem(10.0 * RBF(1.0))
    cold = KeepFixed().learn(problem, starts_of(problem))
    warm = KeepFixed().learn(problem, starts_of(problem), init=cold.best.sites)
    assert cold.best.n_iter > 2
    assert warm.best.n_iter <= 1
    assert warm.log_evidence == pytest.approx(cold.log_evidence, abs=1e-10)
