"""Class probabilities of training rows given all others, beside refits without each row."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.metrics import log_loss

from gpclass import GaussianProcessClassifier
from gpclass.exceptions import NumericalWarning
from gpclass.inference import EP
from gpclass.inference.sites import Sites
from gpclass.learning import Learned, Learner, Node
from gpclass.priors.rows import without_own_sites
from helpers import rbf

# Settings, and the largest mean absolute difference of log probabilities from those of refits.
BINARY = {
    "ep": ({"inference": "ep"}, 0.012),
    "laplace": ({"inference": "laplace", "likelihood": "logit"}, 0.003),
    "pl": ({"inference": "pl"}, 0.012),
    "vi": ({"inference": "vi", "likelihood": "logit"}, 0.005),
    "bound": ({"inference": "bound", "likelihood": "logit"}, 0.02),
}
MANY = {
    "nested ep": ({}, 0.015),
    "softmax": ({"inference": "laplace", "likelihood": "logit"}, 0.006),
    "differences": ({"multi_class": "differences"}, 0.03),
    "differences, vi": ({"inference": "vi", "likelihood": "logit"}, 0.02),
    "one against the rest": ({"multi_class": "one_vs_rest"}, 0.015),
    "one against one": ({"multi_class": "one_vs_one"}, 0.015),
}
CASES = [pytest.param(2, *case, id=name) for name, case in BINARY.items()]
SLOW = ("differences, vi", "one against one", "one against the rest")
CASES += [
    pytest.param(3, *case, id=name, marks=[pytest.mark.slow] * (name in SLOW))
    for name, case in MANY.items()
]
KERNEL = 4.0 * RBF(1.0) + WhiteKernel(0.01)


def table(n_classes, n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    score = X[:, 0] + 0.5 * np.sin(2 * X[:, 1]) + 0.4 * rng.standard_normal(n)
    return X, np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))


def fixed(**settings):
    return GaussianProcessClassifier(KERNEL, optimizer=None, **settings)


def refits(X, y, weights=None, **settings):
    """Predictions of each row by a fit of all others."""
    P = []
    for i in range(len(y)):
        w = np.ones(len(y)) if weights is None else weights.copy()
        w[i] = 0.0
        P.append(fixed(**settings).fit(X, y, w).predict_proba(X[[i]])[0])
    return np.array(P)


def mean_difference(P, Q, y):
    rows = np.arange(len(y))
    return np.abs(np.log(P[rows, y]) - np.log(Q[rows, y])).mean()


@pytest.mark.parametrize(("n_classes", "settings", "tolerance"), CASES)
def test_probabilities_are_nearly_those_of_refits(n_classes, settings, tolerance):
    X, y = table(n_classes)
    model = fixed(**settings).fit(X, y)
    P = model.loo_proba_
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)
    Q = refits(X, y, **settings)
    assert mean_difference(P, Q, y) < tolerance
    assert model.loo_log_loss_ == pytest.approx(log_loss(y, P), abs=1e-12)
    # in sample the same rows look much better
    seen = mean_difference(model.predict_proba(X), Q, y)
    assert seen > 3 * tolerance or seen > 8 * mean_difference(P, Q, y)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("inference", ["ep", "laplace"])
def test_a_row_that_no_other_knows_has_its_prior(n_classes, inference):
    """Rows that are independent under the prior: without its site a row's latent is the prior's."""
    y = np.arange(9) % n_classes
    model = GaussianProcessClassifier("precomputed", inference=inference, optimizer=None)
    P = model.fit(3.0 * np.eye(9), y).loo_proba_
    np.testing.assert_allclose(P, 1 / n_classes, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_row_leaves_with_its_whole_weight(n_classes):
    X, y = table(n_classes, 20)
    weights = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 3.0], size=len(y))
    model = fixed().fit(X, y, weights)
    P, Q = model.loo_proba_, refits(X, y, weights)
    assert P.shape == (len(y), n_classes)
    assert mean_difference(P, Q, y) < 0.05
    zero = weights == 0
    np.testing.assert_allclose(P[zero], model.predict_proba(X[zero]), atol=1e-12)
    assert model.loo_log_loss_ == pytest.approx(log_loss(y, P, sample_weight=weights), abs=1e-12)


def test_pairs_predict_rows_of_other_classes():
    X, y = table(3, 24)
    weights = np.where(np.arange(len(y)) % 7 == 0, 0.0, 1.0)
    model = fixed(multi_class="one_vs_one").fit(X, y, weights)
    assert (
        mean_difference(model.loo_proba_, refits(X, y, weights, multi_class="one_vs_one"), y) < 0.02
    )
    plain = GaussianProcessClassifier("precomputed", optimizer=None, multi_class="one_vs_one").fit(
        KERNEL(X), y, weights
    )
    np.testing.assert_allclose(plain.loo_proba_, model.loo_proba_, atol=1e-9)


class ByEvidence(Learner):
    """A few kernels, weighted by their evidence."""

    def learn(self, problem, starts, *, init=None, n_jobs=None, progress=None):
        thetas = [problem.theta + step for step in (-0.8, 0.0, 0.8)]
        found = [problem.evaluate(theta, gradient=False) for theta in thetas]
        evidence = np.array([one.log_evidence for one in found])
        weights = np.exp(evidence - np.logaddexp.reduce(evidence))
        nodes = map(Node.of, thetas, found, weights)
        return Learned(tuple(nodes))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_of_settings_are_those_without_the_row(n_classes):
    X, y = table(n_classes, 20)
    model = GaussianProcessClassifier(4.0 * RBF(1.0), learning=ByEvidence())
    P = model.fit(X, y).loo_proba_
    keep = ~np.eye(len(y), dtype=bool)
    Q = np.array([model.fit(X[k], y[k]).predict_proba(X[[i]])[0] for i, k in enumerate(keep)])
    assert mean_difference(P, Q, y) < 0.02
    model.fit(X, y)
    alone = [
        np.exp(one.left_out_at(setting, np.ones(len(y))))
        for one in model.models_
        for setting in one.settings()
    ]
    held = np.einsum("k,knc->nc", [node.weight for node in model.models_[0].learned.nodes], alone)
    own = np.arange(len(y)), y
    # the weights of all rows favour settings that have seen the row
    assert (P[own] <= held[own] + 1e-12).all()
    assert mean_difference(P, Q, y) < mean_difference(held, Q, y)


def test_a_saved_model_has_them_too():
    X, y = table(3)
    model = fixed().fit(X, y)
    P = model.loo_proba_
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(again.loo_proba_, P, atol=1e-12)
    assert again.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()


@pytest.mark.slow
def test_before_fit_and_for_samples():
    with pytest.raises(NotFittedError):
        fixed().loo_proba_
    X, y = table(2, 20)
    model = fixed(inference="mcmc").fit(X, y)
    for name in ("loo_proba_", "loo_log_loss_"):
        with pytest.raises(AttributeError, match="leave-one-out needs Gaussian sites"):
            getattr(model, name)


def test_without_own_sites_is_the_posterior_of_the_others():
    rng = np.random.default_rng(2)
    n, k = 5, 3
    A = rng.standard_normal((n, k, k))
    prior = A @ A.transpose(0, 2, 1) + 0.1 * np.eye(k)
    d = rng.gamma(2.0, size=(n, k))
    W = d[:, :, None] * (np.eye(k) - (d / d.sum(1, keepdims=True))[:, None, :])
    m, b = rng.standard_normal((2, n, k))
    covariance = np.linalg.inv(np.linalg.inv(prior) + W)
    mean = np.einsum("icd,id->ic", covariance, np.linalg.solve(prior, m[..., None])[..., 0] + b)
    got = without_own_sites(mean, covariance, b, W)
    np.testing.assert_allclose(got[0], m, atol=1e-10)
    np.testing.assert_allclose(got[1], prior, atol=1e-10)


@pytest.mark.parametrize(("n_classes", "multi_class"), [(2, "joint"), (3, "differences")])
def test_an_improper_rest_is_said_and_unknown(n_classes, multi_class):
    """Given a negative precision of another row, one row's site holds the posterior together."""
    y = np.array([0, 1, 2])[:n_classes].repeat(2)
    K = rbf(np.arange(len(y))[:, None] * 1.0, length=3.0)
    model = GaussianProcessClassifier("precomputed", optimizer=None, multi_class=multi_class)
    model.fit(K, y)
    n = model.models_[0].problem.n_sites
    tau = np.zeros(n)
    tau[0], tau[-1] = 20.0, -1.02 if n_classes == 2 else -0.504
    node = replace(model.models_[0].learned.best, sites=Sites(np.zeros(n), tau))
    model.models_ = [type(one).of(one.problem, Learned((node,))) for one in model.models_]
    with pytest.warns(NumericalWarning, match="no proper posterior"):
        P = model.loo_proba_
    np.testing.assert_allclose(P[0], 1 / n_classes, atol=1e-6)
    assert np.isfinite(P).all()


def test_method_objects_and_labels_of_text():
    X, y = table(2)
    names = np.array(["no", "yes"])[y]
    model = fixed(inference=EP(schedule="sequential")).fit(X, names)
    np.testing.assert_allclose(model.loo_proba_, fixed().fit(X, y).loo_proba_, atol=1e-6)
