"""Names of hyperparameters for readers, and their draws."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from gpclass import GaussianProcessClassifier
from gpclass.estimator.draws import hyperparameter_draws
from gpclass.estimator.labels import labels_of_theta
from gpclass.exceptions import ConvergenceWarning
from gpclass.learning import NoUTurn
from helpers import noisy_problem

X, Y = noisy_problem(20)


def labels(kernel, likelihood="probit", codes=Y, **settings):
    model = GaussianProcessClassifier(kernel, likelihood=likelihood, optimizer=None, **settings)
    model.fit(X, codes)
    return labels_of_theta(model, model.models_[0].problem)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (1.0 * RBF(1.0), ("variance of the smooth part", "length-scale of the smooth part")),
        (
            Matern([1.0, 2.0]) * 2.0 + WhiteKernel(0.1),
            (
                "length-scale of column 0",
                "length-scale of column 1",
                "variance of the smooth part",
                "variance of the noise",
            ),
        ),
        (
            DotProduct(1.0) + ConstantKernel(1.0),
            ("sigma_0 of the linear part", "variance of the constant"),
        ),
        (
            RBF(1.0) + RBF(3.0) + 2.0 * ExpSineSquared() * RBF(1.0, "fixed") + WhiteKernel(),
            (
                "length-scale of the smooth part (k1__k1__k1__length_scale)",
                "length-scale of the smooth part (k1__k1__k2__length_scale)",
                "variance of the periodic part",
                "length-scale of the periodic part",
                "periodicity of the periodic part",
                "variance of the noise",
            ),
        ),
        (RationalQuadratic(), ("alpha of the smooth part", "length-scale of the smooth part")),
    ],
)
def test_parts_and_columns(kernel, expected):
    assert labels(kernel) == expected


def test_the_default_kernel_names_columns():
    frame = pd.DataFrame(X, columns=["glucose", "age"])
    model = GaussianProcessClassifier(optimizer=None, likelihood="threshold").fit(frame, Y)
    assert labels_of_theta(model, model.models_[0].problem) == (
        "variance of the smooth part",
        "length-scale of glucose",
        "length-scale of age",
        "variance of the linear part",
        "variance of the constant",
        "epsilon of the likelihood",
    )


def test_a_kernel_a_class():
    codes = np.arange(20) % 3
    assert labels([RBF(1.0), RBF(2.0), RBF(3.0)], codes=codes) == tuple(
        f"length-scale of the smooth part, kernel {k}" for k in (1, 2, 3)
    )


@pytest.fixture(scope="module")
def sampled():
    pytest.importorskip("mici")
    learner = NoUTurn(n_chains=2, n_warm_up=5, n_draws=8, n_kept=2)
    kernel = ConstantKernel(1.0, (0.5, 2.0)) * RBF(1.0)
    model = GaussianProcessClassifier(kernel, inference="laplace", learning=learner)
    with pytest.warns(ConvergenceWarning, match="effective draws"):
        return model.fit(X, Y)


def test_draws_are_those_that_predictions_average_over(sampled):
    found = hyperparameter_draws(sampled)
    assert list(found) == ["variance of the smooth part", "length-scale of the smooth part"]
    theta = np.stack([np.log(values) for values in found.values()], axis=-1)
    assert theta.shape == (2, 8, 2)
    kept = [node.theta for node in sampled.models_[0].learned.nodes[1:]]
    np.testing.assert_allclose(theta[:, [0, 7]].reshape(4, 2), kept, atol=1e-12)


def test_draws_for_arviz(sampled):
    arviz = pytest.importorskip("arviz", reason="ArviZ is an extra of its own")
    summary = arviz.summary(sampled.to_arviz())
    values = hyperparameter_draws(sampled)["variance of the smooth part"]
    assert summary.loc["variance of the smooth part", "mean"] == pytest.approx(
        values.mean(), abs=1e-3
    )


def test_draws_without_arviz_or_without_draws(sampled, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"pip install 'gpclass\[arviz\]'"):
        sampled.to_arviz()
    with pytest.raises(ValueError, match="problem must be from 0 to 0, got 1"):
        sampled.to_arviz(1)
    mode = GaussianProcessClassifier(RBF(1.0), optimizer=None).fit(X, Y)
    with pytest.raises(ValueError, match="learning='nuts'"):
        mode.to_arviz()
