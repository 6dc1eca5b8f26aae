"""MAP predictions, entropies and slopes of a fitted classifier."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from gpclass import GaussianProcessClassifier
from gpclass.estimator.acquisition import entropy, expected_entropy
from gpclass.inference import Laplace
from gpclass.kernels import ColumnKernel, diagonal_slope, input_pullback
from gpclass.likelihoods import Logit, NoisyThreshold, Probit
from gpclass.montecarlo import MonteCarlo

X, Y = make_classification(50, 3, n_informative=2, n_redundant=0, class_sep=0.8, random_state=0)
NEW = np.random.default_rng(1).standard_normal((7, 3))
KERNEL = 4.0 * RBF([1.0, 2.0, 1.5]) + 0.5 * DotProduct(1.0)


def gpc(kernel=KERNEL, **settings):
    return GaussianProcessClassifier(kernel, optimizer=None, **settings)


# ------------------------------------------------------------------------------------------ MAP


@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_map_of_two_classes_is_the_label_at_the_mean_and_has_the_same_classes(likelihood):
    model = gpc(likelihood=likelihood).fit(X, Y)
    mean, _ = model.latent_mean_and_variance(NEW)
    squash = norm.cdf(mean) if likelihood == "probit" else 1.0 / (1.0 + np.exp(-mean))
    at_mean, averaged = model.predict_map(NEW), model.predict_proba(NEW)
    np.testing.assert_allclose(at_mean[:, 1], squash, rtol=1e-12)
    assert (at_mean.argmax(axis=1) == averaged.argmax(axis=1)).all()
    # RW06 Figure 3.9: averaging makes them less extreme
    assert (at_mean.max(axis=1) > averaged.max(axis=1)).all()


@pytest.mark.parametrize("inference", ["ep", "laplace"])
def test_map_of_three_classes_may_name_another(inference):
    """RW06 exercise 3.10.3, on two columns of iris."""
    iris = load_iris()
    model = gpc(10.0 * RBF(1.0) + 10.0, inference=inference).fit(iris.data[:, :2], iris.target)
    grid = np.stack(np.meshgrid(np.linspace(3, 9, 25), np.linspace(1, 6, 21)), -1).reshape(-1, 2)
    P, Q = model.predict_proba(grid), model.predict_map(grid)
    np.testing.assert_allclose(Q.sum(axis=1), 1.0)
    assert (P.argmax(axis=1) != Q.argmax(axis=1)).any()


@pytest.mark.parametrize("multi_class", ["differences", "one_vs_rest", "one_vs_one"])
def test_map_of_other_models(multi_class):
    iris = load_iris()
    model = gpc(RBF(1.0), multi_class=multi_class).fit(iris.data[::5], iris.target[::5])
    np.testing.assert_allclose(model.predict_map(iris.data[:4]).sum(axis=1), 1.0)


# ------------------------------------------------------------------------------------- entropies


@pytest.mark.parametrize("likelihood", [Probit(), Logit(), NoisyThreshold(0.1)])
@pytest.mark.parametrize(
    ("mean", "deviation"), [(0.0, 1.0), (2.0, 0.01), (-3.0, 5.0), (1.0, 200.0), (30.0, 20.0)]
)
def test_expected_entropy_against_adaptive_quadrature(likelihood, mean, deviation):
    def integrand(f):
        p = np.exp(likelihood.log_prob(np.array([-1.0, 1.0]), np.full(2, f)))
        return float(entropy(p)) * norm.pdf(f, mean, deviation)

    ends = np.unique(np.clip([-45.0, 0.0, mean, 45.0], mean - 9 * deviation, mean + 9 * deviation))
    ends = np.sort(np.concatenate([ends, [mean - 9 * deviation, mean + 9 * deviation]]))
    want = sum(
        quad(integrand, a, b, epsabs=1e-12, limit=400)[0] for a, b in pairwise(ends) if b > a
    )
    got = expected_entropy(likelihood, np.array([mean]), np.array([deviation**2]))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-8)


def test_expected_entropy_of_a_known_and_of_an_unknown_latent():
    got = expected_entropy(Probit(), np.array([0.0, 0.3]), np.array([0.0, 1e300]))
    np.testing.assert_allclose(got, [np.log(2.0), 0.0], atol=1e-9)


def test_bald_of_many_classes_against_plain_draws():
    iris = load_iris()
    model = gpc(4.0 * RBF(1.0), likelihood="logit", inference="laplace")
    model.fit(iris.data[::5], iris.target[::5])
    new = iris.data[1::30]
    mean, covariance = model.predict_latent(new)
    rng = np.random.default_rng(0)
    got = model.bald(new, n_draws=1024)
    for i in range(len(new)):
        f = rng.multivariate_normal(mean[i], covariance[i], 40_000)
        P = np.exp(f - f.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        want = entropy(P.mean(axis=0)) - entropy(P).mean()
        np.testing.assert_allclose(got[i], want, atol=5e-3)


@pytest.mark.parametrize("settings", [{}, {"multi_class": "differences"}, {"likelihood": "logit"}])
def test_bald_is_at_most_the_predictive_entropy(settings):
    model = gpc(**settings).fit(X, Y)
    far = np.vstack([NEW, 100.0 * NEW])
    assert (model.bald(far) >= 0.0).all()
    assert (model.bald(far) <= model.predictive_entropy(far)).all()
    np.testing.assert_allclose(model.predictive_entropy(far), entropy(model.predict_proba(far)))


def test_what_bald_cannot_answer_is_named():
    sampled = MonteCarlo(n_samples=200, n_burn=100, evidence=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the chains are short
        model = gpc(RBF(1.0), inference=sampled).fit(X[:10], Y[:10])
    with pytest.raises(ValueError, match="bald needs a Gaussian posterior"):
        model.bald(X)
    for wrong in (0, 1, 100, 1.5, True):
        with pytest.raises(ValueError, match="n_draws must be a power of two"):
            model.bald(X, n_draws=wrong)


@pytest.mark.parametrize("multi_class", ["one_vs_rest", "one_vs_one"])
def test_bald_of_several_binary_models_against_plain_draws(multi_class):
    iris = load_iris()
    model = gpc(4.0 * RBF(1.0), multi_class=multi_class)
    model.fit(iris.data[::5], iris.target[::5])
    new = iris.data[1::30]
    got = model.bald(new, n_draws=1024)
    assert (got > 0.0).all()
    rng = np.random.default_rng(0)
    latents = [one.latent(new) for one in model.models_]
    for i in range(len(new)):
        f = np.stack([m[i] + np.sqrt(v[i]) * rng.standard_normal(40_000) for m, v in latents])
        logs = np.log(np.stack([norm.cdf(-f), norm.cdf(f)])).transpose(2, 1, 0)
        P = model._decomposition.combine(logs, 3)
        want = entropy(P.mean(axis=0)) - entropy(P).mean()
        np.testing.assert_allclose(got[i], want, atol=5e-3)


# ---------------------------------------------------------------------------------------- slopes


def differences(f, Z, step=1e-5):
    """Central differences of f (m, ...) by the columns of Z, (m, ..., d)."""
    steps = step * np.eye(Z.shape[1])
    return np.stack([(f(Z + e) - f(Z - e)) / (2 * step) for e in steps], axis=-1)


KERNELS = [
    RBF(1.3),
    RBF([1.0, 2.0, 0.5]),
    Matern(1.2, nu=0.5),
    Matern([1.0, 2.0, 0.5], nu=1.5),
    Matern(1.2, nu=2.5),
    Matern(1.2, nu=1.1),
    Matern(1.2, nu=np.inf),
    DotProduct(0.7),
    2.0 * RBF(1.0) * DotProduct(1.0) + ConstantKernel(0.3) + WhiteKernel(0.1),
    DotProduct(0.7) ** 3,
    RBF(1.0) * ColumnKernel([2, 0], DotProduct(1.0)) + ColumnKernel(1, RBF(0.5)),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_slopes_of_kernels(kernel):
    G = np.random.default_rng(2).standard_normal((len(X), len(NEW)))
    want = differences(lambda Z: (G * kernel(X, Z)).sum(axis=0), NEW)
    np.testing.assert_allclose(input_pullback(kernel, X, NEW, G), want, rtol=1e-7, atol=1e-7)
    want = differences(kernel.diag, NEW)
    np.testing.assert_allclose(diagonal_slope(kernel, NEW), want, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    "settings",
    [{}, {"likelihood": "logit"}, {"inference": "laplace"}, {"likelihood": NoisyThreshold(0.05)}],
    ids=str,
)
def test_slopes_of_probabilities(settings):
    model = gpc(**settings).fit(X, Y)
    want = differences(model.predict_proba, NEW)
    np.testing.assert_allclose(model.predict_proba_gradient(NEW), want, rtol=1e-6, atol=1e-8)


def test_slopes_in_the_units_of_the_table():
    table = X * [1.0, 1e3, 1e-3] + [0.0, 5e3, 0.0]
    new = NEW * [1.0, 1e3, 1e-3] + [0.0, 5e3, 0.0]
    model = GaussianProcessClassifier().fit(np.column_stack([table, np.ones(len(X))]), Y)
    new = np.column_stack([new, np.ones(len(new))])
    found = model.predict_proba_gradient(new)
    assert (found[:, :, 3] == 0.0).all()
    for k, unit in enumerate([1.0, 1e3, 1e-3]):
        step = 1e-5 * unit * np.eye(4)[k]
        want = (model.predict_proba(new + step) - model.predict_proba(new - step)) / (2e-5 * unit)
        np.testing.assert_allclose(found[:, :, k], want, rtol=1e-5, atol=1e-7 / unit)


SEVERAL = {
    "nested EP": {},
    "softmax": {"inference": "laplace"},
    "variational": {"inference": Laplace(marginals="variational")},
    "differences": {"multi_class": "differences", "inference": "vi"},
    "differences by the logit": {"multi_class": "differences", "likelihood": "logit"},
    "one against the rest": {"multi_class": "one_vs_rest"},
    "one against one": {"multi_class": "one_vs_one"},
}


@pytest.mark.parametrize("model", SEVERAL)
def test_slopes_of_three_classes(model):
    iris = load_iris()
    model = gpc(4.0 * RBF(1.5) + 0.5 * DotProduct(1.0), **SEVERAL[model])
    model.fit(iris.data[::5], iris.target[::5])
    new = iris.data[1::30] + 0.05
    want = differences(model.predict_proba, new, step=1e-3)
    np.testing.assert_allclose(model.predict_proba_gradient(new), want, rtol=0, atol=2e-6)


def test_slopes_of_a_kernel_a_class_and_rows_without_weight():
    iris = load_iris()
    kernels = [4.0 * RBF(1.5) + 0.5 * DotProduct(1.0), 2.0 * RBF(1.0), Matern(2.0, nu=2.5)]
    weights = np.where(np.arange(30) % 7 == 0, 0.0, 1.0)
    model = gpc(kernels).fit(iris.data[::5], iris.target[::5], sample_weight=weights)
    new = iris.data[1::30] + 0.05
    want = differences(model.predict_proba, new)
    np.testing.assert_allclose(model.predict_proba_gradient(new), want, rtol=0, atol=1e-7)


def test_slopes_of_five_classes():
    X, y = make_classification(60, 5, n_informative=5, n_redundant=0, n_classes=5, random_state=0,
                               n_clusters_per_class=1)  # fmt: skip
    model = gpc(3.0 * RBF(3.0)).fit(X, y)
    want = differences(model.predict_proba, X[:3] + 0.1, step=0.05)
    found = model.predict_proba_gradient(X[:3] + 0.1)
    np.testing.assert_allclose(found.sum(axis=1), 0.0, atol=1e-12)
    # probabilities are known to 3e-5
    np.testing.assert_allclose(found, want, rtol=0, atol=5e-4)


def test_slopes_of_averaged_hyperparameters():
    iris = load_iris()
    model = GaussianProcessClassifier(4.0 * RBF(1.0), learning="ccd", hyperprior="weak")
    model.fit(iris.data[::10], iris.target[::10])
    assert len(model.models_[0].settings()) > 1
    new = iris.data[1::30] + 0.05
    want = differences(model.predict_proba, new)
    np.testing.assert_allclose(model.predict_proba_gradient(new), want, rtol=0, atol=1e-7)


def test_what_has_no_slope_is_named():
    with pytest.raises(ValueError, match="no derivative by the inputs is known for the kernel Rat"):
        gpc(RationalQuadratic()).fit(X, Y).predict_proba_gradient(X)
    text = np.column_stack([X.astype(object), np.where(X[:, 0] > 0, "a", "b")])
    model = GaussianProcessClassifier(inference="laplace").fit(text, Y)
    with pytest.raises(ValueError, match="the columns 3 have levels"):
        model.predict_proba_gradient(text)
    K = RBF(1.0)(X)
    with pytest.raises(ValueError, match="known for the kernel Precomputed"):
        gpc("precomputed").fit(K, Y).predict_proba_gradient(K)
