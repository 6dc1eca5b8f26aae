"""Bad input is a ValueError or TypeError that names it, and nothing is left half fitted."""

import functools
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
)

from gpclass import GaussianProcessClassifier

N = 12
X = np.random.default_rng(0).normal(size=(N, 2))
Y = np.arange(N) % 2
K = RBF()(X)


def changed(table, row, column, value):
    table = table.copy()
    table[row, column] = value
    return table


def asymmetric():
    return changed(K, 0, 1, K[0, 1] + 0.1)


# name -> (X, y, message)
BAD_DATA = {
    "X with NaN": (X * np.nan, Y, "X contains NaN"),
    "X with infinity": (changed(X, 2, 0, np.inf), Y, "X contains infinity"),
    "X with minus infinity": (changed(X, 2, 0, -np.inf), Y, "X contains infinity"),
    "X without rows": (np.empty((0, 2)), [], r"0 sample\(s\)"),
    "X without columns": (np.empty((N, 0)), Y, r"0 feature\(s\)"),
    "X is one row": (X[:1], Y[:1], "2 or more distinct classes; got 1 class"),
    "X is a vector": (X[:, 0], Y, "Expected 2D array, got 1D array"),
    "X of three dimensions": (X[:, :, None], Y, "dim 3"),
    "X is None": (None, Y, "Expected 2D array"),
    "X is a number": (3.0, Y, "Expected 2D array"),
    "X complex": (X + 1j, Y, "Complex data not supported"),
    "X of strings": (np.array([["a", "b"]] * N), Y, "could not convert string to float.*'a'"),
    "X with a column of strings": (
        pd.DataFrame({"a": ["red"] * N, "b": X[:, 0]}),
        Y,
        "could not convert string to float: 'red'",
    ),
    "X longer than y": (X, Y[:-1], "inconsistent numbers of samples: .12, 11."),
    "y longer than X": (X[:-1], Y, "inconsistent numbers of samples: .11, 12."),
    "y is None": (X, None, "requires y to be passed"),
    "y continuous": (X, X[:, 0], "Unknown label type: continuous"),
    "y with NaN": (X, np.where(Y == 1, np.nan, 0.0), "y contains NaN"),
    "y with infinity": (X, np.where(Y == 1, np.inf, 0.0), "y contains infinity"),
    "y of one class": (X, 0 * Y, r"2 or more distinct classes; got 1 class \(only \[0\]\)"),
    "y of two columns": (X, np.c_[Y, 1 - Y], "y should be a 1d array"),
    "y of mixed types": (X, np.array([0, "a"] * (N // 2), dtype=object), "Unknown label type"),
    "y with None": (X, np.array([None, "a"] * (N // 2), dtype=object), "y contains NaN or other"),
    "y is a number": (X, 1, "y"),
}

BAD_WEIGHTS = {
    "negative": (-np.ones(N), "Negative values in data passed to `sample_weight`"),
    "one negative": (np.r_[-1e-300, np.ones(N - 1)], "Negative values.*`sample_weight`"),
    "NaN": (np.r_[np.nan, np.ones(N - 1)], "sample_weight contains NaN"),
    "infinite": (np.r_[np.inf, np.ones(N - 1)], "sample_weight contains infinity"),
    "all zero": (np.zeros(N), "[Ss]ample weights must contain at least one non-zero"),
    "a negative number": (-1.0, "Negative values.*`sample_weight`"),
    "too short": (np.ones(N - 1), r"sample_weight.shape == \(11,\), expected \(12,\)"),
    "too long": (np.ones(N + 1), r"sample_weight.shape == \(13,\), expected \(12,\)"),
    "two columns": (np.ones((N, 2)), "[Ss]ample weights must be 1D"),
    "zero for a class": (Y == 0, r"only \[0\]\) among the rows of positive weight"),
    "strings": (["a"] * N, "sample_weight"),
    "complex": (np.ones(N) * 1j, "sample_weight"),
}

EXISTING = "the (values|names) (that do )?are"
BAD_ARGUMENTS = [
    ("kernel", "rbf", "kernel='rbf'.*'precomputed'"),
    ("kernel", 3, "kernel must be .*got 3"),
    ("kernel", RBF, "kernel must be .*instance.*class"),
    ("kernel", [RBF()], "kernel is a list of 1"),
    ("kernel", lambda a, b: 1.0, "kernel must be"),
    ("kernel", CompoundKernel([RBF(), RBF()]), "kernel cannot be a CompoundKernel"),
    ("kernel", RBF([1.0, 1.0, 1.0]), r"length_scale has shape \(3,\), but X has 2 columns"),
    ("kernel", 2.0 * RBF() * Matern([1.0, 1.0, 1.0]), r"length_scale .*but X has 2 columns"),
    ("kernel", RationalQuadratic([1.0, 1.0]), "(RationalQuadratic|length_scale)"),
    ("kernel", RBF(np.nan), "kernel RBF"),
    ("kernel", RBF(-1.0), "length_scale"),
    ("kernel", ConstantKernel(-1.0) * RBF(), "constant_value"),
    ("kernel", ConstantKernel(np.inf) * RBF(), "kernel inf"),
    ("kernel", RBF(1.0, (10.0, 0.1)), "bound"),
    ("kernel", RBF(1.0, (np.nan, 1.0)), "bound"),
    ("kernel", RBF(1.0, "free"), "bound"),
    ("likelihood", "student", f"likelihood='student'.*{EXISTING}.*'probit', 'logit'"),
    ("likelihood", 3, "likelihood must be .*got 3"),
    ("likelihood", None, "likelihood must be .*got None"),
    ("inference", "ep2", f"inference='ep2'.*{EXISTING}.*'laplace'"),
    ("inference", 3, "inference must be .*got 3"),
    ("inference", None, "inference must be .*got None"),
    ("inference", int, "inference must be .*got .*int"),
    ("inference", len, "inference"),
    ("learning", "gradient", f"learning='gradient'.*{EXISTING}.*'evidence'"),
    ("learning", 3, "learning must be .*got 3"),
    ("learning", None, "learning must be .*got None"),
    ("multi_class", "crammer", f"multi_class='crammer'.*{EXISTING}.*'one_vs_rest', 'one_vs_one'"),
    ("multi_class", 3, "multi_class must be .*got 3"),
    ("multi_class", None, "multi_class must be .*got None"),
    ("inducing", 500, "inducing=500 asks for 500 points, and X has .* rows"),
    ("hyperprior", "strong", f"hyperprior='strong'.*{EXISTING}"),
    ("class_weight", "equal", f"class_weight='equal'.*{EXISTING}.*'balanced'"),
    ("class_weight", 3, "class_weight must be .*got 3"),
    ("class_weight", [1.0, 2.0], "class_weight must be .*dict"),
    ("class_weight", {5: 1.0}, r"class_weight has labels \[5\] that are not in y, .*\[0, 1\]"),
    ("class_weight", {"0": 1.0}, r"class_weight has labels \['0'\]"),
    ("class_weight", {0: -1.0}, "class_weight must be .*not negative.*-1"),
    ("class_weight", {0: np.nan}, "class_weight must be finite"),
    ("class_weight", {0: np.inf}, "class_weight must be finite"),
    ("class_weight", {0: None}, "class_weight"),
    ("class_weight", {0: "a"}, "class_weight"),
    ("class_weight", {0: 0.0}, r"got 1 class \(only \[1\]\) among the rows of positive weight"),
    ("class_weight", {0: 0.0, 1: 0.0}, r"got 0 class.*among the rows of positive weight"),
    ("optimizer", "adam", "optimizer must be .*got 'adam'"),
    ("optimizer", 3, "optimizer must be .*got 3"),
    ("optimizer", int, "optimizer"),
    ("optimizer", lambda f, theta, bounds: theta, "optimizer"),
    ("optimizer", lambda f, theta, bounds: None, "optimizer"),
    ("optimizer", lambda f, theta, bounds: (np.r_[theta, theta], 0.0), "(theta|optimizer)"),
    ("optimizer", lambda f, theta, bounds: (theta * np.nan, 0.0), "optimizer"),
    ("n_restarts_optimizer", -1, "n_restarts_optimizer must be at least 0, got -1"),
    ("n_restarts_optimizer", 1.5, "n_restarts_optimizer must be an integer, got 1.5"),
    ("n_restarts_optimizer", "2", "n_restarts_optimizer must be an integer, got '2'"),
    ("n_restarts_optimizer", None, "n_restarts_optimizer must be an integer, got None"),
    ("max_iter_predict", 0, "max_iter_predict must be at least 1, got 0"),
    ("max_iter_predict", 1.5, "max_iter_predict must be an integer, got 1.5"),
    ("max_iter_predict", np.inf, "max_iter_predict must be an integer, got inf"),
    ("warm_start", "yes", "warm_start must be True or False, got 'yes'"),
    ("warm_start", None, "warm_start must be True or False, got None"),
    ("copy_X_train", "yes", "copy_X_train must be True or False, got 'yes'"),
    ("random_state", "seed", "(random_state|RandomState)"),
    ("random_state", 1.5, "(random_state|RandomState)"),
    ("random_state", -1, "([Ss]eed|random_state)"),
    ("n_jobs", 0, "n_jobs must not be 0"),
    ("n_jobs", 1.5, "n_jobs must be an integer, got 1.5"),
    ("n_jobs", "all", "n_jobs must be an integer, got 'all'"),
    ("verbose", -1, "verbose must be at least 0, got -1"),
    ("verbose", "loud", "verbose must be an integer, got 'loud'"),
    ("verbose", None, "verbose must be an integer, got None"),
]

NEGATIVE_DIAGONAL = K - 2.0 * np.eye(N)
INDEFINITE = changed(changed(K, 0, 1, 30.0), 1, 0, 30.0)
BAD_MATRICES = {
    "not square": (K[:, :5], r"X has shape \(12, 5\).*precomputed.*square"),
    "not symmetric": (asymmetric(), "X, the Gram matrix, is not symmetric"),
    "NaN": (changed(K, 0, 0, np.nan), "X contains NaN"),
    "a negative diagonal": (NEGATIVE_DIAGONAL, r"X, the Gram matrix.*X\[0, 0\].*negative"),
    "indefinite": (INDEFINITE, "positive semi-definite"),
}


def _cases():
    """Every bad fit: settings of the estimator, arguments of fit, and the message."""
    for name, (table, labels, match) in BAD_DATA.items():
        yield pytest.param({"kernel": RBF()}, (table, labels), match, id=name)
    for name, (weights, match) in BAD_WEIGHTS.items():
        yield pytest.param({"kernel": RBF()}, (X, Y, weights), match, id=f"weights {name}")
    for number, (argument, value, match) in enumerate(BAD_ARGUMENTS):
        settings = {"kernel": RBF()} | {argument: value}
        yield pytest.param(settings, (X, Y), match, id=f"{argument} {number}")
    for name, (matrix, match) in BAD_MATRICES.items():
        yield pytest.param({"kernel": "precomputed"}, (matrix, Y), match, id=f"matrix {name}")
    for number, kernel in enumerate([RBF(1.0, (1e-3, np.inf)), 2.0 * RBF(1.0, (0.0, 1.0))]):
        yield pytest.param(
            {"kernel": kernel, "n_restarts_optimizer": 2},
            (X, Y),
            "n_restarts_optimizer > 0.*bounds must be finite",
            id=f"infinite bounds {number}",
        )


bad_fits = pytest.mark.parametrize(("settings", "arguments", "match"), list(_cases()))


@bad_fits
def test_a_bad_fit_is_refused_by_name_and_leaves_nothing(settings, arguments, match):
    model = GaussianProcessClassifier(**settings)
    before = set(vars(model))
    with pytest.raises((ValueError, TypeError), match=match):
        model.fit(*arguments)
    assert set(vars(model)) - before == set()
    with pytest.raises(NotFittedError):
        model.predict(X)


@bad_fits
def test_a_failed_refit_keeps_the_earlier_fit(settings, arguments, match):
    model = pickle.loads(pickle.dumps(fitted_model()))
    P, original = model.predict_proba(X), model.get_params(deep=False)
    model.set_params(**{"optimizer": "fmin_l_bfgs_b"} | settings)
    with pytest.raises((ValueError, TypeError), match=match):
        model.fit(*arguments)
    model.set_params(**original)
    assert np.array_equal(model.predict_proba(X), P)


def test_a_failed_refit_on_another_table_keeps_the_earlier_fit():
    fitted = GaussianProcessClassifier(RBF(), optimizer=None)
    fitted.fit(pd.DataFrame(X, columns=["a", "b"]), Y)
    P = fitted.predict_proba(pd.DataFrame(X, columns=["a", "b"]))
    with pytest.raises(ValueError, match="1 class"):
        fitted.fit(pd.DataFrame(np.c_[X, X], columns=list("abcd")), 0 * Y)
    assert fitted.n_features_in_ == 2
    assert fitted.feature_names_in_.tolist() == ["a", "b"]
    assert np.array_equal(fitted.predict_proba(pd.DataFrame(X, columns=["a", "b"])), P)


def test_a_failed_fit_does_not_change_its_input():
    table, labels, kernel = X.copy(), Y.copy(), 1.0 * RBF([1.0, 1.0, 1.0])
    theta = kernel.theta.copy()
    with pytest.raises(ValueError, match="length_scale"):
        GaussianProcessClassifier(kernel).fit(table, labels)
    assert np.array_equal(table, X)
    assert np.array_equal(labels, Y)
    assert np.array_equal(kernel.theta, theta)


# ------------------------------------------------------------------- predict

METHODS = ["predict", "predict_proba", "decision_function", "latent_mean_and_variance"]


@functools.cache
def fitted_model():
    return GaussianProcessClassifier(RBF(), optimizer=None).fit(X, Y)


@pytest.mark.parametrize("method", METHODS)
def test_an_estimator_that_is_not_fitted_says_so(method):
    with pytest.raises(NotFittedError, match="GaussianProcessClassifier instance is not fitted"):
        getattr(GaussianProcessClassifier(), method)(X)


def test_what_fit_learns_is_not_there_before():
    model = GaussianProcessClassifier()
    with pytest.raises(NotFittedError, match="not fitted"):
        model.log_marginal_likelihood()
    for name in ("kernel_", "approximation_"):
        with pytest.raises(NotFittedError, match="not fitted"):
            getattr(model, name)
        assert not hasattr(model, name)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("table", "match"),
    [
        (np.ones((3, 3)), "X has 3 features, but GaussianProcessClassifier is expecting 2"),
        (np.ones((3, 1)), "X has 1 features, but GaussianProcessClassifier is expecting 2"),
        (np.full((2, 2), np.nan), "X contains NaN"),
        (np.full((2, 2), -np.inf), "X contains infinity"),
        (np.empty((0, 2)), r"0 sample\(s\)"),
        (np.ones(2), "Expected 2D array, got 1D array"),
        (np.ones((2, 2, 1)), "dim 3"),
        (X + 1j, "Complex data not supported"),
        (np.array([["a", "b"]]), "could not convert string to float"),
        (None, "Expected 2D array"),
    ],
    ids=[
        "3 columns",
        "1 column",
        "NaN",
        "inf",
        "empty",
        "1d",
        "3d",
        "complex",
        "str",
        "",
    ],
)
def test_bad_new_rows_are_refused_by_name(method, table, match):
    with pytest.raises((ValueError, TypeError), match=match):
        getattr(fitted_model(), method)(table)


def test_columns_in_another_order_are_refused():
    model = GaussianProcessClassifier(RBF(), optimizer=None)
    model.fit(pd.DataFrame(X, columns=["a", "b"]), Y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(pd.DataFrame(X, columns=["b", "a"]))


@pytest.mark.parametrize("method", METHODS)
def test_new_rows_of_a_covariance_matrix(method):
    model = GaussianProcessClassifier("precomputed").fit(K, Y)
    for columns in (5, N - 1, N + 2):
        with pytest.raises(ValueError, match=f"X has {columns} features.*expecting {N} features"):
            getattr(model, method)(np.ones((2, columns)))
    with pytest.raises(ValueError, match="X contains NaN"):
        getattr(model, method)(K[:2] * np.nan)
    with pytest.raises(ValueError, match=r"X.*negative"):
        getattr(model, method)(np.c_[K[:2], [1.0, -1.0]])


def test_variances_of_new_rows_that_cannot_be_known():
    model = GaussianProcessClassifier("precomputed").fit(K + np.diag(np.arange(N)), Y)
    with pytest.raises(ValueError, match=r"X has no column for k\(x\*, x\*\)"):
        model.predict_proba(K[:2])


def test_latent_moments_of_several_classes():
    model = GaussianProcessClassifier(RBF(), optimizer=None).fit(X, np.arange(N) % 3)
    with pytest.raises(ValueError, match="binary classification, received 3 classes"):
        model.latent_mean_and_variance(X)


# --------------------------------------------------------------------- theta


@pytest.mark.parametrize(
    ("theta", "match"),
    [
        ([], r"theta must have length 1, got shape \(0,\)"),
        ([0.0, 0.0], r"theta must have length 1, got shape \(2,\)"),
        (0.0, r"theta must have length 1, got shape \(\)"),
        ([[0.0]], r"theta must have length 1, got shape \(1, 1\)"),
        (["a"], "theta"),
        ([np.nan], "(theta|kernel RBF)"),
    ],
)
def test_bad_hyperparameters_are_refused_by_name(theta, match):
    with pytest.raises((ValueError, TypeError), match=match):
        fitted_model().log_marginal_likelihood(theta)


def test_a_gradient_needs_a_place():
    with pytest.raises(ValueError, match="eval_gradient=True needs theta"):
        fitted_model().log_marginal_likelihood(eval_gradient=True)


def test_hyperparameters_of_several_problems():
    model = GaussianProcessClassifier(1.0 * RBF(), optimizer=None, multi_class="one_vs_rest").fit(
        X, np.arange(N) % 3
    )
    assert np.isfinite(model.log_marginal_likelihood(np.zeros(2)))
    assert np.isfinite(model.log_marginal_likelihood(np.zeros(6)))
    with pytest.raises(ValueError, match=r"theta must have length 2 \(or 6, 2 for each of the 3"):
        model.log_marginal_likelihood(np.zeros(4))


def test_odd_but_good_input_is_taken():
    """What might be refused by mistake."""
    for table in (X.tolist(), X.astype(np.float32), np.asfortranarray(X), pd.DataFrame(X)):
        for labels in (Y.tolist(), Y.astype(bool), Y.astype(str), Y.astype(float), 1 - 2 * Y):
            model = GaussianProcessClassifier(RBF(), optimizer=None, n_jobs=np.int64(1))
            assert model.fit(table, labels).predict(table).shape == (N,)
    locked = X.copy()
    locked.flags.writeable = False
    for kernel in (RBF(), DotProduct(), None):
        GaussianProcessClassifier(kernel, optimizer=None, copy_X_train=False).fit(locked, Y)
    # scikit-learn's ExpSineSquared is positive semi-definite in one dimension only
    GaussianProcessClassifier(ExpSineSquared(), optimizer=None).fit(locked[:, :1], Y)
    model = GaussianProcessClassifier(RBF(), optimizer=None).fit(X, Y, sample_weight=2.0)
    assert np.isfinite(model.log_marginal_likelihood_value_)
