"""Labels of which a known share is wrong."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from gpclass import GaussianProcessClassifier, trusted_types
from gpclass.likelihoods import Logit, Mislabelled, NoisyThreshold, Probit
from gpclass.testing import check_likelihood


@pytest.mark.parametrize(
    ("likelihood", "rate"),
    [
        (Probit(), 0.05),
        pytest.param(Probit(), 0.4, marks=pytest.mark.slow),
        pytest.param(Logit(), 0.01, marks=pytest.mark.slow),
    ],
)
def test_the_laws_of_likelihoods(likelihood, rate):
    check_likelihood(Mislabelled(likelihood, rate))


def test_wrong_labels_are_given_up():
    X = np.linspace(-3, 3, 60)[:, None]
    right = np.where(X[:, 0] > 0, 1, 0)
    y = right.copy()
    y[[5, 12, 50]] = 1 - y[[5, 12, 50]]
    kernel = 25.0 * RBF(1.5)
    plain = GaussianProcessClassifier(kernel, optimizer=None).fit(X, y)
    model = GaussianProcessClassifier(kernel, optimizer=None, likelihood=Mislabelled()).fit(X, y)
    assert model.log_marginal_likelihood_value_ > plain.log_marginal_likelihood_value_ + 1.0
    P = model.predict_proba(X)[:, 1]
    assert P.min() >= 0.05
    assert P.max() <= 0.95
    at = [5, 12, 50]
    of_class = (P - 0.05) / 0.9
    wrong = np.abs(plain.predict_proba(X)[at, 1] - right[at])
    assert (np.abs(of_class[at] - right[at]) < wrong).all()


def test_a_model_is_saved():
    skops = pytest.importorskip("skops.io")
    X = np.linspace(-3, 3, 10)[:, None]
    model = GaussianProcessClassifier(optimizer=None, likelihood=Mislabelled(Logit(), 0.1))
    model.fit(X, X[:, 0] > 0)
    again = skops.loads(skops.dumps(model), trusted=trusted_types())
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("probit",), TypeError, "must be a Likelihood object, got 'probit'"),
        ((NoisyThreshold(0.1),), ValueError, "smooth and without hyperparameters"),
        ((Probit(), 0.5), ValueError, "below 0.5, got 0.5"),
        ((Probit(), 0.0), ValueError, "above 0"),
        ((Probit(), "few"), ValueError, "rate must be a number"),
    ],
)
def test_mistakes(arguments, error, message):
    with pytest.raises(error, match=message):
        Mislabelled(*arguments)
