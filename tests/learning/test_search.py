"""Where a search begins when there are many rows, and how it ends."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, ConstantKernel, Matern

from gpclass import GaussianProcessClassifier
from gpclass.inference import EP, Laplace
from gpclass.inference.joint import LatentDifferences, MultinomialProbit, Softmax
from gpclass.inference.sites import Sites
from gpclass.learning import (
    BinaryProblem,
    JointProblem,
    MaximiseEvidence,
    SearchSettings,
    weak_hyperprior,
)
from gpclass.learning.objective import Objective
from gpclass.learning.search import Stages, _tied
from gpclass.likelihoods import Logit, Probit

SCHEMES = {
    "nested": (MultinomialProbit(), Probit(), EP()),
    "softmax": (Softmax(), Logit(), Laplace()),
    "differences": (LatentDifferences(), Probit(), EP()),
}


def make_problem(name="nested", n=120, seed=0, kernel=None, weights=None, classes=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    latent = np.stack([np.sin(2 * X[:, 0] + k) + 0.5 * k * X[:, 1] for k in range(classes)], 1)
    codes = (latent + 0.5 * rng.gumbel(size=latent.shape)).argmax(axis=1)
    codes[:classes] = np.arange(classes)
    scheme, likelihood, inference = SCHEMES[name]
    kernel = ConstantKernel(1.0) * RBF(1.0) if kernel is None else kernel
    return JointProblem(kernel, X, codes, classes, scheme, likelihood, inference, weights)


# as if 40 rows were many
MANY = SearchSettings(few_rows=40, many_rows=40, subset_rows=40)
FEW = SearchSettings()


def learn(problem, settings=FEW):
    return MaximiseEvidence(settings=settings).learn(problem, problem.theta[None, :])


def test_few_rows_and_binary_problems_have_no_subset():
    assert Stages.of(make_problem(n=FEW.subset_rows - 1), FEW).subset is None
    X = np.zeros((5000, 1))
    problem = BinaryProblem(RBF(), X, np.ones(5000), Probit(), EP())
    assert Stages.of(problem, FEW).subset is None


def test_a_subset_has_rows_and_weights_of_its_own():
    weights = np.arange(1.0, 121.0)
    whole = make_problem(weights=weights)
    part = Stages.of(whole, MANY).subset
    np.testing.assert_array_equal(part.codes, whole.codes[::4])
    np.testing.assert_array_equal(part.weights, weights[::4])
    np.testing.assert_array_equal(part.inputs, whole.X[::4])


def test_a_subset_of_some_rows_is_among_them():
    whole = make_problem()
    rows = np.arange(120)[::-2]
    some = JointProblem(
        whole.kernel,
        whole.X,
        whole.codes[rows],
        3,
        whole.scheme,
        whole.likelihood,
        whole.inference,
        rows=rows,
    )
    part = some.subset(4)
    np.testing.assert_array_equal(part.inputs, whole.X[rows[::4]])
    np.testing.assert_array_equal(part.codes, whole.codes[rows[::4]])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nested", "softmax"])
def test_a_search_from_a_subset_ends_at_the_same_maximum_sooner(name):
    problem = make_problem(name, kernel=ConstantKernel(30.0) * RBF(4.0))
    alone = learn(problem)
    led = learn(problem, MANY)
    (run,) = led.runs
    assert "30 rows led" in run.message
    assert run.n_evaluations < alone.runs[0].n_evaluations
    assert led.log_evidence == pytest.approx(alone.log_evidence, abs=1e-6)
    np.testing.assert_allclose(led.theta, alone.theta, atol=1e-3)
    np.testing.assert_array_equal(run.start, problem.theta)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMES)
def test_a_search_from_near_the_maximum_ends_there(name):
    problem = make_problem(name)
    found, alone = learn(problem, MANY), learn(problem)
    assert "rows led" in found.runs[0].message
    assert "rows led" not in alone.runs[0].message
    np.testing.assert_allclose(found.theta, alone.theta, atol=1e-4)


@pytest.mark.slow
def test_a_subset_leads_out_of_a_bad_start():
    # the search alone may also end at labels that are independent of the inputs
    problem = make_problem(kernel=ConstantKernel(0.01) * RBF(20.0))
    found, alone = learn(problem, MANY), learn(problem)
    assert found.log_evidence >= alone.log_evidence - 1e-6
    assert found.runs[0].n_evaluations < 0.5 * alone.runs[0].n_evaluations


@pytest.mark.slow
def test_a_kernel_for_each_class_is_led_as_well():
    kernel = CompoundKernel([ConstantKernel(1.0) * Matern(1.0, nu=2.5) for _ in range(3)])
    problem = make_problem(n=160, kernel=kernel)
    alone = learn(problem)
    led = learn(problem, MANY)
    assert "40 rows led" in led.runs[0].message
    assert led.log_evidence >= alone.log_evidence - 1e-3


@pytest.mark.slow
def test_what_a_subset_cannot_tell_is_taken_back():
    # a column of no use but for one row in sixteen: a part of the rows sends its length-scale off
    problem = make_problem(kernel=ConstantKernel(1.0) * RBF([1.0, 1.0]))
    X = problem.X.copy()
    X[:, 1] = 0.0
    dull = JointProblem(
        problem.kernel,
        X,
        problem.codes,
        3,
        problem.scheme,
        problem.likelihood,
        problem.inference,
    )
    found = learn(dull, MANY)
    assert found.theta[2] == pytest.approx(dull.theta[2], abs=4.0)
    assert np.isfinite(found.log_evidence)


def test_a_subset_that_leads_nowhere_is_left_alone(monkeypatch):
    problem = make_problem()
    alone_at = []
    evaluate = JointProblem.evaluate

    def fails_on_few(self, theta, **keywords):
        if len(self.codes) < 100:
            raise np.linalg.LinAlgError("no")
        alone_at.append(np.array(theta))
        return evaluate(self, theta, **keywords)

    monkeypatch.setattr(JointProblem, "evaluate", fails_on_few)
    found = learn(problem, MANY)
    assert "rows led" not in found.runs[0].message
    np.testing.assert_array_equal(alone_at[0], problem.theta)


def test_where_a_subset_leads_may_fail_with_all_rows(monkeypatch):
    problem = make_problem()
    evaluate = JointProblem.evaluate

    def fails_elsewhere(self, theta, **keywords):
        if len(self.codes) > 100 and not self.seen and not np.array_equal(theta, problem.theta):
            raise np.linalg.LinAlgError("no")
        if len(self.codes) > 100:
            type(self).seen = True
        return evaluate(self, theta, **keywords)

    monkeypatch.setattr(JointProblem, "seen", False, raising=False)
    monkeypatch.setattr(JointProblem, "evaluate", fails_elsewhere)
    found = learn(problem, MANY)
    assert "rows led" not in found.runs[0].message
    assert found.runs[0].n_rejected >= 1
    assert np.isfinite(found.log_evidence)


def test_sites_from_a_subset_are_those_of_their_rows_and_else_of_the_class():
    problem = make_problem(n=41, classes=4)
    n_part = len(range(0, 41, 4))
    rng = np.random.default_rng(1)
    part = Sites(rng.standard_normal(3 * n_part), rng.uniform(0.1, 1.0, 3 * n_part))
    found = problem.sites_from_subset(part, 4)
    tau, known = found.tau.reshape(41, 3), part.tau.reshape(n_part, 3)
    np.testing.assert_array_equal(tau[::4], known)
    codes = problem.codes
    for row in (1, 2, 3, 5):
        same = codes[::4] == codes[row]
        wanted = known[same].mean(axis=0) if same.any() else known.mean(axis=0)
        np.testing.assert_allclose(tau[row], wanted)
    assert problem.sites_from_subset("of another kind", 4) is None


def test_such_sites_are_a_better_start_than_the_prior():
    problem = make_problem(n=200, kernel=ConstantKernel(9.0) * RBF(0.7))
    part = problem.subset(4)
    sites = part.evaluate(part.theta).approximation.sites
    cold = problem.evaluate(problem.theta).approximation
    warm = problem.evaluate(problem.theta, init=problem.sites_from_subset(sites, 4)).approximation
    assert warm.n_factorisations <= cold.n_factorisations
    assert warm.log_evidence == pytest.approx(cold.log_evidence, rel=1e-9)


def test_the_report_says_so_and_a_users_optimizer_is_left_alone():
    problem = make_problem()
    learner = MaximiseEvidence(settings=MANY)
    model = GaussianProcessClassifier(problem.kernel, learning=learner)
    model.fit(problem.X, problem.codes)
    assert "rows led" in model.optimizer_report_.runs[0].run.message
    starts = []

    def optimizer(objective, initial_theta, bounds):
        starts.append(initial_theta)
        value, gradient = objective(initial_theta)
        assert gradient.shape == initial_theta.shape
        return initial_theta, value

    learner = MaximiseEvidence(optimizer, settings=MANY)
    other = GaussianProcessClassifier(problem.kernel, learning=learner)
    other.fit(problem.X, problem.codes)
    np.testing.assert_array_equal(starts, [problem.theta])
    assert "rows led" not in other.optimizer_report_.runs[0].run.message


@pytest.mark.slow
def test_precomputed_kernels_and_weights_are_led():
    problem = make_problem()
    settings = {"learning": MaximiseEvidence(settings=MANY)}
    K = RBF(0.8)(problem.X)
    weights = np.where(np.arange(120) % 3 == 0, 2.0, 1.0)
    scaled = GaussianProcessClassifier("precomputed", **settings).fit(K, problem.codes)
    assert np.isfinite(scaled.log_marginal_likelihood_value_)
    once = GaussianProcessClassifier(problem.kernel, **settings)
    once.fit(problem.X, problem.codes, sample_weight=weights)
    rows = np.repeat(np.arange(120), weights.astype(int))
    twice = GaussianProcessClassifier(problem.kernel, **settings)
    twice.fit(problem.X[rows], problem.codes[rows])
    np.testing.assert_allclose(once.kernel_.theta, twice.kernel_.theta, atol=1e-4)


def test_line_searches_are_rougher_than_the_end_where_there_are_many_rows():
    few = make_problem(n=30)
    assert Stages.of(few, MANY) == (few, few, None, MANY.gain, 0.0)
    some = Stages.of(make_problem(), replace(MANY, many_rows=1000))
    assert some.subset is None
    assert some.searching.inference.tol > some.refining.inference.tol == EP().tol
    problem = make_problem()
    stages = Stages.of(problem, MANY)
    tolerances = [one.inference.tol for one in (stages.searching, stages.refining, problem)]
    assert tolerances == sorted(tolerances, reverse=True)
    assert len(set(tolerances)) == 3
    assert stages.subset.inference == stages.searching.inference
    softmax = make_problem("softmax")
    assert Stages.of(softmax, MANY).searching is softmax
    exact = problem.evaluate(problem.theta)
    largest = np.abs(exact.gradient).max()
    for stage, atol in ((stages.searching, 1e-3), (stages.refining, 1e-4)):
        near = stage.evaluate(problem.theta)
        assert near.log_evidence == pytest.approx(exact.log_evidence, rel=1e-8)
        np.testing.assert_allclose(near.gradient, exact.gradient, atol=atol * largest)


FINE = SearchSettings(gain=1e-10, slack=1e-13)


@pytest.mark.parametrize("inference", [EP(), Laplace()], ids=["ep", "laplace"])
@pytest.mark.parametrize("lengths", [1.0, np.ones(4)], ids=["iso", "ard"])
def test_a_search_ends_where_nothing_is_left_to_gain(inference, lengths):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((50, 4))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.standard_normal(50) > 0, 1.0, -1.0)
    problem = BinaryProblem(ConstantKernel(1.0) * RBF(lengths), X, y, Probit(), inference)
    found, fine = learn(problem), learn(problem, FINE)
    assert found.runs[0].n_evaluations <= fine.runs[0].n_evaluations
    # with EP the variance runs along a ridge up to its bound, hence no smaller a slope
    assert np.abs(problem.evaluate(found.runs[0].end).gradient).max() < 1e-2
    if np.ndim(lengths) == 0 or isinstance(inference, Laplace):  # else there are several maxima
        assert found.log_evidence == pytest.approx(fine.log_evidence, abs=1e-5)


def test_the_best_point_is_not_evaluated_again():
    problem = make_problem(n=30)
    objective = Objective(problem)
    value, gradient = objective(problem.theta)
    again, same = objective(problem.theta)
    assert (again, len(objective.trace)) == (value, 1)
    np.testing.assert_array_equal(same, gradient)


# ---------------------------------------------------------- vectors of length-scales


def wine(seed, n, inference, likelihood, kernel):
    X, y = load_wine(return_X_y=True)
    rows = np.random.default_rng(seed).permutation(len(y))[:n]
    return BinaryProblem(kernel, X[rows], np.where(y[rows] > 0, 1.0, -1.0), likelihood, inference)


@pytest.mark.parametrize(
    ("seed", "n", "inference", "likelihood"), [(5, 40, EP(), Probit()), (3, 60, Laplace(), Logit())]
)
def test_a_length_scale_a_column_does_not_end_below_one_for_all(seed, n, inference, likelihood):
    """In these units the search from the start alone ends 16 and 28 nats below.

    In the first case both end where the rows say nothing of each other, each to 1e-6 nats.
    """
    one, each = (
        learn(wine(seed, n, inference, likelihood, ConstantKernel(1.0) * RBF(lengths)))
        for lengths in (1.0, np.ones(13))
    )
    assert each.log_evidence > one.log_evidence - 1e-6


def test_a_vector_moves_together_within_its_bounds(monkeypatch):
    seen = []
    evaluate = BinaryProblem.evaluate

    def spy(self, theta, **keywords):
        seen.append(theta)
        return evaluate(self, theta, **keywords)

    monkeypatch.setattr(BinaryProblem, "evaluate", spy)
    lengths, bounds = np.geomspace(10.0, 1e3, 13), [(5.0, 1e5)] + 12 * [(0.1, 2e3)]
    problem = wine(5, 40, EP(), Probit(), ConstantKernel(1.0) * RBF(lengths, bounds))
    learn(problem)
    away = np.array(seen)[:, 1:] - np.log(lengths)
    first = int(np.argmax(np.ptp(away, axis=1) > 1e-9))
    assert first > 3
    shift = away[:first, 0]
    assert np.log(0.5) - 1e-9 <= shift.min() < shift.max() <= np.log(2.0) + 1e-9


def test_a_hyperprior_needs_no_such_search():
    problem = wine(5, 40, EP(), Probit(), ConstantKernel(1.0) * RBF(np.ones(13)))
    prior = weak_hyperprior(problem.hyperparameters, problem.inputs)
    objective = Objective(problem, hyperprior=prior)
    np.testing.assert_array_equal(_tied(objective, problem.theta, FEW, FEW.gain), problem.theta)
    assert not objective.trace
