"""Where a search begins when there are many rows, and how it ends."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, ConstantKernel, Matern

from gpclass import GaussianProcessClassifier
from gpclass.inference import EP, Laplace
from gpclass.inference.joint import LatentDifferences, MultinomialProbit, Softmax
from gpclass.inference.sites import Sites
from gpclass.learning import BinaryProblem, JointProblem, MaximiseEvidence
from gpclass.learning import joint as joint_module
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


def learn(problem, start=None):
    start = problem.theta if start is None else start
    return MaximiseEvidence().learn(problem, start[None, :])


@pytest.fixture
def led(monkeypatch):
    """As if 40 rows were many."""
    monkeypatch.setattr(joint_module, "MANY", 40)


def test_few_rows_and_binary_problems_have_no_part():
    assert make_problem(n=joint_module.MANY - 1).part() is None
    X = np.zeros((5000, 1))
    assert BinaryProblem(RBF(), X, np.ones(5000), Probit(), EP()).part() is None


def test_a_part_has_rows_and_weights_of_its_own(led):
    weights = np.arange(1.0, 121.0)
    whole = make_problem(weights=weights)
    part = whole.part()
    np.testing.assert_array_equal(part.codes, whole.codes[::4])
    np.testing.assert_array_equal(part.weights, weights[::4])
    np.testing.assert_array_equal(part.inputs, whole.X[::4])
    again = part.at(whole.theta).part() if len(part.codes) >= joint_module.MANY else None
    assert again is None


def test_a_part_of_some_rows_is_among_them(led):
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
    part = some.part()
    np.testing.assert_array_equal(part.inputs, whole.X[rows[::4]])
    np.testing.assert_array_equal(part.codes, whole.codes[rows[::4]])


@pytest.mark.parametrize("name", ["nested", "softmax"])
def test_a_led_search_ends_at_the_same_maximum_sooner(name, monkeypatch):
    problem = make_problem(name, kernel=ConstantKernel(30.0) * RBF(4.0))
    alone = learn(problem)
    monkeypatch.setattr(joint_module, "MANY", 40)
    led = learn(problem)
    (run,) = led.runs
    assert "30 rows had led" in run.message
    assert run.n_evaluations < alone.runs[0].n_evaluations
    assert led.log_evidence == pytest.approx(alone.log_evidence, abs=1e-6)
    np.testing.assert_allclose(led.theta, alone.theta, atol=1e-3)
    np.testing.assert_array_equal(run.start, problem.theta)


@pytest.mark.parametrize("name", SCHEMES)
def test_a_search_from_near_the_maximum_ends_there(name, led, monkeypatch):
    problem = make_problem(name)
    found = learn(problem)
    monkeypatch.setattr(joint_module, "MANY", 1000)
    alone = learn(problem)
    assert "led" in found.runs[0].message
    assert "led" not in alone.runs[0].message
    np.testing.assert_allclose(found.theta, alone.theta, atol=1e-5)


def test_a_part_leads_out_of_a_bad_start(led, monkeypatch):
    # the search alone may also end at labels that are independent of the inputs
    problem = make_problem(kernel=ConstantKernel(0.01) * RBF(20.0))
    found = learn(problem)
    monkeypatch.setattr(joint_module, "MANY", 1000)
    alone = learn(problem)
    assert found.log_evidence >= alone.log_evidence - 1e-6
    assert found.runs[0].n_evaluations < 0.5 * alone.runs[0].n_evaluations


@pytest.mark.slow
def test_a_kernel_for_each_class_is_led_as_well(monkeypatch):
    kernel = CompoundKernel([ConstantKernel(1.0) * Matern(1.0, nu=2.5) for _ in range(3)])
    problem = make_problem(n=160, kernel=kernel)
    alone = learn(problem)
    monkeypatch.setattr(joint_module, "MANY", 40)
    led = learn(problem)
    assert "40 rows had led" in led.runs[0].message
    assert led.log_evidence >= alone.log_evidence - 1e-3


def test_what_a_part_cannot_tell_is_taken_back(led):
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
    found = learn(dull)
    assert found.theta[2] == pytest.approx(dull.theta[2], abs=4.0)
    assert np.isfinite(found.log_evidence)


def test_a_part_that_leads_nowhere_is_left_alone(led, monkeypatch):
    problem = make_problem()
    alone_at = []
    evaluate = JointProblem.evaluate

    def fails_on_few(self, theta, **keywords):
        if len(self.codes) < 100:
            raise np.linalg.LinAlgError("no")
        alone_at.append(np.array(theta))
        return evaluate(self, theta, **keywords)

    monkeypatch.setattr(JointProblem, "evaluate", fails_on_few)
    found = learn(problem)
    assert "led" not in found.runs[0].message
    np.testing.assert_array_equal(alone_at[0], problem.theta)


def test_where_a_part_leads_may_fail_with_all_rows(led, monkeypatch):
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
    found = learn(problem)
    assert "led" not in found.runs[0].message
    assert found.runs[0].n_rejected >= 1
    assert np.isfinite(found.log_evidence)


def test_sites_of_a_part_are_those_of_their_rows_and_else_of_the_class():
    problem = make_problem(n=41, classes=4)
    n_part = len(range(0, 41, 4))
    rng = np.random.default_rng(1)
    part = Sites(rng.standard_normal(3 * n_part), rng.uniform(0.1, 1.0, 3 * n_part))
    found = problem.sites_of_part(part)
    tau, known = found.tau.reshape(41, 3), part.tau.reshape(n_part, 3)
    np.testing.assert_array_equal(tau[::4], known)
    codes = problem.codes
    for row in (1, 2, 3, 5):
        same = codes[::4] == codes[row]
        wanted = known[same].mean(axis=0) if same.any() else known.mean(axis=0)
        np.testing.assert_allclose(tau[row], wanted)
    assert problem.sites_of_part("of another kind") is None


def test_such_sites_are_a_better_start_than_the_prior(led):
    problem = make_problem(n=200, kernel=ConstantKernel(9.0) * RBF(0.7))
    part = problem.part()
    sites = part.evaluate(part.theta).approximation.sites
    cold = problem.evaluate(problem.theta).approximation
    warm = problem.evaluate(problem.theta, init=problem.sites_of_part(sites)).approximation
    assert warm.n_factorisations <= cold.n_factorisations
    assert warm.log_evidence == pytest.approx(cold.log_evidence, rel=1e-9)


def test_the_estimator_says_so_and_a_users_optimizer_is_left_alone(led):
    problem = make_problem()
    model = GaussianProcessClassifier(problem.kernel).fit(problem.X, problem.codes)
    assert "rows had led" in model.optimizer_report_.runs[0].run.message
    starts = []

    def optimizer(objective, initial_theta, bounds):
        starts.append(initial_theta)
        value, gradient = objective(initial_theta)
        assert gradient.shape == initial_theta.shape
        return initial_theta, value

    other = GaussianProcessClassifier(problem.kernel, optimizer=optimizer)
    other.fit(problem.X, problem.codes)
    np.testing.assert_array_equal(starts, [problem.theta])
    assert "led" not in other.optimizer_report_.runs[0].run.message


def test_precomputed_kernels_and_weights_are_led(led):
    problem = make_problem()
    K = RBF(0.8)(problem.X)
    weights = np.where(np.arange(120) % 3 == 0, 2.0, 1.0)
    scaled = GaussianProcessClassifier("precomputed").fit(K, problem.codes)
    assert np.isfinite(scaled.log_marginal_likelihood_value_)
    once = GaussianProcessClassifier(problem.kernel)
    once.fit(problem.X, problem.codes, sample_weight=weights)
    rows = np.repeat(np.arange(120), weights.astype(int))
    twice = GaussianProcessClassifier(problem.kernel).fit(problem.X[rows], problem.codes[rows])
    np.testing.assert_allclose(once.kernel_.theta, twice.kernel_.theta, atol=1e-4)


def test_line_searches_are_rougher_than_the_end_where_there_are_many_rows(led):
    few = make_problem(n=30)
    assert few.while_learning() is few
    assert few.while_searching() is few
    problem = make_problem()
    rough = problem.while_learning().while_searching()
    assert rough.inference.tol > problem.while_learning().inference.tol > problem.inference.tol
    softmax = make_problem("softmax")
    assert softmax.while_learning().while_searching() is softmax
    theta = problem.theta
    near, exact = (one.evaluate(theta) for one in (rough, problem))
    assert near.log_evidence == pytest.approx(exact.log_evidence, rel=1e-8)
    largest = np.abs(exact.gradient).max()
    np.testing.assert_allclose(near.gradient, exact.gradient, atol=1e-4 * largest)
