"""Learning with inducing points: the gradient of the bound, subsets, the points themselves."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    DotProduct,
    Matern,
    WhiteKernel,
)
from tests.helpers import slow

from gpclass.inference import Variational
from gpclass.inference.by_blocks import VariationalByBlocks
from gpclass.kernels import MixedRBF, default_kernel
from gpclass.learning import (
    BinaryProblem,
    InducingProblem,
    MaximiseEvidence,
    MaximiseLeaveOneOut,
    SearchSettings,
    weak_hyperprior,
)
from gpclass.likelihoods import Logit, Mislabelled, NoisyThreshold, Probit

KERNELS = {
    "ard": 2.0 * RBF([1.0, 2.0, 1.5, 3.0]),
    "matern 1/2": 2.0 * Matern(2.0, nu=0.5),
    "mixed": 1.5 * MixedRBF([1.0, 2.0], (2, 3), (0.8, 1.5)),
    "white": 1.5 * RBF([1.0, 2.0, 1.5, 3.0]) + WhiteKernel(0.3),
    "sum and product": (DotProduct(0.8) + 0.5) * Matern([1.0, 2.0, 1.5, 3.0], nu=1.5) + 0.2,
}
LIKELIHOODS = {
    "probit": Probit(),
    "logit": Logit(),
    "threshold": NoisyThreshold(0.1),
    "mislabelled": Mislabelled(Logit(), 0.05),
}


def problem(kernel, likelihood=None, n=70, n_classes=2, **settings):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4))
    X[:, 2:] = rng.integers(0, 3, (n, 2))
    latent = 2 * np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(n)
    y = np.where(latent > 0, 1.0, -1.0)
    if n_classes > 2:
        y = np.digitize(latent, np.quantile(latent, np.linspace(0, 1, n_classes + 1)[1:-1]))
    method = VariationalByBlocks(max_passes=300)
    made = InducingProblem(kernel, X, y, likelihood or Probit(), method, n_classes, **settings)
    return made.placed(made.theta, 12, 0)


def check_gradient(one):
    found = one.evaluate(one.theta)
    init, by_differences = found.approximation.sites, []
    for unit in np.eye(len(one.theta)):
        central = [
            (up.log_evidence - down.log_evidence) / (2 * h)
            for h in (1e-3, 5e-4)
            for up, down in [
                [one.evaluate(one.theta + s * h * unit, gradient=False, init=init) for s in (1, -1)]
            ]
        ]
        by_differences.append((4 * central[1] - central[0]) / 3)
    scale = np.abs(by_differences).max()
    np.testing.assert_allclose(found.gradient, by_differences, rtol=1e-5, atol=1e-5 * scale)


@pytest.mark.parametrize("name", KERNELS)
def test_gradient_by_the_kernel(name):
    check_gradient(problem(KERNELS[name]))


@pytest.mark.parametrize("name", slow(LIKELIHOODS, "threshold", "mislabelled"))
def test_gradient_by_the_likelihood(name):
    check_gradient(problem(KERNELS["ard"], LIKELIHOODS[name]))


def test_gradient_of_three_classes_and_weights():
    weights = np.random.default_rng(1).uniform(0.2, 3.0, 70)
    for likelihood in (Logit(), Probit()):
        check_gradient(problem(KERNELS["ard"], likelihood, n_classes=3, weights=weights))


@pytest.mark.parametrize("name", slow(LIKELIHOODS, "threshold", "mislabelled"))
def test_with_all_rows_as_points_it_is_the_dense_problem(name):
    one = problem(KERNELS["ard"], LIKELIHOODS[name])
    dense = BinaryProblem(one.kernel, one.X, one.y, one.likelihood, Variational(tol=1e-10))
    expected = dense.evaluate(one.theta)
    found = replace(one, Z=one.X).evaluate(one.theta)
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-6)
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=1e-5, atol=1e-5)


def test_learning_ends_where_the_gradient_is_zero_and_its_pickle_is_small():
    one = problem(KERNELS["ard"], n=300)
    prior = weak_hyperprior(one.hyperparameters, one.inputs)
    learned = MaximiseEvidence(hyperprior=prior).learn(one, one.theta[None])
    found = one.evaluate(learned.theta, init=learned.best.sites)
    _, slope = prior.log_density(learned.theta)
    np.testing.assert_allclose(found.gradient + slope, 0.0, atol=2e-3)
    assert len(pickle.dumps(learned)) < 20_000
    copy = pickle.loads(pickle.dumps(one.at(learned.theta)))
    assert copy.evaluate(learned.theta, gradient=False).log_evidence == pytest.approx(
        found.log_evidence, abs=1e-9
    )


def test_points_leave_little():
    mixed = problem(KERNELS["mixed"])
    assert {tuple(z) for z in mixed.Z} <= {tuple(x) for x in mixed.X}
    one = problem(KERNELS["ard"])
    some, more = (one.placed(one.theta, m, 0) for m in (5, 40))
    assert more.trace_left(1000) < some.trace_left(1000) < 1.0
    np.testing.assert_array_equal(one.placed(one.theta, one.X[:3], 0).Z, one.X[:3])
    auto = one.placed(one.theta, None, 0)
    assert auto.trace_left(1000) <= 0.01 or len(auto.Z) == 70


def test_a_subset_is_a_sample_of_as_many_rows_as_the_points_need():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12_000, 2)), np.where(rng.random(12_000) < 0.5, 1.0, -1.0)
    whole = InducingProblem(RBF(1.0), X, y, Probit(), VariationalByBlocks())
    whole = whole.placed(whole.theta, 10, 0)
    part = whole.subset(4)
    assert (part.n_rows, part.n_sites) == (5000, 10)
    np.testing.assert_array_equal(part.Z, whole.Z)
    assert part.subset(4) is None
    sites = part.evaluate(part.theta, gradient=False).approximation.sites
    scaled = whole.sites_from_subset(sites, 4)
    np.testing.assert_allclose(scaled.A, 2.4 * sites.A)


def test_of_many_rows_a_tenth_leads_and_a_part_of_it_before(monkeypatch):
    monkeypatch.setattr("gpclass.learning.inducing.FEWEST_ROWS", 100)
    settings = SearchSettings(subset_rows=150)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 2))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.standard_normal(2000) > 0, 1.0, -1.0)
    whole = InducingProblem(2.0 * RBF([1.0, 1.0]), X, y, Probit(), VariationalByBlocks())
    whole = whole.placed(whole.theta, 10, 0)
    part = whole.subset(4)
    assert (part.n_rows, part.subset(4).n_rows) == (200, 100)

    def learnt():
        return MaximiseEvidence(settings=settings).learn(whole, whole.theta[None])

    led = learnt()
    assert "200 rows led" in led.runs[0].message
    monkeypatch.setattr("gpclass.learning.inducing.MOST_NUMBERS", 0.0)
    assert whole.subset(4).n_rows == 100
    alone = learnt()
    # a step of the search ends it below 1e-6 nats a row
    assert led.log_evidence == pytest.approx(alone.log_evidence, abs=5e-3)
    assert led.runs[0].n_evaluations <= alone.runs[0].n_evaluations


def test_classes_may_be_numbered_in_any_order():
    one = problem(KERNELS["ard"], Logit(), n_classes=3)
    names = np.array([2, 0, 1])
    other = replace(one, y=names[one.y]).placed(one.theta, 12, 0)
    a, b = (each.evaluate(one.theta) for each in (one, other))
    assert a.log_evidence == pytest.approx(b.log_evidence, abs=1e-8)
    np.testing.assert_allclose(a.gradient, b.gradient, atol=1e-6)


def test_what_has_no_answer_says_so():
    one = problem(KERNELS["ard"])
    with pytest.raises(ValueError, match="learning='loo' needs a site of each row"):
        MaximiseLeaveOneOut().learn(one, one.theta[None])
    with pytest.raises(ValueError, match="one kernel that all classes share"):
        problem(CompoundKernel([RBF(1.0), RBF(2.0), RBF(1.0)]), Logit(), n_classes=3)


def test_the_default_kernel_of_a_table_with_categories():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((60, 2)), rng.integers(0, 2, (60, 2))])
    made = InducingProblem(
        default_kernel(X), X, np.where(X[:, 0] > 0, 1.0, -1.0), Probit(), VariationalByBlocks()
    )
    check_gradient(made.placed(made.theta, 15, 0))
