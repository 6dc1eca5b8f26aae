"""Problems on which scikit-learn's Newton, full steps without a decrease test, goes wrong.

It returns an evidence above that of the mode and a posterior that has forgotten the labels. If a
version of scikit-learn mends this, the first assertion of each test fails and says so.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process import GaussianProcessClassifier as Theirs
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from gpclass import GaussianProcessClassifier
from helpers import folder


def fitted(Classifier, X, y, length, signal, **method):
    kernel = ConstantKernel(signal**2, "fixed") * RBF(length, "fixed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return Classifier(kernel, optimizer=None, **method).fit(X, y)


def residual(model):
    """Gradient of the log posterior by the latent values: zero at the mode."""
    q = model.approximation_.posterior
    labels = model.models_[0].problem.y
    likelihood = model.models_[0].problem.likelihood
    return np.abs(likelihood.derivatives(labels, q.mean).first - q.mean_weights).max()


def assert_ours_is_the_mode_and_theirs_is_not(X, y, length, signal):
    theirs = fitted(Theirs, X, y, length, signal)
    assert theirs.score(X, y) <= 0.6, "scikit-learn's Newton has been mended on this problem"
    ours = fitted(
        GaussianProcessClassifier, X, y, length, signal, inference="laplace", likelihood="logit"
    )
    assert ours.converged_
    assert residual(ours) <= 1e-10
    assert ours.score(X, y) >= 0.85
    # what scikit-learn calls the evidence is not the value at any mode: there is only one
    assert abs(theirs.log_marginal_likelihood_value_ - ours.log_marginal_likelihood_value_) > 0.05


@pytest.mark.parametrize(
    ("seed", "length", "signal"), [(0, 5.0, 1000.0), (1, 5.0, 300.0), (1, 5.0, 1000.0)]
)
def test_nearly_collinear_measurements(seed, length, signal):
    """Five measurements that all grow with size, and a class that bends them a little."""
    rng = np.random.default_rng(seed)
    size = rng.uniform(-1.7, 1.7, 180)
    y = np.arange(180) % 2
    bend = 0.1 * (2 * y[:, None] - 1) * np.array([0, 1.0, 0, -0.3, 0.2])
    X = size[:, None] + bend * (1 + 0.6 * size[:, None]) + 0.05 * rng.standard_normal((180, 5))
    assert_ours_is_the_mode_and_theirs_is_not(X, y, length, signal)


def test_a_fold_of_crabs_by_sex():
    table = pd.read_csv(folder("GPCLASS_DATA") / "crabs.csv.gz")
    X, y = table[["FL", "RW", "CL", "CW", "BD"]].to_numpy(), (table.sex == "M").to_numpy()
    train, _ = next(StratifiedKFold(10, shuffle=True, random_state=0).split(X, y))
    X = StandardScaler().fit_transform(X[train])
    assert_ours_is_the_mode_and_theirs_is_not(X, y[train], 5.0, 300.0)
