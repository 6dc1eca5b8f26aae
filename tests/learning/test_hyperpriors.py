"""The weak prior over hyperparameters: a density of theta, built from the kernel and X."""

import numpy as np
import pytest
from scipy.integrate import quad
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.gaussian_process.tests._mini_sequence_kernel import MiniSeqKernel

from gpclass.inference import EP, Laplace
from gpclass.kernels import ColumnKernel, MixedRBF, Precomputed
from gpclass.learning import (
    BinaryProblem,
    ExpectationMaximisation,
    Hyperparameters,
    MaximiseEvidence,
    WeakHyperPrior,
    weak_hyperprior,
)
from gpclass.learning.objective import Objective
from gpclass.likelihoods import Logit, NoisyThreshold, Probit

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3)) * [1.0, 5.0, 0.2] + [0.0, 3.0, -1.0]
DEVIATIONS = X.std(axis=0)
FIELDS = ("centre", "precision", "deviation", "power")


def is_flat(prior):
    return ~prior.precision.any(axis=0) & (prior.power == 0.0)


def weak(kernel, rows=X, likelihood=None):
    return weak_hyperprior(Hyperparameters(kernel, likelihood or Probit()), rows)


# ---------------------------------------------------------------- the density


def test_the_gradient_is_that_of_the_value():
    A = RNG.standard_normal((2, 5)) * [1.0, 0.0, 0.0, 0.0, 1.0]
    prior = WeakHyperPrior(
        centre=np.array([0.3, 0.0, 0.0, 0.0, 1.0]),
        precision=A.T @ A,
        deviation=np.array([np.inf, 10.0, 0.3, np.inf, 2.0]),
        power=np.array([0.0, 0.5, 1.0, 0.0, 0.5]),
    )
    theta = RNG.standard_normal(5)
    _, gradient = prior.log_density(theta)
    h = 1e-5
    slope = [
        (prior.log_density(theta + e)[0] - prior.log_density(theta - e)[0]) / (2 * h)
        for e in h * np.eye(5)
    ]
    np.testing.assert_allclose(gradient, slope, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_a_deviation_is_half_normal(power):
    """The density is of theta: its integrals over theta are those of a half-normal over sigma."""
    s = 3.0
    prior = WeakHyperPrior(np.zeros(1), np.zeros((1, 1)), np.full(1, s), np.full(1, power))

    def moment(k):
        def integrand(t):
            return np.exp(prior.log_density(np.array([t]))[0] + k * power * t)

        return quad(integrand, -60.0, 20.0, points=[0.0], limit=200)[0]

    assert moment(1) / moment(0) == pytest.approx(s * np.sqrt(2 / np.pi), rel=1e-6)
    assert moment(2) / moment(0) == pytest.approx(s**2, rel=1e-6)


# ------------------------------------------------------- the rules of "weak"


def test_one_length_scale_and_one_a_column():
    one, ard = weak(RBF(1.0)), weak(Matern(np.ones(3), nu=2.5))
    assert np.exp(one.centre) == pytest.approx([2 * np.sqrt((DEVIATIONS**2).sum())])
    np.testing.assert_allclose(np.exp(ard.centre), 2 * np.sqrt(3) * DEVIATIONS)
    # each length-scale is a common one (sd sqrt(3) of its logarithm) times its own (sd 1)
    np.testing.assert_allclose(one.precision, [[1 / 3]])
    np.testing.assert_allclose(np.linalg.inv(ard.precision), 3.0 + np.eye(3))
    assert not one.power.any()
    assert not ard.power.any()


def test_a_column_of_two_values_is_closer_to_the_others():
    table = np.column_stack([X[:, :2], X[:, 0] > 0.0, X[:, 1] > 3.0])
    prior = weak(RBF(np.ones(4)), table)
    own = np.diag([1.0, 1.0, 0.25, 0.25])
    np.testing.assert_allclose(np.linalg.inv(prior.precision), 3.0 + own)


def test_terms_of_a_sum_have_the_same_deviation():
    """At the rows: the constant before a DotProduct is multiplied by its mean there."""
    kernel = 2.0 * RBF(1.0) + ConstantKernel(0.1) * DotProduct(0.0, "fixed") + ConstantKernel(1.0)
    prior = weak(kernel)
    size = (X**2).sum(axis=1).mean()
    np.testing.assert_allclose(prior.deviation, [10, np.inf, 10 / np.sqrt(size), 10])
    np.testing.assert_array_equal(prior.power, [0.5, 0.0, 0.5, 0.5])
    np.testing.assert_allclose(prior.precision, np.diag([0.0, 1 / 3, 0.0, 0.0]))


def test_a_deviation_that_is_a_hyperparameter_itself():
    prior = weak(4.0 * DotProduct(2.0) + WhiteKernel(1.0))
    size = 4.0 + (X**2).sum(axis=1).mean()
    np.testing.assert_allclose(prior.deviation, [10 / np.sqrt(size), 5.0, 10.0])
    np.testing.assert_array_equal(prior.power, [0.5, 1.0, 0.5])


@pytest.mark.parametrize(
    ("kernel", "flat"),
    [
        (ConstantKernel(1.0, "fixed") * RationalQuadratic(1.0, 1.0), [True, False]),
        (ExpSineSquared(1.0, 1.0), [True, True]),
        (RBF(1.0) ** 2, [True]),
        (1.0 * Precomputed(), [False]),
    ],
)
def test_what_no_rule_is_known_for_is_flat(kernel, flat):
    rows = X @ X.T if "Precomputed" in str(kernel) else X
    prior = weak(kernel, rows)
    np.testing.assert_array_equal(is_flat(prior), flat)


def test_a_kernel_on_some_columns_sees_these_alone():
    on_two = weak(3.0 * ColumnKernel([0, 2], 2.0 * RBF(np.ones(2))))
    alone = weak(3.0 * (2.0 * RBF(np.ones(2))), X[:, [0, 2]])
    for name in FIELDS:
        np.testing.assert_allclose(getattr(on_two, name), getattr(alone, name))


def test_mixed_columns_are_numbers_and_one_hot_columns_apart():
    """A level's column has sqrt(1/2) in it, so that two levels have the distance 1."""
    codes = RNG.integers(0, [3, 2], (len(X), 2)).astype(float)
    rows = np.column_stack([codes[:, 0], X, codes[:, 1]])
    kernel = MixedRBF(np.ones(3), discrete=[4, 0], discrete_length_scale=np.ones(2))
    prior, numbers = weak(kernel, rows), weak(RBF(np.ones(3)))
    one_hot = [c == k for c, ks in ((codes[:, 1], range(2)), (codes[:, 0], range(3))) for k in ks]
    variance = np.var(np.sqrt(0.5) * np.array(one_hot), axis=1).sum()
    np.testing.assert_allclose(np.exp(prior.centre[:2]), 2 * np.sqrt(variance))
    np.testing.assert_allclose(np.linalg.inv(prior.precision[:2, :2]), 3.0 + np.eye(2) / 4)
    np.testing.assert_allclose(prior.centre[2:], numbers.centre)
    np.testing.assert_allclose(prior.precision[2:, 2:], numbers.precision, atol=1e-15)
    assert not prior.precision[:2, 2:].any()

    one = weak(MixedRBF(1.0, discrete=[0, 4]), rows)
    assert np.exp(one.centre[0]) == pytest.approx(2 * np.sqrt(variance))
    np.testing.assert_allclose(one.precision, np.eye(2) / 3)


def test_mixed_columns_of_one_kind_and_of_one_level():
    codes = np.column_stack([np.arange(4.0) % 2, np.ones(4)])
    prior = weak(MixedRBF(discrete=[0, 1], discrete_length_scale=np.ones(2)), codes)
    np.testing.assert_array_equal(is_flat(prior), [False, True, True])
    numbers, rbf = weak(MixedRBF(np.ones(3))), weak(RBF(np.ones(3)))
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(numbers, name), getattr(rbf, name))


def test_levels_that_share_a_length_scale_have_one_prior():
    codes = np.append(np.arange(3), RNG.integers(0, 3, len(X) - 3))
    table = np.column_stack([X[:, :2], np.sqrt(0.5) * np.eye(3)[codes]])
    prior = weak(ColumnKernel(range(5), RBF(np.ones(3)), shared=[0, 1, 2, 2, 2]), table)
    each = weak(RBF(np.ones(5)), table)
    np.testing.assert_allclose(prior.centre, each.centre[:3])
    np.testing.assert_allclose(np.linalg.inv(prior.precision), 3.0 + np.diag([1.0, 1.0, 0.25]))
    # one for all columns
    one = weak(ColumnKernel([0, 1], RBF([1.0]), shared=[0, 0]))
    alone = weak(RBF(1.0), X[:, :2])
    for name in FIELDS:
        np.testing.assert_allclose(getattr(one, name), getattr(alone, name))
    fixed = weak(ColumnKernel([0, 1], RBF([1.0], "fixed"), shared=[0, 0]))
    assert fixed.centre.shape == (0,)


def test_objects_have_no_columns():
    prior = weak(2.0 * MiniSeqKernel(), ["ab", "ba", "bb"])
    np.testing.assert_array_equal(is_flat(prior), [False, True])
    assert not prior.precision.any()


def test_each_class_and_the_likelihood():
    prior = weak(CompoundKernel([2.0 * RBF(1.0), RBF(np.ones(3))]), likelihood=NoisyThreshold(0.1))
    assert prior.centre.shape == (6,)
    np.testing.assert_array_equal(
        prior.precision.any(axis=0), [False, True, True, True, True, False]
    )
    assert not prior.precision[1, 2:].any()
    np.testing.assert_array_equal(np.isfinite(prior.deviation), [True] + 5 * [False])


def test_units_move_it_and_repetition_does_not():
    kernel = 1.0 * RBF(np.ones(3)) + ConstantKernel(1.0) * DotProduct(0.0, "fixed")
    plain, scaled = weak(kernel), weak(kernel, 1e6 * X)
    repeated = weak(kernel, np.repeat(X, RNG.integers(1, 4, len(X)), axis=0))
    np.testing.assert_allclose(scaled.centre[1:4] - plain.centre[1:4], np.log(1e6))
    np.testing.assert_allclose(scaled.deviation[4], 1e-6 * plain.deviation[4])
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(plain, name), getattr(repeated, name))


@pytest.mark.parametrize("unit", [1e-300, 1e-160, 1e160, 1e300])
def test_any_unit(unit):
    with np.errstate(all="raise", under="ignore"):
        prior = weak(1.0 * RBF(1.0) + ConstantKernel(1.0) * DotProduct(0.0, "fixed"), unit * X)
    expected = np.log(unit) + np.log(2 * np.sqrt((DEVIATIONS**2).sum()))
    assert prior.centre[1] == pytest.approx(expected)
    assert (prior.deviation > 0).all()


def test_a_column_that_is_constant_has_no_scale():
    table = np.column_stack([X[:, 0], np.ones(len(X))])
    np.testing.assert_array_equal(is_flat(weak(RBF(np.ones(2)), table)), [False, True])
    assert is_flat(weak(RBF(1.0), np.ones((5, 2)))).all()


# ------------------------------------------------------------------- learning


def problem_of(inference, likelihood):
    y = np.where(X[:, 0] + 0.5 * RNG.standard_normal(len(X)) > 0, 1.0, -1.0)
    kernel = 1.0 * RBF(3.0) + ConstantKernel(0.1) * DotProduct(0.0, "fixed") + ConstantKernel(1.0)
    return BinaryProblem(kernel, X / DEVIATIONS, y, likelihood, inference)


@pytest.mark.slow
@pytest.mark.parametrize("learner", [MaximiseEvidence, ExpectationMaximisation])
@pytest.mark.parametrize("inference", [EP(), Laplace()])
def test_learning_ends_at_its_maximum_inside_the_bounds(learner, inference):
    problem = problem_of(inference, Logit() if isinstance(inference, Laplace) else Probit())
    prior = weak_hyperprior(problem.hyperparameters, problem.inputs)
    found = learner(hyperprior=prior).learn(problem, problem.theta[None])
    objective = Objective(problem, hyperprior=prior)
    h = 1e-4
    slope = [
        (objective.evaluate(found.theta + e, False).value
         - objective.evaluate(found.theta - e, False).value) / (2 * h)
        for e in h * np.eye(4)
    ]  # fmt: skip
    # EM ends where gains are small
    np.testing.assert_allclose(slope, 0.0, atol=2e-3 if learner is MaximiseEvidence else 2e-2)
    np.testing.assert_allclose(objective.evaluate(found.theta, True).gradient, slope, atol=1e-6)
    assert found.runs[0].at_bounds == ()
