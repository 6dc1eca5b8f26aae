"""The noisy threshold against 40 digits, at the ends of the number range, and by its settings."""

import itertools
import pickle
from dataclasses import FrozenInstanceError, dataclass
from typing import ClassVar

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone

from gpclass.likelihoods import Likelihood, Logit, NoisyThreshold, Probit, by_quadrature
from gpclass.likelihoods.base import Derivatives
from gpclass.testing import check_likelihood

EPSILONS = (0.0, 1e-6, 0.01, 0.3)
MEANS = (-50.0, -6.0, -0.7, -1e-3, 0.0, 0.1, 2.0, 12.0, 50.0)
VARS = (1e-8, 1e-3, 0.3, 4.0, 150.0, 1e6)
LABELS = (1.0, -1.0)


def truth(epsilon, power, y, m, v):
    """The answers by the derivatives of Z alone (RW06 section 3.9), to 40 digits after losses.

    At z = -5e5 the variance of the hard threshold loses 23 digits of the 70.
    """
    eps, a, m, v = mp.mpf(epsilon), mp.mpf(power), mp.mpf(m), mp.mpf(v)
    wrong = eps**a if a else mp.mpf(1)
    right = (1 - eps) ** a
    jump, sd, z = right - wrong, mp.sqrt(v), y * m / mp.sqrt(v)
    below, above, density = mp.ncdf(z), mp.ncdf(-z), mp.npdf(z)
    Z = wrong + jump * below
    # where Z is nearly one its distance from one has the digits
    log_z = mp.log(Z) if z < 0 else mp.log(right) + mp.log1p(-jump / right * above)
    slope, bend = y * jump * density / sd, -z * jump * density / v
    d, d2 = slope / Z, bend / Z - (slope / Z) ** 2
    answer = {"log_z": log_z, "mean": m + v * d, "variance": v + v * v * d2}
    answer |= {"d_mean": d, "d2_mean": d2}
    if epsilon:
        answer["gradient"] = a * (wrong * above - eps / (1 - eps) * right * below) / Z
    if power == 1 and y > 0:
        other, A = eps + jump * above, 2 * slope
        answer |= {"A": A, "b": Z - other - A * m, "Omega": 4 * Z * other - A * A * v, "proba": Z}
    if power == 1 and epsilon:
        step = mp.log(1 - eps) - mp.log(eps)
        answer |= {
            "elp": mp.log(eps) * above + mp.log1p(-eps) * below,
            "elp_m": y * step * density / sd,
            "elp_v": -z * step * density / (2 * v),
            "elp_gradient": above - eps / (1 - eps) * below,
        }
    return answer


def answers(likelihood, power, y, m, v):
    found = likelihood.power_moments(power, y, m, v)._asdict()
    if likelihood.epsilon:
        found["gradient"] = likelihood.log_z_gradient(y, m, v, power)[0]
    if power == 1:
        found |= likelihood.tilted_moments(y, m, v)._asdict()
        if y > 0:
            found |= likelihood.linearise(m, v)._asdict()
            found["proba"] = likelihood.predict_proba(m, v)
        if likelihood.epsilon:
            expected = likelihood.expected_log_prob(y, m, v)
            found |= {"elp": expected.value, "elp_m": expected.d_mean, "elp_v": expected.d_var}
            found["elp_gradient"] = likelihood.expected_log_prob_gradient(y, m, v)[0]
    return found


@pytest.mark.parametrize("power", [0.0, 0.1, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_agrees_with_forty_digits(epsilon, power):
    likelihood = NoisyThreshold(epsilon)
    for y, m, v in itertools.product(LABELS, MEANS, VARS):
        with mp.workdps(70):
            values = truth(epsilon, power, y, m, v)
            found = answers(likelihood, power, y, m, v)
            for key, value in values.items():
                # b is a difference of numbers of order one; the rest holds in relative terms,
                # zero crossings apart, and none of the grid is near one
                size = 1 + abs(values["A"] * m) if key == "b" else abs(value)
                error = abs(mp.mpf(float(found[key])) - value)
                assert error <= 1e-12 * size + mp.mpf("1e-300"), (key, y, m, v)


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.3])
@pytest.mark.parametrize("power", [0.2, 0.999, 1.0])
def test_gradient_near_its_zero(epsilon, power):
    # the zero of Phi(-z) - e Phi(z), between -1e-3 and 5 for these
    likelihood, v = NoisyThreshold(epsilon), 1.0
    for m in (*np.linspace(-1.0, 5.0, 25), 1e-9):
        with mp.workdps(40):
            value = truth(epsilon, power, 1.0, m, v)["gradient"]
            found = float(likelihood.log_z_gradient(1.0, m, v, power)[0])
            share = likelihood.power_moments(power, 1.0, m, v)
            size = abs(value) + 1e-3 * epsilon**power / mp.exp(float(share.log_z)) * mp.ncdf(-m)
            assert abs(found - value) <= 1e-12 * size, m


finite_mean = st.floats(-1e150, 1e150)
any_var = st.floats(0.0, 1e300)
practical_mean, practical_var = st.floats(-400, 400), st.floats(0.0, 1e5)
an_epsilon = st.one_of(st.just(0.0), st.floats(0.0, 0.4999999), st.just(5e-324), st.just(1e-300))


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(
    an_epsilon,
    st.floats(0.0, 1.0),
    st.one_of(st.tuples(finite_mean, any_var), st.tuples(practical_mean, practical_var)),
    st.sampled_from(LABELS),
)
def test_every_finite_input_has_a_finite_answer(epsilon, power, site, y):
    likelihood = NoisyThreshold(epsilon)
    m, v = np.array([site[0]]), np.array([site[1]])
    tilted = likelihood.tilted_moments(y, m, v)
    powered = likelihood.power_moments(power, y, m, v)
    fit = likelihood.linearise(m, v)
    rest = [likelihood.log_prob(y, m), *likelihood.derivatives(y, m)]
    rest += [likelihood.log_z_gradient(y, m, v, power)]
    if epsilon:
        rest += [*likelihood.expected_log_prob(y, m, v)]
        rest += [likelihood.expected_log_prob_gradient(y, m, v)]
    assert all(np.isfinite(a).all() for a in (*tilted, *powered, *fit, *rest))
    proba, mirrored = likelihood.predict_proba(m, v), likelihood.predict_proba(-m, v)
    assert 0.0 <= proba <= 1.0
    assert abs(proba + mirrored - 1.0) <= 1e-12
    assert np.abs(np.exp(tilted.log_z) - (proba if y > 0 else mirrored)) <= 1e-12
    assert np.all(tilted.variance >= 0.0)
    assert np.all(powered.variance >= 0.0)
    assert tilted.log_z * (1.0 + 1e-14) <= powered.log_z <= 0.0
    if likelihood.log_concave:
        assert tilted.variance <= v * (1.0 + 1e-12)
        assert tilted.d2_mean <= 0.0
    assert np.sign(tilted.d_mean) in (0.0, y)
    assert fit.Omega > 0.0
    both = np.exp(likelihood.log_prob(1.0, m)) + np.exp(likelihood.log_prob(-1.0, m))
    assert abs(both - 1.0) <= 1e-15


@pytest.mark.parametrize("epsilon", [0.05, 0.2, 0.01, 1e-6, 0.45])
def test_keeps_the_laws(epsilon):
    check_likelihood(NoisyThreshold(epsilon))
    check_likelihood(NoisyThreshold(epsilon, "fixed"))


def test_a_surprising_label_widens_and_hardly_moves():
    moments = NoisyThreshold(0.01).tilted_moments(1.0, np.array([-3.0, -10.0]), 1.0)
    assert moments.variance[0] > 1.0
    np.testing.assert_allclose(moments.mean[1], -10.0, rtol=1e-12)
    np.testing.assert_allclose(moments.log_z[1], np.log(0.01), rtol=1e-12)


def test_powers_compose_into_one_threshold():
    # eps'/(1 - eps') = (eps/(1 - eps))^a, as p^a is a multiple of another noisy threshold
    epsilon, a = 0.07, 0.4
    odds = (epsilon / (1 - epsilon)) ** a
    other = NoisyThreshold(odds / (1 + odds))
    m, v = np.linspace(-5, 5, 11), np.full(11, 2.3)
    powered = NoisyThreshold(epsilon).power_moments(a, 1.0, m, v)
    plain = other.tilted_moments(1.0, m, v)
    factor = np.log(epsilon**a + (1 - epsilon) ** a)
    np.testing.assert_allclose(powered.log_z, factor + plain.log_z, atol=1e-14)
    for field in ("mean", "variance", "d_mean", "d2_mean"):
        np.testing.assert_allclose(getattr(powered, field), getattr(plain, field), rtol=1e-11)


def test_power_zero_gives_back_the_gaussian():
    m, v = np.array([-40.0, 0.0, 0.3]), np.array([0.1, 2.0, 0.0])
    for likelihood in (NoisyThreshold(0.0), NoisyThreshold(0.1), Probit(), Logit()):
        for y in LABELS:
            found = likelihood.power_moments(np.zeros(3), y, m, v)
            np.testing.assert_array_equal(found.log_z, 0.0)
            np.testing.assert_array_equal(found.mean, m)
            np.testing.assert_array_equal(found.variance, v)
            np.testing.assert_array_equal(found.d_mean, 0.0)
            np.testing.assert_array_equal(found.d2_mean, 0.0)


def test_powers_out_of_range_are_refused():
    for likelihood in (NoisyThreshold(0.1), Probit()):
        for power in (-0.1, 1.1, np.nan):
            with pytest.raises(ValueError, match="power must be from zero to one"):
                likelihood.power_moments(power, 1.0, 0.0, 1.0)


def test_no_spread():
    f = np.array([-2.0, 0.0, 1.5])
    for epsilon, wrong in ((0.0, -1e300), (0.2, np.log(0.2))):
        likelihood = NoisyThreshold(epsilon)
        expected = [wrong, np.log(0.5), np.log1p(-epsilon)]
        np.testing.assert_allclose(likelihood.log_prob(1.0, f), expected, rtol=1e-15)
        found = likelihood.tilted_moments(1.0, f, np.zeros(3))
        np.testing.assert_allclose(found.log_z, expected, rtol=1e-15)
        np.testing.assert_array_equal(found.mean, f)
        np.testing.assert_array_equal(found.variance, 0.0)
        other = likelihood.tilted_moments(-1.0, -f, np.zeros(3))
        np.testing.assert_allclose(other.log_z, expected, rtol=1e-15)
        half = likelihood.power_moments(0.5, 1.0, f, np.zeros(3)).log_z
        np.testing.assert_allclose(half, 0.5 * np.array(expected), rtol=1e-15)


def test_the_hard_threshold():
    hard = NoisyThreshold(0.0)
    assert hard.log_concave
    assert not NoisyThreshold(1e-300).log_concave
    assert hard.theta.shape == (0,)
    assert hard.bounds.shape == (0, 2)
    assert hard.with_theta(np.empty(0)) is hard
    assert hard.log_z_gradient(1.0, np.zeros(4), np.ones(4)).shape == (0, 4)
    for method in (hard.expected_log_prob, hard.expected_log_prob_gradient):
        with pytest.raises(ValueError, match="variational bound needs epsilon > 0"):
            method(1.0, 0.0, 1.0)
    # a probit is a hard threshold behind unit noise (KG06 section 5)
    m, v = np.linspace(-9, 9, 7), np.full(7, 3.0)
    np.testing.assert_allclose(
        hard.tilted_moments(1.0, m, v + 1).log_z, Probit().tilted_moments(1.0, m, v).log_z
    )


def test_theta():
    likelihood = NoisyThreshold(0.02, (1e-3, 0.3))
    assert likelihood.hyperparameter_names == ("epsilon",)
    np.testing.assert_array_equal(likelihood.theta, np.log([0.02]))
    np.testing.assert_allclose(likelihood.bounds, np.log([[1e-3, 0.3]]))
    moved = likelihood.with_theta(np.log([0.1]))
    assert moved == NoisyThreshold(moved.epsilon, (1e-3, 0.3))
    assert moved.epsilon == pytest.approx(0.1, rel=1e-15)
    fixed = NoisyThreshold(0.02, "fixed")
    assert fixed.theta.shape == (0,)
    assert fixed.hyperparameter_names == ()
    assert fixed.expected_log_prob_gradient(1.0, np.zeros(2), 1.0).shape == (0, 2)
    for wrong in (fixed, Probit(), Logit()):
        with pytest.raises(ValueError, match=r"theta has shape \(1,\), expected \(0,\)"):
            wrong.with_theta(np.zeros(1))
    with pytest.raises(ValueError, match="epsilon must be at least 0"):
        likelihood.with_theta(np.log([0.6]))


@pytest.mark.parametrize(
    ("settings_", "error", "message"),
    [
        ({"epsilon": 0.5}, ValueError, "at least 0 and below 0.5, got 0.5"),
        ({"epsilon": -1e-9}, ValueError, "at least 0"),
        ({"epsilon": np.nan}, ValueError, "got nan"),
        ({"epsilon": "0.1"}, TypeError, "must be a number, got '0.1'"),
        ({"epsilon_bounds": "free"}, TypeError, "a pair of numbers, got 'free'"),
        ({"epsilon_bounds": (0.1,)}, TypeError, "a pair of numbers"),
        ({"epsilon_bounds": [0.1, 0.2]}, TypeError, "a pair of numbers"),
        ({"epsilon_bounds": (0.2, 0.1)}, ValueError, "ascending"),
        ({"epsilon_bounds": (0.0, 0.1)}, ValueError, "positive"),
        ({"epsilon_bounds": (0.1, 0.5)}, ValueError, "below 0.5"),
    ],
)
def test_settings_out_of_range_are_refused(settings_, error, message):
    with pytest.raises(error, match=message):
        NoisyThreshold(**settings_)


class Holder(BaseEstimator):
    def __init__(self, likelihood=None):
        self.likelihood = likelihood


def test_scikit_learn_sees_the_settings():
    likelihood = NoisyThreshold(0.02, "fixed")
    assert clone(likelihood) == likelihood
    assert clone(likelihood) is not likelihood
    holder = clone(Holder(likelihood))
    assert holder.get_params()["likelihood__epsilon"] == 0.02
    assert holder.get_params()["likelihood__epsilon_bounds"] == "fixed"
    assert "likelihood__epsilon" not in Holder(Probit()).get_params()
    assert pickle.loads(pickle.dumps(likelihood)) == likelihood
    assert hash(likelihood) == hash(NoisyThreshold(0.02, "fixed"))
    with pytest.raises(FrozenInstanceError):
        likelihood.epsilon = 0.1


def test_quadrature_refuses_a_jump():
    likelihood = NoisyThreshold(0.1)
    for ask in (
        lambda: by_quadrature.tilted_moments(likelihood, 1.0, 0.0, 1.0),
        lambda: by_quadrature.power_moments(likelihood, 0.5, 1.0, 0.0, 1.0),
        lambda: by_quadrature.predict_proba(likelihood, 0.0, 1.0),
        lambda: by_quadrature.expected_log_prob(likelihood, 1.0, 0.0, 1.0),
    ):
        with pytest.raises(ValueError, match="'threshold' is not smooth"):
            ask()


@dataclass(frozen=True)
class Delegate(Likelihood):
    """A likelihood of one hyperparameter, to be broken: all answers from the noisy threshold."""

    epsilon: float = 0.1

    name: ClassVar[str] = "delegate"
    smooth: ClassVar[bool] = False
    log_concave: ClassVar[bool] = False

    @property
    def own(self):
        return NoisyThreshold(self.epsilon)

    @property
    def theta(self):
        return self.own.theta

    @property
    def bounds(self):
        return self.own.bounds

    @property
    def hyperparameter_names(self):
        return ("epsilon",)

    def with_theta(self, theta):
        return type(self)(self.own.with_theta(theta).epsilon)

    def log_prob(self, y, f):
        return self.own.log_prob(y, f)

    def derivatives(self, y, f):
        return self.own.derivatives(y, f)

    def tilted_moments(self, y, mean, var):
        return self.own.tilted_moments(y, mean, var)

    def power_moments(self, power, y, mean, var):
        return self.own.power_moments(power, y, mean, var)

    def linearise(self, mean, var):
        return self.own.linearise(mean, var)

    def expected_log_prob(self, y, mean, var):
        return self.own.expected_log_prob(y, mean, var)

    def predict_proba(self, mean, var):
        return self.own.predict_proba(mean, var)

    def log_z_gradient(self, y, mean, var, power=1.0):
        return self.own.log_z_gradient(y, mean, var, power)

    def expected_log_prob_gradient(self, y, mean, var):
        return self.own.expected_log_prob_gradient(y, mean, var)


def broken(method, change):
    """The noisy threshold with one method's answer changed by ``change(answer, *arguments)``."""

    def replaced(self, *arguments):
        return change(getattr(self.own, method)(*arguments), *arguments)

    return type("Broken", (Delegate,), {method: replaced})()


def smooth_linearisation(fit, mean, var):
    """A with the probit's 1 + v in place of v."""
    A = 2 * 0.8 * np.exp(-0.5 * mean**2 / (1 + var)) / np.sqrt(2 * np.pi * (1 + var))
    return fit._replace(A=A)


def misprinted_omega(fit, mean, var):
    beta = NoisyThreshold(0.1).predict_proba(mean, var)
    return fit._replace(Omega=1 - beta**2 - fit.A**2 * var)


class AtOddsWithItself(Delegate):
    def with_theta(self, theta):
        return type(self)(self.own.with_theta(theta).epsilon * (1 + 1e-9))


class Unnamed(Delegate):
    hyperparameter_names: ClassVar[tuple[str, ...]] = ()


class NotConcave(Delegate):
    log_concave: ClassVar[bool] = True


class Settled(Delegate):
    """Knows settings that scikit-learn cannot see."""

    def __init__(self, rate):
        super().__init__(rate)


def test_the_unbroken_delegate_keeps_the_laws():
    check_likelihood(Delegate())


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        (broken("derivatives", lambda a, y, f: Derivatives(a.first + 1e-6, *a[1:])), "first"),
        (broken("linearise", smooth_linearisation), "linearise: A"),
        (broken("linearise", misprinted_omega), "Omega"),
        # the curvature of log Z with the wrong sign
        (
            broken(
                "tilted_moments",
                lambda a, y, m, v: a._replace(variance=np.maximum(v - v * v * a.d2_mean, 0.0)),
            ),
            "tilted variance",
        ),
        (broken("tilted_moments", lambda a, *_: a._replace(d2_mean=-a.d2_mean)), "d2_mean"),
        (broken("expected_log_prob", lambda a, *_: a._replace(d_var=-a.d_var)), "d_var = dE/dv"),
        (
            # p^a is a noisy threshold only up to this factor
            broken(
                "power_moments",
                lambda a, p, *_: a._replace(log_z=a.log_z - np.log(0.1**p + 0.9**p)),
            ),
            "power_moments: power .* log_z",
        ),
        (
            broken("power_moments", lambda a, p, y, m, v: a._replace(mean=a.mean + 1e-6 * p)),
            "power_moments: power .* mean",
        ),
        # by epsilon, not by its logarithm
        (broken("log_z_gradient", lambda a, *_: a / 0.1), "log_z_gradient"),
        # right for the power one only
        (
            broken(
                "log_z_gradient",
                lambda a, y, m, v, p=1.0: p * NoisyThreshold(0.1).log_z_gradient(y, m, v),
            ),
            "log_z_gradient, power 0.3",
        ),
        (broken("expected_log_prob_gradient", lambda a, *_: -a), "expected_log_prob_gradient"),
        (broken("log_z_gradient", lambda a, *_: a[0]), "log_z_gradient: shape"),
        (
            broken("log_z_gradient", lambda a, y, m, v, p=1.0: np.where(v > 1e200, np.nan, a)),
            "finite: log_z_gradient",
        ),
        (AtOddsWithItself(), "theta"),
        (Unnamed(), "theta: 0 names"),
        (NotConcave(), "log_concave, but above var"),
    ],
)
def test_a_wrong_threshold_fails_the_law_it_breaks(wrong, law):
    with pytest.raises(AssertionError, match=law):
        check_likelihood(wrong)


def test_settings_that_are_not_known_are_refused():
    with pytest.raises(TypeError, match="Settled must be a frozen dataclass"):
        clone(Settled(0.1))
