"""What the papers compare with: against brute force, closed forms and the classifier itself."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel
from sklearn.metrics import log_loss
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpclass import GaussianProcessClassifier
from gpclass.app.datasets import load_dataset
from gpclass.estimator.baselines import (
    GaussianProcessLeastSquaresClassifier,
    LinearProbitClassifier,
    NearestNeighbourClassifier,
)
from gpclass.estimator.baselines.least_squares import LeaveOneOut, _by_evidence, _by_loo
from gpclass.kernels import evaluate
from gpclass.metrics import information_bits
from helpers import folder

KERNEL = 1.5 * RBF([1.0, 2.0, 1.0]) + WhiteKernel(0.5)


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(70, 3, n_informative=2, n_redundant=0, class_sep=0.7, random_state=0)
    return X, np.array(["no", "yes"])[y]


@pytest.mark.slow
@parametrize_with_checks(
    [
        NearestNeighbourClassifier(),
        LinearProbitClassifier(),
        GaussianProcessLeastSquaresClassifier(),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_nearest_neighbour_against_a_loop(data):
    X, y = data
    D = np.linalg.norm(X[:, None] - X, axis=2) + np.diag(np.full(len(X), np.inf))
    share = np.mean(y[D.argmin(axis=1)] == y)
    model = NearestNeighbourClassifier().fit(X, y)
    assert model.accuracy_ == share
    new = X + 0.01
    nearest = y[np.linalg.norm(new[:, None] - X, axis=2).argmin(axis=1)]
    P = model.predict_proba(new)
    np.testing.assert_allclose(P[np.arange(len(X)), (nearest == "yes").astype(int)], share)
    assert (model.predict(new) == nearest).all()
    np.testing.assert_allclose(model.distance(new), 0.01 * np.sqrt(3), rtol=1e-6)


def test_the_other_class_where_the_neighbour_is_wrong_more_often():
    X = np.arange(6.0)[:, None]
    model = NearestNeighbourClassifier().fit(X, [0, 1, 0, 1, 0, 1])
    assert model.accuracy_ == 0.0
    assert model.predict(X).tolist() == [1, 0, 1, 0, 1, 0]


def test_leave_one_out_is_the_regression_without_the_row(data):
    X, y = data
    t = np.where(y == "yes", 1.0, -1.0)
    loo = LeaveOneOut.of(evaluate(KERNEL, X), t)
    # scikit-learn's regression as the judge
    for i in (0, 17, 69):
        rest = np.arange(len(X)) != i
        judge = GaussianProcessRegressor(KERNEL, optimizer=None, alpha=0.0).fit(X[rest], t[rest])
        mean, deviation = judge.predict(X[i : i + 1], return_std=True)
        np.testing.assert_allclose([loo.mean[i], loo.variance[i]], [mean[0], deviation[0] ** 2])
    judge = GaussianProcessRegressor(KERNEL, optimizer=None, alpha=0.0).fit(X, t)
    np.testing.assert_allclose(loo.log_evidence, judge.log_marginal_likelihood(KERNEL.theta))


@pytest.mark.parametrize("use_variance", [True, False])
def test_gradients_are_those_of_differences(data, use_variance):
    X, y = data
    t = np.where(y == "yes", 1.0, -1.0)
    params = np.append(KERNEL.theta, [1.3, -0.2])
    cases = [(_by_loo, params, (KERNEL, X, t, use_variance, KERNEL.n_dims))]
    cases.append((_by_evidence, KERNEL.theta, (KERNEL, X, t)))
    for objective, at, args in cases:
        gradient = objective(at, *args)[1]
        for k in range(len(at)):
            step = 1e-5 * np.eye(len(at))[k]
            up, down = objective(at + step, *args)[0], objective(at - step, *args)[0]
            np.testing.assert_allclose(gradient[k], (up - down) / 2e-5, rtol=1e-6, atol=1e-6)


def test_least_squares_learns(data):
    X, y = data
    found = {}
    for objective in ("loo", "evidence"):
        model = GaussianProcessLeastSquaresClassifier(objective=objective).fit(X, y)
        fixed = GaussianProcessLeastSquaresClassifier(model.kernel_, optimizer=None).fit(X, y)
        found[objective] = log_loss(y, model.loo_proba_)
        np.testing.assert_allclose(log_loss(y, fixed.loo_proba_), found[objective], rtol=2e-3)
    assert found["loo"] <= found["evidence"] < 0.6


def test_linear_probit_is_the_process_with_a_linear_kernel(data):
    X, y = data
    for method in ("laplace", "ep"):
        model = LinearProbitClassifier(3.0, inference=method, optimizer=None).fit(X, y)
        kernel = ConstantKernel(3.0) * DotProduct(1.0, "fixed")
        judge = GaussianProcessClassifier(kernel, inference=method, optimizer=None).fit(X, y)
        np.testing.assert_allclose(
            model.log_marginal_likelihood_value_,
            judge.log_marginal_likelihood_value_,
            rtol=1e-8,
        )
        np.testing.assert_allclose(
            model.predict_proba(2 * X), judge.predict_proba(2 * X), rtol=0, atol=1e-8
        )
        mean, _ = model.latent_mean_and_variance(X)
        np.testing.assert_allclose(mean, X @ model.coef_[0] + model.intercept_[0])


def test_linear_probit_learns_what_the_process_learns(data):
    X, y = data
    model = LinearProbitClassifier().fit(X, y)
    kernel = ConstantKernel(1.0) * DotProduct(1.0, "fixed")
    judge = GaussianProcessClassifier(kernel, inference="laplace").fit(X, y)
    np.testing.assert_allclose(model.kernel_.theta, judge.kernel_.theta, atol=1e-4)


def test_linear_probit_needs_no_square_matrix():
    # the covariance alone would be 80 GB
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100_000, 2))
    y = rng.uniform(size=len(X)) < 1 / (1 + np.exp(-X @ [2.0, -1.0]))
    model = LinearProbitClassifier(optimizer=None).fit(X, y)
    assert model.coef_[0] @ [2.0, -1.0] / np.linalg.norm(model.coef_) > 2.23


def test_many_classes_by_one_against_the_rest():
    X, y = make_classification(60, 4, n_informative=3, n_redundant=0, n_classes=3, random_state=1)
    P = OneVsRestClassifier(LinearProbitClassifier()).fit(X, y).predict_proba(X)
    assert P.shape == (60, 3)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (LinearProbitClassifier(-1.0), "weight_variance must be a positive number"),
        (LinearProbitClassifier(inference="mcmc"), "values that do are: 'laplace'"),
        (GaussianProcessLeastSquaresClassifier(objective="aic"), "objective must be one of"),
        (GaussianProcessLeastSquaresClassifier(optimizer="adam"), "optimizer must be"),
    ],
)
def test_wrong_arguments_are_named(data, model, says):
    with pytest.raises(ValueError, match=says):
        model.fit(*data)


def test_more_classes_name_the_wrapper(data):
    X, _ = data
    with pytest.raises(ValueError, match="OneVsRestClassifier"):
        LinearProbitClassifier().fit(X, np.arange(len(X)) % 3)


def test_digits_of_the_book():
    """RW06 section 3.7.3: evidence -105 of the linear probit (at a theta whose inverse is 2.0)."""
    folder("GPCLASS_DATA")
    train, test = load_dataset("usps_3v5_train"), load_dataset("usps_3v5_test")
    model = LinearProbitClassifier(4.0).fit(train.X, train.y)
    np.testing.assert_allclose(model.log_marginal_likelihood_value_, -104.98, atol=0.01)
    np.testing.assert_allclose(1.0 / np.sqrt(model.kernel_.k1.constant_value), 2.0, atol=0.05)
    nearest = NearestNeighbourClassifier().fit(train.X, train.y)
    assert (nearest.predict(test.X) != test.y).sum() == 20


@pytest.mark.slow
def test_least_squares_are_the_best_on_the_digits_of_the_book():
    """RW06 Figure 3.10: fewer errors and more bits than EP, which has 21 and 0.89 at its best."""
    folder("GPCLASS_DATA")
    train, test = load_dataset("usps_3v5_train"), load_dataset("usps_3v5_test")
    kernel = 10.0 * RBF(10.0) + WhiteKernel(0.1)
    model = GaussianProcessLeastSquaresClassifier(kernel, use_variance=False)
    model.fit(train.X, train.y)
    assert (model.predict(test.X) != test.y).sum() <= 14
    P = model.predict_proba(test.X)
    assert information_bits(test.y, P, labels=model.classes_) > 0.9
