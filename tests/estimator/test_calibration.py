"""The temperature of class probabilities, chosen by leave-one-out."""

import pickle

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.gaussian_process.kernels import RBF

from gpclass import GaussianProcessClassifier
from gpclass.estimator.calibration import best_temperature
from gpclass.estimator.intervals import probability_intervals
from gpclass.estimator.prediction import tempered
from gpclass.inference import Laplace
from gpclass.montecarlo import MonteCarlo

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
# Few labels are wrong, and a kernel of so little variance makes all probabilities too cautious.
CAUTIOUS = 0.3 * RBF(1.0)
NEW = 1.5 * RNG.standard_normal((15, 2))


def labels(n_classes):
    score = X[:, 0] + 0.1 * RNG.standard_normal(len(X))
    return np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))


Y = {C: labels(C) for C in (2, 3)}
MODELS = [
    (2, {}),
    (2, {"inference": "laplace", "likelihood": "logit"}),
    (3, {}),
    (3, {"inference": "laplace"}),
    (3, {"multi_class": "differences"}),
    (3, {"multi_class": "one_vs_rest"}),
    (3, {"multi_class": "one_vs_one"}),
]


def gpc(kernel=CAUTIOUS, calibration="loo", **settings):
    return GaussianProcessClassifier(kernel, calibration=calibration, optimizer=None, **settings)


def drawn(n, C, power, seed=0):
    """Log probabilities whose power gives the labels."""
    rng = np.random.default_rng(seed)
    log_p = log_softmax(2.0 * rng.standard_normal((n, C)), axis=1)
    P = np.exp(log_softmax(power * log_p, axis=1))
    return log_p, np.array([rng.choice(C, p=p) for p in P])


def gain_less_errors(log_p, y, weights, t):
    rows = np.repeat(np.arange(len(y)), weights)
    gain = (log_softmax(log_p * np.exp(t), axis=1) - log_p)[np.arange(len(y)), y][rows]
    n = len(gain)
    return gain.sum() - 2.0 * np.sqrt(n) * gain.std(ddof=1) - 0.5 * (t / 0.35) ** 2


@pytest.mark.parametrize(("power", "C"), [(2.0, 3), (0.4, 2), (3.0, 10)])
def test_the_temperature_maximises_the_gain_less_two_errors(power, C):
    log_p, y = drawn(150, C, power)
    weights = np.arange(150) % 3
    t = -np.log(best_temperature(log_p, y, weights.astype(float)))
    found = gain_less_errors(log_p, y, weights, t)
    assert found > 0.0
    for other in np.linspace(-2.0, 2.0, 201):
        assert gain_less_errors(log_p, y, weights, other) <= found + 1e-12
    assert np.sign(t) == np.sign(np.log(power))


def test_probabilities_that_are_right_stay():
    found = [best_temperature(*drawn(100, 3, 1.0, seed), np.ones(100)) for seed in range(20)]
    assert np.mean(np.array(found) == 1.0) > 0.8
    assert np.ptp(found) < 0.1


@pytest.mark.parametrize("log_p", [[[-1.0, -0.5]], [[0.0, -700.0]] * 40])
def test_a_row_and_rows_that_are_sure_say_nothing(log_p):
    log_p = log_softmax(np.array(log_p), axis=1)
    assert best_temperature(log_p, np.zeros(len(log_p), dtype=int), np.ones(len(log_p))) == 1.0


def test_logarithms_of_any_size_stay_finite():
    log_p = np.array([[0.0, -1e308], [-5e307, 0.0], [np.log(0.5)] * 2])
    for temperature in (0.05, 0.5, 20.0):
        found = tempered(log_p, temperature)
        assert np.isfinite(found).all()
        np.testing.assert_allclose(np.exp(found), [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])


@pytest.mark.parametrize(("C", "settings"), MODELS, ids=str)
def test_a_power_of_the_probabilities_and_nothing_else(C, settings):
    model, plain = (gpc(calibration=c, **settings).fit(X, Y[C]) for c in ("loo", None))
    T = model.temperature_
    assert T < 0.9
    assert plain.temperature_ == 1.0
    P = plain.predict_proba(NEW) ** (1.0 / T)
    P /= P.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(NEW), P, rtol=1e-10)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(NEW)), P, rtol=1e-10)
    np.testing.assert_array_equal(model.predict(NEW), plain.predict(NEW))
    assert model.log_marginal_likelihood_value_ == plain.log_marginal_likelihood_value_
    assert model.loo_log_loss_ < plain.loo_log_loss_
    found = best_temperature(np.log(plain.loo_proba_), Y[C], np.ones(len(X)))
    assert found == pytest.approx(T, rel=1e-9)


@pytest.mark.parametrize(("C", "settings"), MODELS, ids=str)
def test_a_weight_is_the_row_repeated(C, settings):
    counts = np.random.default_rng(1).integers(0, 4, len(X))
    weighted = gpc(**settings).fit(X, Y[C], counts)
    repeated = gpc(**settings).fit(np.repeat(X, counts, axis=0), np.repeat(Y[C], counts))
    assert weighted.temperature_ == pytest.approx(repeated.temperature_, abs=1e-7)
    assert repeated.temperature_ < 0.9
    np.testing.assert_allclose(weighted.predict_proba(NEW), repeated.predict_proba(NEW), atol=1e-7)


@pytest.mark.parametrize("C", [2, 3])
def test_rows_columns_and_names_in_another_order(C):
    order = RNG.permutation(len(X))
    here = gpc().fit(X, Y[C])
    there = gpc().fit(X[order][:, ::-1], C - Y[C][order])
    np.testing.assert_allclose(
        there.predict_proba(NEW[:, ::-1])[:, ::-1], here.predict_proba(NEW), atol=1e-8
    )


@pytest.mark.filterwarnings("ignore::gpclass.exceptions.ConvergenceWarning")
def test_what_has_one():
    assert GaussianProcessClassifier(optimizer=None).fit(X / 9.0, Y[2]).temperature_ < 1.0
    assert gpc(calibration="auto").fit(X, Y[2]).temperature_ == 1.0
    few = {"inference": MonteCarlo(20, 5, 2, 1, evidence=False), "optimizer": None}
    assert GaussianProcessClassifier(**few).fit(X[:9], Y[2][:9]).temperature_ == 1.0
    for inference in ("mcmc", few["inference"]):
        with pytest.raises(ValueError, match="calibration='loo' needs leave-one-out"):
            gpc(inference=inference).fit(X, Y[2])
    with pytest.raises(ValueError, match="calibration='sigmoid' does not exist"):
        gpc(calibration="sigmoid").fit(X, Y[2])
    with pytest.raises(TypeError, match="calibration must be one of"):
        gpc(calibration=True).fit(X, Y[2])


def test_it_is_kept_and_follows_the_hyperparameters():
    model = gpc().fit(X, Y[3])
    again = pickle.loads(pickle.dumps(model))
    assert again.predict_proba(NEW).tobytes() == model.predict_proba(NEW).tobytes()
    theta = np.log([30.0, 1.5])
    again.log_marginal_likelihood(theta, clone_kernel=False)
    other = gpc(CAUTIOUS.clone_with_theta(theta)).fit(X, Y[3])
    assert again.temperature_ == pytest.approx(other.temperature_, rel=1e-6)
    assert abs(other.temperature_ - model.temperature_) > 0.1
    assert f"temperature {model.temperature_:.2g}" in model.summary()


@pytest.mark.parametrize(("C", "settings"), [(2, {}), (3, {"multi_class": "one_vs_rest"})])
def test_slopes(C, settings):
    model = gpc(**settings).fit(X, Y[C])
    steps = 1e-5 * np.eye(2)
    want = [(model.predict_proba(NEW + e) - model.predict_proba(NEW - e)) / 2e-5 for e in steps]
    got = model.predict_proba_gradient(NEW)
    np.testing.assert_allclose(got, np.stack(want, axis=-1), atol=1e-8)


@pytest.mark.parametrize(("C", "settings"), MODELS[:-1], ids=str)
def test_intervals_have_the_probability_inside(C, settings):
    model = gpc(**settings).fit(X, Y[C])
    P, found = model.predict_proba(NEW), probability_intervals(model, NEW)
    assert (found.lower <= P + 1e-4).all()
    assert (found.upper >= P - 1e-4).all()


@pytest.mark.slow
def test_the_variational_gaussian_has_its_own():
    """Where it predicts, leave-one-out is its own too."""
    method = Laplace(marginals="variational")
    model = gpc(inference=method).fit(X, Y[3])
    plain = gpc(calibration=None, inference=method).fit(X, Y[3])
    assert model.temperature_ < 0.9
    assert model.loo_log_loss_ < plain.loo_log_loss_
