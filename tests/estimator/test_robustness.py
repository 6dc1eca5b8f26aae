"""What holds for any finite input: honest probabilities, and the same answer to the same question.

Warnings are errors here; a case may give the typed warnings that say what was
changed or given up (`NumericalWarning`, `JitterWarning`) or where learning ended
(`ConvergenceWarning`), and no other.
"""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize
from scipy.special import log_ndtr, ndtr
from sklearn.gaussian_process import GaussianProcessClassifier as SklearnClassifier
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)

from gpclass import GaussianProcessClassifier
from gpclass.exceptions import ConvergenceWarning, NotPositiveDefiniteError, NumericalWarning
from gpclass.inference import EP, TangentBound, Variational
from gpclass.likelihoods import NoisyThreshold
from helpers import each, pairs

# what the estimator takes by default, what scikit-learn has, and everything else
METHODS = {
    "ep": {"likelihood": "probit", "inference": "ep"},
    "laplace": {"likelihood": "logit", "inference": "laplace"},
    "ep, logit": {"likelihood": "logit", "inference": "ep"},
    "laplace, probit": {"likelihood": "probit", "inference": "laplace"},
    "sequential ep": {"likelihood": "probit", "inference": EP(schedule="sequential")},
    "pl": {"likelihood": "probit", "inference": "pl"},
    "pl, logit": {"likelihood": "logit", "inference": "pl"},
    "vi": {"likelihood": "probit", "inference": "vi"},
    "vi by the ep energy": {"likelihood": "probit", "inference": Variational(evidence="ep")},
    "vi, logit": {"likelihood": "logit", "inference": "vi"},
    "lower bound": {"likelihood": "logit", "inference": "bound"},
    "upper bound": {"likelihood": "logit", "inference": TangentBound(side="upper")},
    "ep, threshold": {"likelihood": NoisyThreshold(0.05, "fixed"), "inference": "ep"},
}
# what has a joint model of many classes, and what runs on their differences or one by one
JOINT = ("ep", "laplace", "laplace, probit", "sequential ep")
DIFFERENCES = ("pl", "ep, logit")
WHOLE = {
    name: settings
    if name in JOINT
    else settings | {"multi_class": "differences" if name in DIFFERENCES else "one_vs_rest"}
    for name, settings in METHODS.items()
}
QUICK = ("ep", "laplace")
OTHERS = [name for name in METHODS if name not in QUICK]
SPLITS = ("joint", "one_vs_rest", "one_vs_one")
TWO_OR_THREE = [(2, "joint"), *((3, split) for split in SPLITS)]
OPTIMIZERS = (None, "fmin_l_bfgs_b")

may_hit_bounds = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def fit(X, y, sample_weight=None, **settings):
    """Fit, allowing the typed warnings only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GaussianProcessClassifier(**settings).fit(X, y, sample_weight=sample_weight)


def assert_sane(model, *tables):
    """Probabilities finite, in [0, 1], summing to one; scores finite; labels in line with both."""
    assert np.isfinite(model.log_marginal_likelihood_value_)
    table = np.vstack(tables) if np.ndim(tables[0]) == 2 else [x for part in tables for x in part]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        P, scores = model.predict_proba(table), model.decision_function(table)
        labels = model.predict(table)
    assert P.shape == (len(table), model.n_classes_)
    assert np.isfinite(P).all()
    assert P.min() >= 0.0
    assert P.max() <= 1.0
    same(P.sum(axis=1), 1.0, 1e-12)
    assert np.isfinite(scores).all()
    chosen = P[np.arange(len(P)), np.searchsorted(model.classes_, labels)]
    same(chosen, P.max(axis=1), 1e-12)


def same(a, b, tol):
    np.testing.assert_allclose(a, b, rtol=0, atol=tol)


# ------------------------------------------------------------------- tables


def _tables():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 2))
    two = (X[:, 0] + 0.5 * rng.normal(size=24) > 0).astype(int)
    three, alternating = np.arange(24) % 3, np.tile([0, 1], 12)
    crowd = np.vstack([np.repeat(X[:1], 100, axis=0), X])
    line = np.r_[np.linspace(-2, -1, 10), np.linspace(1, 2, 10)][:, None]
    return {
        "two classes": (X, two),
        "three classes": (X, three),
        "duplicates with opposite labels": (np.repeat(X[:6], 4, axis=0), alternating),
        "duplicates with three labels": (np.repeat(X[:4], 6, axis=0), three),
        "all rows identical": (np.ones((10, 2)), np.tile([0, 1], 5)),
        "all rows zero": (np.zeros((9, 2)), np.arange(9) % 3),
        "a hundred copies": (crowd, np.r_[np.zeros(100, int), two]),
        "a hundred copies, three classes": (crowd, np.r_[np.zeros(100, int), three]),
        "one against 59": (rng.normal(size=(60, 2)), np.r_[1, np.zeros(59, int)]),
        "one each against 58": (rng.normal(size=(60, 2)), np.r_[1, 2, np.zeros(58, int)]),
        "separable": (line, np.repeat([0, 1], 10)),
        "two rows": (np.array([[0.0], [1.0]]), np.array([0, 1])),
        "two equal rows": (np.array([[1.0, 2.0], [1.0, 2.0]]), np.array([0, 1])),
        "three rows, three classes": (X[:3], np.arange(3)),
        "a constant column": (np.c_[X, np.full(24, 7.0)], two),
        "more columns than rows": (rng.normal(size=(8, 40)), np.arange(8) % 2),
        "units of 1e-9": (X * 1e-9, two),
        "units of 1e9": (X * 1e9, two),
        "units of 1e-9 and 1e9": (X * [1e-9, 1e9], two),
        "units of 1e-9 and 1e9, three classes": (X * [1e-9, 1e9], three),
        "an offset of 1e9": (X * 1e-3 + 1e9, two),
    }


TABLES = _tables()

KERNELS = {
    "default": lambda d: None,
    "rbf": lambda d: 1.0 * RBF(1.0),
    "ard": lambda d: RBF(np.ones(d)),
    "matern 1/2": lambda d: Matern(1.0, nu=0.5),
    "matern 3/2": lambda d: Matern(1.0, nu=1.5),
    "matern 5/2": lambda d: 2.0 * Matern(np.ones(d), nu=2.5),
    "rational quadratic": lambda d: RationalQuadratic(1.0, 1.0),
    "dot product": lambda d: DotProduct(1.0),
    "dot product without bias": lambda d: DotProduct(0.0, "fixed"),
    "square of a dot product": lambda d: DotProduct(1.0) ** 2,
    "rbf and white": lambda d: 1.0 * RBF(1.0) + WhiteKernel(0.1),
    "rbf and dot product": lambda d: 1.0 * RBF(1.0) + DotProduct(1.0),
    "rbf times dot product": lambda d: RBF(1.0) * DotProduct(1.0),
    "white": lambda d: WhiteKernel(1.0),
    "constant": lambda d: ConstantKernel(1.0),
}


def far_rows(d):
    """Rows 1e150 and 1e300 away, the origin, and one axis alone."""
    axis = np.zeros((1, d))
    axis[0, 0] = 1e150
    everywhere = np.ones((1, d))
    return np.vstack([1e150 * everywhere, -1e150 * everywhere, 1e300 * everywhere, axis, 0 * axis])


def split_for(method, multi_class):
    """The division that a table of three classes is given: the method's own, or the one named."""
    return {"multi_class": multi_class} if method in JOINT else {}


def slow_if_learnt(*case):
    return pytest.mark.slow if case[-1] else ()


def slow_unless_default(table, kernel, *_):
    return () if kernel in ("default", "dot product") else pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "kernel", "method", "multi_class", "optimizer"),
    pairs(
        TABLES,
        KERNELS,
        METHODS,
        SPLITS,
        OPTIMIZERS,
        # row by row, and learnt, it takes minutes on the larger tables
        when=lambda table, kernel, method, multi_class, optimizer: (
            optimizer is None or method != "sequential ep"
        ),
        marks=slow_unless_default,
    ),
)
def test_probabilities_are_sane(table, kernel, method, multi_class, optimizer):
    X, y = TABLES[table]
    d = X.shape[1]
    chosen = WHOLE[method] | split_for(method, multi_class)
    model = fit(X, y, kernel=KERNELS[kernel](d), optimizer=optimizer, **chosen)
    assert_sane(model, X, far_rows(d))


@pytest.mark.parametrize(
    ("table", "length", "variance", "method", "multi_class", "optimizer"),
    pairs(
        ["two classes", "three classes", "separable", "two rows"],
        [1e-6, 1.0, 1e6],
        [1e-10, 1.0, 1e8],
        QUICK,
        SPLITS,
        OPTIMIZERS,
    ),
)
def test_any_scale_of_the_kernel(table, length, variance, method, multi_class, optimizer):
    X, y = TABLES[table]
    kernel = ConstantKernel(variance, (1e-12, 1e10)) * RBF(length, (1e-8, 1e8))
    chosen = METHODS[method] | split_for(method, multi_class)
    assert_sane(fit(X, y, kernel=kernel, optimizer=optimizer, **chosen), X, far_rows(X.shape[1]))


ODD_BOUNDS = {
    "all lengths": RBF(1.0, (1e-300, 1e300)),
    "all lengths and variances": ConstantKernel(1.0, (1e-300, 1e300)) * RBF(1.0, (1e-300, 1e300)),
    "one free": ConstantKernel(1.0, (1e-5, 1e5)) * RBF(1.0, (1.0, 1.0)),
    "none free": RBF(1.0, (1.0, 1.0)),
    "start below": RBF(1.0, (10.0, 100.0)),
    "start above": RBF(1.0, (0.01, 0.1)),
    # most of the bounds is a variance beside which nothing else has a digit
    "all biases": DotProduct(1.0, (1e-150, 1e150)),
    "rough": 1.0 * Matern(1.0, (1e-300, 1e300), nu=1.5),
    "all lengths and powers": RationalQuadratic(1.0, 1.0, (1e-300, 1e300), (1e-300, 1e300)),
    "noise": Matern(1.0, nu=0.5) + WhiteKernel(1.0, (1e-10, 1e10)),
}


@pytest.mark.slow
@pytest.mark.parametrize("bounds", ODD_BOUNDS)
@pytest.mark.parametrize("table", ["two classes", "three classes"])
def test_odd_bounds_with_a_restart(table, bounds):
    X, y = TABLES[table]
    kernel = ODD_BOUNDS[bounds]
    model = fit(X, y, kernel=kernel, n_restarts_optimizer=1, random_state=0)
    assert_sane(model, X, far_rows(2))
    low, high = kernel.bounds.T
    theta = model.kernel_.theta.reshape(-1, len(low))
    assert ((theta >= low - 1e-12) & (theta <= high + 1e-12)).all()


def test_bounds_that_leave_nothing_to_learn():
    X, y = TABLES["two classes"]
    learnt = fit(X, y, kernel=RBF(1.0, (1.0, 1.0)))
    fixed = fit(X, y, kernel=RBF(1.0, "fixed"))
    same(learnt.predict_proba(X), fixed.predict_proba(X), 1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_latent_variance_of_exactly_zero(method):
    X, y = TABLES["two classes"]
    for exponent in (1, 2):
        kernel = DotProduct(0.0, "fixed") ** exponent
        model = fit(X, y, kernel=kernel, **WHOLE[method])
        mean, variance = model.latent_mean_and_variance(np.zeros((1, 2)))
        assert mean.tolist() == [0.0]
        assert variance.tolist() == [0.0]
        same(model.predict_proba(np.zeros((1, 2))), [[0.5, 0.5]], 1e-12)
        same(model.decision_function(np.zeros((1, 2))), [0.0], 1e-12)


@pytest.mark.filterwarnings("ignore:divide by zero encountered in log:RuntimeWarning")
def test_a_bias_of_zero_that_is_not_fixed():
    """Its logarithm is minus infinity, which scikit-learn's theta warns of."""
    X, y = TABLES["two classes"]
    for optimizer in (None, "fmin_l_bfgs_b"):
        model = fit(X, y, kernel=DotProduct(0.0), optimizer=optimizer)
        assert_sane(model, X, far_rows(2))
    model = fit(X, y, kernel=DotProduct(0.0), optimizer=None)
    same(model.predict_proba(np.zeros((1, 2))), [[0.5, 0.5]], 1e-12)


@pytest.mark.parametrize("kernel", [RBF(), Matern(nu=0.5), Matern(nu=2.5), RationalQuadratic()])
def test_far_away_the_prior_is_all_there_is(kernel):
    X, y = TABLES["two classes"]
    model = GaussianProcessClassifier(2.0 * kernel, optimizer=None).fit(X, y)
    same(model.predict_proba(far_rows(2)[:3]), 0.5, 1e-12)


def test_an_overflow_at_new_rows_is_reported_and_counted():
    X, y = TABLES["two classes"]
    model = GaussianProcessClassifier(DotProduct(1.0), optimizer=None).fit(X, y)
    new = np.vstack([X[:2], np.full((3, 2), 1e200)])
    with pytest.warns(NumericalWarning, match=r"DotProduct\(sigma_0=1\) overflows at 3 of the 5"):
        P = model.predict_proba(new)
    same(P[2:], 0.5, 1e-12)
    assert np.array_equal(P[:2], model.predict_proba(X[:2]))


# ------------------------------------------------------------------- weights


WEIGHTED_KERNELS = {"default": None, "rbf": RBF(1.0), "rough": 1e4 * Matern(1.0, nu=0.5)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weight", "method", "table", "which", "kernel", "optimizer"),
    pairs(
        [1e-300, 1e-12, 1e-3, 1e6],
        [*QUICK, "ep, logit", "pl", "vi"],
        ["two classes", "three classes", "a hundred copies"],
        ["every row", "every other row"],
        WEIGHTED_KERNELS,
        OPTIMIZERS,
        marks=slow_if_learnt,
    ),
)
def test_any_size_of_weights(weight, method, table, which, kernel, optimizer):
    X, y = TABLES[table]
    rows = np.arange(len(y)) % (2 if which == "every other row" else 1) == 0
    model = fit(
        X,
        y,
        np.where(rows, weight, 1.0),
        kernel=WEIGHTED_KERNELS[kernel],
        optimizer=optimizer,
        **WHOLE[method],
    )
    assert_sane(model, X, far_rows(2))


@pytest.mark.slow
def test_a_class_of_next_to_no_weight():
    X, y = TABLES["three classes"]
    for multi_class in SPLITS:
        for weight in (0.0, 1e-12, 1e6):
            model = fit(X, y, class_weight={1: weight}, multi_class=multi_class)
            assert model.n_classes_ == (2 if weight == 0.0 else 3)
            assert_sane(model, X, far_rows(2))


LEARNABLE = {
    "default": None,
    "rbf": 1.0 * RBF(1.0),
    "ard": 1.0 * RBF([1.0, 1.0]),
    "matern": 1.0 * Matern(1.0, nu=1.5),
    "matern ard": 1.0 * Matern([1.0, 1.0], nu=2.5),
    "dot product": DotProduct(1.0),
}
FIXED_ONLY = {
    "rational quadratic": RationalQuadratic(1.0, 1.0),
    "a sum": 2.0 * RBF(1.0) * Matern(2.0, nu=0.5) + 0.2 * DotProduct(0.5) ** 2,
}


def noisy_problem(seed, n=30, classes=2):
    """Overlapping classes, so that the evidence has a maximum inside the bounds."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    score = np.sin(1.5 * X[:, 0]) + 0.3 * X[:, 1] + 0.3 * rng.normal(size=n)
    y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    return X, y, rng


def evidence_and_gradient(model, offset):
    theta = model.kernel_.theta
    return model.log_marginal_likelihood(theta + offset, eval_gradient=True)


def assert_equivalent(a, b, X_new, tol, reorder=None, of_probabilities=None):
    """Two models that were given the same information."""
    same(a.log_marginal_likelihood_value_, b.log_marginal_likelihood_value_, tol)
    P, Q = a.predict_proba(X_new), b.predict_proba(X_new)
    same(P if reorder is None else P[:, reorder], Q, of_probabilities or tol)


@may_hit_bounds
@pytest.mark.parametrize(
    ("kernel", "division", "method", "optimizer"),
    pairs(
        LEARNABLE | FIXED_ONLY,
        TWO_OR_THREE,
        QUICK,
        OPTIMIZERS,
        marks=slow_if_learnt,
        # the evidence of these is flat: the maximum is not one point
        when=lambda kernel, _, method, optimizer: kernel not in FIXED_ONLY or optimizer is None,
    ),
)
def test_a_weight_is_a_number_of_copies(kernel, division, method, optimizer):
    check_that_a_weight_is_a_number_of_copies(division, METHODS[method], kernel, optimizer)


@pytest.mark.slow
@may_hit_bounds
@pytest.mark.parametrize(
    ("method", "settings"),
    each(
        OTHERS,
        [("rbf", None), ("a sum", None), ("dot product", None), ("matern ard", "fmin_l_bfgs_b")],
    ),
)
def test_a_weight_is_a_number_of_copies_for_every_method(method, settings):
    division = (2, "one_vs_rest")
    check_that_a_weight_is_a_number_of_copies(division, METHODS[method], *settings)


def check_that_a_weight_is_a_number_of_copies(division, method, kernel, optimizer):
    classes, multi_class = division
    X, y, rng = noisy_problem(3, classes=classes)
    weights = rng.integers(0, 4, size=len(y))
    weights[[np.flatnonzero(y == c)[0] for c in range(classes)]] = 1
    copies = np.repeat(np.arange(len(y)), weights)
    assert (weights == 0).any()
    assert (weights > 1).any()
    X_new = rng.normal(size=(15, 2))
    settings = {
        "kernel": (LEARNABLE | FIXED_ONLY)[kernel],
        "optimizer": optimizer,
        "multi_class": multi_class,
        **method,
    }
    weighted = GaussianProcessClassifier(**settings).fit(X, y, sample_weight=weights)
    repeated = GaussianProcessClassifier(**settings).fit(X[copies], y[copies])
    # learnt jointly, theta ends where the joint gradient of three classes is above rounding
    joint = division == (3, "joint") and optimizer is not None
    # and the length-scale of a column that says nothing is no one number: at 6,500 and 6,700
    # the evidences are 1e-10 apart, the probabilities 3e-7
    flat = 1e-6 if optimizer is not None and "ard" in kernel and not joint else None
    tol = 1e-5 if joint else 1e-8
    assert_equivalent(weighted, repeated, X_new, tol, of_probabilities=flat)
    if optimizer is None:
        # elsewhere too, and with the gradient
        for offset in (-1.0, 0.3, 2.0):
            value, slope = evidence_and_gradient(weighted, offset)
            value_of_copies, slope_of_copies = evidence_and_gradient(repeated, offset)
            same(value, value_of_copies, 1e-8)
            same(slope, slope_of_copies, 1e-8)


@may_hit_bounds
@pytest.mark.parametrize(
    ("kernel", "multi_class", "optimizer"),
    pairs(
        ["default", "rbf", "rbf and white"],
        SPLITS,
        OPTIMIZERS,
        marks=slow_if_learnt,
    ),
)
def test_weight_zero_leaves_a_row_out(kernel, multi_class, optimizer):
    X, y, rng = noisy_problem(4, classes=3)
    weights = np.where(np.arange(30) % 4 == 0, 0.0, rng.uniform(0.5, 2.0, size=30))
    used = weights > 0
    # what is left out may be anything finite, and does not even set the default's scale
    wild = X.copy()
    wild[~used] = 1e100
    settings = {"kernel": KERNELS[kernel](2), "optimizer": optimizer, "multi_class": multi_class}
    left_out = GaussianProcessClassifier(**settings).fit(wild, y, sample_weight=weights)
    absent = GaussianProcessClassifier(**settings).fit(
        X[used], y[used], sample_weight=weights[used]
    )
    assert_equivalent(left_out, absent, rng.normal(size=(9, 2)), 1e-10)


@pytest.mark.slow
def test_most_rows_of_weight_zero():
    X, y = TABLES["three classes"]
    weights = np.zeros(24)
    weights[:3] = 1.0
    for multi_class in SPLITS:
        model = fit(X, y, weights, multi_class=multi_class)
        assert_sane(model, X, far_rows(2))
        assert_equivalent(model, fit(X[:3], y[:3], multi_class=multi_class), X, 1e-8)


def test_weights_and_class_weights_multiply():
    X, y, _ = noisy_problem(5)
    by_class = GaussianProcessClassifier(RBF(), optimizer=None, class_weight={0: 2.0, 1: 3.0})
    by_row = GaussianProcessClassifier(RBF(), optimizer=None)
    weights = np.linspace(0.5, 2.0, len(y))
    by_class.fit(X, y, sample_weight=weights)
    by_row.fit(X, y, sample_weight=weights * np.where(y == 0, 2.0, 3.0))
    assert_equivalent(by_class, by_row, X, 1e-12)


# --------------------------------------------------------------- invariances


@may_hit_bounds
@pytest.mark.parametrize(
    ("kernel", "division", "method", "optimizer"),
    pairs(LEARNABLE, TWO_OR_THREE, QUICK, OPTIMIZERS, marks=slow_if_learnt),
)
def test_order_of_rows_and_names_of_classes_do_not_matter(kernel, division, method, optimizer):
    check_that_order_and_names_do_not_matter(division, METHODS[method], kernel, optimizer)


@pytest.mark.slow
@may_hit_bounds
@pytest.mark.parametrize(
    ("method", "settings"), each(OTHERS, [("matern", None), ("default", "fmin_l_bfgs_b")])
)
def test_order_and_names_do_not_matter_for_any_method(method, settings):
    check_that_order_and_names_do_not_matter((2, "one_vs_rest"), METHODS[method], *settings)


def check_that_order_and_names_do_not_matter(division, method, kernel, optimizer):
    classes, multi_class = division
    X, y, rng = noisy_problem(6, classes=classes)
    X_new = rng.normal(size=(15, 2))
    rows, names = rng.permutation(len(y)), np.roll(np.arange(classes), 1)
    settings = {
        "kernel": LEARNABLE[kernel],
        "optimizer": optimizer,
        "multi_class": multi_class,
        **method,
    }
    model = GaussianProcessClassifier(**settings).fit(X, y)
    shuffled = GaussianProcessClassifier(**settings).fit(X[rows], y[rows])
    renamed = GaussianProcessClassifier(**settings).fit(X, names[y])
    assert_equivalent(model, shuffled, X_new, 1e-8)
    assert_equivalent(renamed, model, X_new, 1e-8, reorder=names)


BATCHED = {
    "default": None,
    "rbf": 2.0 * RBF(1.0),
    "ard": RBF([0.5, 1.0, 2.0]),
    "matern 1/2": Matern(1.0, nu=0.5),
    "matern of any order": Matern(1.0, nu=1.2),
    "dot product": DotProduct(1.0),
    "a sum": RBF(1.0) * RationalQuadratic() + 0.1 * DotProduct(1.0) ** 2 + WhiteKernel(0.1),
}


# prediction knows sites, not the method that found them
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "division", "method"),
    pairs(
        BATCHED,
        TWO_OR_THREE,
        [*QUICK, "ep, threshold"],
        when=lambda _, division, method: division != (3, "joint") or method in JOINT,
    ),
)
def test_results_do_not_depend_on_the_batch(kernel, division, method):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(90, 3))
    X_new = 2.0 * rng.normal(size=(1100, 3))  # more than one chunk
    some = rng.integers(0, len(X_new), size=20)
    classes, multi_class = division
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=90), [-0.4, 0.4][: classes - 1])
    model = fit(
        X,
        y,
        kernel=BATCHED[kernel],
        optimizer=None,
        multi_class=multi_class,
        **METHODS[method],
    )
    P, scores = model.predict_proba(X_new), model.decision_function(X_new)
    for i in some:
        assert np.array_equal(P[i], model.predict_proba(X_new[i : i + 1])[0])
        assert np.array_equal(scores[i], model.decision_function(X_new[i : i + 1])[0])
    assert np.array_equal(P[500:613], model.predict_proba(X_new[500:613]))
    assert np.array_equal(P, pickle.loads(pickle.dumps(model)).predict_proba(X_new))


@pytest.mark.slow
@may_hit_bounds
@pytest.mark.parametrize(
    ("classes", "settings"),
    [
        (2, {"n_restarts_optimizer": 3}),
        (3, {"multi_class": "one_vs_rest"}),
        (3, {"multi_class": "one_vs_one", "n_restarts_optimizer": 1}),
    ],
)
def test_the_number_of_processes_changes_no_bit(classes, settings):
    X, y, rng = noisy_problem(7, n=120, classes=classes)
    X_new = rng.normal(size=(20, 2))
    models = [
        GaussianProcessClassifier(
            1.0 * RBF([1.0, 1.0]), random_state=3, n_jobs=n_jobs, **settings
        ).fit(X, y)
        for n_jobs in (None, 1, 2)
    ]
    for other in models[1:]:
        assert np.array_equal(models[0].kernel_.theta, other.kernel_.theta)
        assert np.array_equal(models[0].predict_proba(X_new), other.predict_proba(X_new))
        assert models[0].log_marginal_likelihood_value_ == other.log_marginal_likelihood_value_


@pytest.mark.slow
@may_hit_bounds
def test_the_same_random_state_gives_the_same_bits():
    X, y, _ = noisy_problem(7)
    runs = [
        GaussianProcessClassifier(
            1.0 * RBF(1.0), n_restarts_optimizer=3, random_state=random_state
        ).fit(X, y)
        for random_state in (5, 5, np.random.RandomState(5), 6)
    ]
    starts = [[r.run.start.tolist() for r in m.optimizer_report_.runs] for m in runs]
    assert starts[0] == starts[1] == starts[2] != starts[3]
    for other in runs[1:3]:
        assert np.array_equal(runs[0].predict_proba(X), other.predict_proba(X))


def test_changed_hyperparameters_never_mix_with_those_that_were_fitted():
    """``clone_kernel=False`` sets ``kernel_.theta``: predictions are of one theta or the other."""
    X, y, _ = noisy_problem(9)
    used, unused = (GaussianProcessClassifier(RBF(), optimizer=None).fit(X, y) for _ in range(2))
    used.predict_proba(X)
    for model in (used, unused):
        model.log_marginal_likelihood(np.array([1.0]), clone_kernel=False)
    P = used.predict_proba(X)
    assert np.array_equal(P, unused.predict_proba(X))
    assert np.array_equal(P, pickle.loads(pickle.dumps(used)).predict_proba(X))


# ------------------------------------------------------------------- kernels


def test_periodic_kernel_in_one_dimension():
    X, y, _ = noisy_problem(10)
    for method in QUICK:
        for optimizer in (None, "fmin_l_bfgs_b"):
            model = fit(
                X[:, :1],
                y,
                kernel=2.0 * ExpSineSquared(1.0, 2.0) + WhiteKernel(0.1),
                optimizer=optimizer,
                **METHODS[method],
            )
            assert_sane(model, X[:, :1], far_rows(1))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("multi_class", SPLITS)
def test_a_covariance_matrix_as_input(classes, multi_class):
    X, y, rng = noisy_problem(11, classes=classes)
    X_new = rng.normal(size=(12, 2))
    weights = rng.integers(0, 3, size=len(y)) + (np.arange(len(y)) < 3)
    kernel = 3.0 * RBF(0.7)
    by_rows = GaussianProcessClassifier(kernel, optimizer=None, multi_class=multi_class)
    by_matrix = GaussianProcessClassifier("precomputed", multi_class=multi_class)
    by_rows.fit(X, y, sample_weight=weights)
    by_matrix.fit(kernel(X), y, sample_weight=weights)
    assert_sane(by_matrix, kernel(X_new, X))
    same(by_matrix.predict_proba(kernel(X_new, X)), by_rows.predict_proba(X_new), 1e-10)
    with_variances = np.c_[kernel(X_new, X), kernel.diag(X_new)]
    same(by_matrix.predict_proba(with_variances), by_rows.predict_proba(X_new), 1e-10)


@pytest.mark.slow
def test_lists_of_objects_with_a_structured_kernel():
    module = pytest.importorskip("sklearn.gaussian_process.tests._mini_sequence_kernel")
    X, y = ["A", "AB", "B", "AABBB", "BBB", "ABBAA"], np.array([0, 0, 1, 1, 1, 0])
    for kernel in (module.MiniSeqKernel(), 2.0 * module.MiniSeqKernel() + WhiteKernel(0.1)):
        for optimizer in (None, "fmin_l_bfgs_b"):
            for labels in (y, np.arange(6) % 3):
                for multi_class in SPLITS if len(np.unique(labels)) > 2 else SPLITS[:1]:
                    model = fit(
                        X, labels, kernel=kernel, optimizer=optimizer, multi_class=multi_class
                    )
                    assert_sane(model, X, ["C", "A" * 50])
    weights = np.array([1, 2, 0, 1, 3, 1])
    copies = np.repeat(np.arange(6), weights)
    kernel = module.MiniSeqKernel(0.5)
    weighted = fit(X, y, weights, kernel=kernel, optimizer=None)
    repeated = fit([X[i] for i in copies], y[copies], kernel=kernel, optimizer=None)
    assert_equivalent(weighted, repeated, X, 1e-8)


class Faulty(RBF):
    """A user's kernel that goes wrong: everywhere, or above a length-scale."""

    def __init__(self, length_scale=1.0, length_scale_bounds=(1e-5, 1e5), fault="", above=0.0):
        super().__init__(length_scale, length_scale_bounds)
        self.fault = fault
        self.above = above

    def __call__(self, X, Y=None, eval_gradient=False):
        result = super().__call__(X, Y, eval_gradient)
        K = result[0] if eval_gradient else result
        if not self.length_scale > self.above:
            return result
        if isinstance(self.fault, Exception):
            raise self.fault
        if self.fault == "nan":
            K[0, 0] = np.nan
        if self.fault == "negative diagonal":
            K -= 2.0 * np.eye(*K.shape)
        if self.fault == "indefinite" and Y is None:
            values, vectors = np.linalg.eigh(K)
            values[: len(K) // 4] = -0.4
            K[:] = (vectors * values) @ vectors.T
        if self.fault == "very indefinite" and Y is None:
            values, vectors = np.linalg.eigh(K)
            values[: len(K) // 4] = -100.0
            K[:] = (vectors * values) @ vectors.T
        if self.fault == "gradient of NaN" and eval_gradient:
            result[1][:] = np.nan
        return result

    def diag(self, X):
        return np.full(len(X), -1.0) if self.fault == "negative variance" else super().diag(X)


@pytest.mark.parametrize("optimizer", [None, "fmin_l_bfgs_b"])
@pytest.mark.parametrize(
    ("fault", "error", "match"),
    [
        (RuntimeError("the user's own words"), RuntimeError, "the user's own words"),
        ("nan", NotPositiveDefiniteError, r"kernel .*Faulty.* gives NaN or infinity"),
        ("negative diagonal", NotPositiveDefiniteError, r"kernel .*Faulty.*positive semi-definite"),
        ("very indefinite", NotPositiveDefiniteError, r"kernel .*Faulty.*add a WhiteKernel"),
    ],
)
def test_a_kernel_that_is_wrong_everywhere_is_named(fault, error, match, optimizer):
    X, y, _ = noisy_problem(12)
    model = GaussianProcessClassifier(1.0 * Faulty(fault=fault), optimizer=optimizer)
    with pytest.raises(error, match=match):
        model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_") and name != "n_features_in_"]


def test_an_indefinite_kernel_is_never_silent():
    """An eigenvalue of -0.4 leaves I + S K S positive definite, and K is no covariance."""
    X, y, _ = noisy_problem(12)
    K = Faulty(fault="indefinite")(X)
    K = 0.5 * (K + K.T)
    assert np.linalg.eigvalsh(K)[0] < -0.39
    for kernel, table in ((Faulty(fault="indefinite"), X), ("precomputed", K)):
        with pytest.raises(NotPositiveDefiniteError, match="semi-definite"):
            GaussianProcessClassifier(kernel, optimizer=None).fit(table, y)


def test_a_negative_prior_variance_is_never_silent():
    X, y, _ = noisy_problem(12)
    model = GaussianProcessClassifier(Faulty(fault="negative variance"), optimizer=None)
    with pytest.raises(ValueError, match=r"Faulty.*negative"):
        model.fit(X, y).predict_proba(X)


def test_a_kernel_without_a_gradient_serves_as_long_as_it_is_fixed():
    X, y, _ = noisy_problem(12)
    model = GaussianProcessClassifier(Faulty(fault="gradient of NaN"), optimizer=None).fit(X, y)
    assert_sane(model, X)
    with pytest.raises(NotPositiveDefiniteError, match="Faulty"):
        GaussianProcessClassifier(Faulty(fault="gradient of NaN")).fit(X, y)


@pytest.mark.slow
@may_hit_bounds
@pytest.mark.parametrize(
    "fault",
    [
        "nan",
        "very indefinite",
        "gradient of NaN",
        OverflowError("too long"),
        FloatingPointError("too long"),
        ZeroDivisionError("too long"),
        np.linalg.LinAlgError("too long"),
    ],
    ids=str,
)
def test_learning_survives_where_a_kernel_fails_for_some_hyperparameters(fault):
    X, y, _ = noisy_problem(12)
    free = GaussianProcessClassifier(1.0 * Faulty(0.1)).fit(X, y)
    above = 0.5 * free.kernel_.k2.length_scale
    model = GaussianProcessClassifier(1.0 * Faulty(0.1, fault=fault, above=above)).fit(X, y)
    run = model.optimizer_report_.runs[0].run
    assert run.n_rejected > 0
    assert np.isnan(run.trace).sum() == run.n_rejected
    assert model.kernel_.k2.length_scale <= above
    assert model.log_marginal_likelihood_value_ > run.trace[0]
    assert model.log_marginal_likelihood_value_ == pytest.approx(np.nanmax(run.trace), rel=1e-9)
    assert_sane(model, X, far_rows(2))


@may_hit_bounds
def test_a_start_that_fails_leaves_the_restarts():
    X, y, _ = noisy_problem(12)
    kernel = 1.0 * Faulty(1.0, (1e-2, 1e2), fault="nan", above=0.9)
    model = GaussianProcessClassifier(kernel, n_restarts_optimizer=8, random_state=0).fit(X, y)
    assert np.isnan(model.optimizer_report_.runs[0].run.log_evidence)
    assert_sane(model, X)


def test_a_kernel_of_scikit_learn_without_a_rule():
    X, y, _ = noisy_problem(13)
    for metric in ("rbf", "linear", "laplacian"):
        assert_sane(fit(X, y, kernel=PairwiseKernel(metric=metric)), X)


# -------------------------------------------------------------- right values


REFERENCE_KERNELS = {
    "rbf": 1.5 * RBF(1.0),
    "ard": 2.0 * RBF([0.5, 2.0]),
    "matern 1/2": 2.0 * Matern(1.0, nu=0.5),
    "matern 3/2": 2.0 * Matern([0.5, 2.0], nu=1.5),
    "matern 5/2": Matern(0.7, nu=2.5),
    "matern of any order": Matern(0.7, nu=1.2),
    "rational quadratic": RationalQuadratic(1.0, 0.5),
    "dot product": DotProduct(1.0),
    "white": 3.0 * RBF(1.0) + WhiteKernel(0.3),
    "a sum of products": 2.0 * RBF(1.0) * RationalQuadratic()
    + 0.2 * DotProduct(0.5) ** 2
    + WhiteKernel(0.01),
    "a power": (ConstantKernel(4.0) + RBF([1.0, 3.0])) ** 2 * Matern(1.0, nu=2.5),
    "fixed parts": ConstantKernel(2.0, "fixed") * RBF(1.0) + DotProduct(1.0, "fixed"),
}


@pytest.mark.parametrize("kernel", REFERENCE_KERNELS)
def test_fixed_kernels_give_scikit_learns_evidence_and_latents(kernel):
    kernel = REFERENCE_KERNELS[kernel]
    X, y, rng = noisy_problem(14)
    ours = GaussianProcessClassifier(kernel, optimizer=None, **METHODS["laplace"]).fit(X, y)
    theirs = SklearnClassifier(kernel, optimizer=None).fit(X, y)
    same(ours.log_marginal_likelihood_value_, theirs.log_marginal_likelihood_value_, 1e-6)
    X_new = 2.0 * rng.normal(size=(20, 2))
    for a, b in zip(
        ours.latent_mean_and_variance(X_new), theirs.latent_mean_and_variance(X_new), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    # theirs averages the logistic by five error functions, right to a few 1e-4
    same(ours.predict_proba(X_new), theirs.predict_proba(X_new), 2e-3)


@may_hit_bounds
@pytest.mark.parametrize(
    ("kernel", "classes", "seed"),
    each(
        [
            1.0 * RBF(1.0),
            1.0 * RBF([1.0, 1.0]),
            1.0 * Matern(1.0, nu=1.5),
            1.0 * RationalQuadratic(),
            1.0 * RBF(1.0) + 0.1 * DotProduct(1.0),
        ],
        [2, 3],
        range(20, 24),
    ),
)
def test_learnt_evidence_is_no_worse_than_scikit_learns(kernel, classes, seed):
    X, y, _ = noisy_problem(seed, n=24, classes=classes)
    ours = GaussianProcessClassifier(kernel, multi_class="one_vs_rest", **METHODS["laplace"])
    ours.fit(X, y)
    theirs = SklearnClassifier(kernel).fit(X, y)
    assert ours.log_marginal_likelihood_value_ >= theirs.log_marginal_likelihood_value_ - 1e-3


@pytest.mark.parametrize(
    ("kernel", "multi_class", "method"),
    pairs(
        REFERENCE_KERNELS,
        SPLITS,
        QUICK,
        marks=lambda kernel, split, method: pytest.mark.slow if method == "ep" else (),
    ),
)
def test_gradients_are_those_of_the_evidence(kernel, multi_class, method):
    check_gradients(kernel, METHODS[method], multi_class)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "kernel"), each(OTHERS, ["a sum of products", "ard", "dot product"])
)
def test_gradients_of_every_method(method, kernel):
    check_gradients(kernel, METHODS[method], "one_vs_rest")


def check_gradients(kernel, method, multi_class):
    X, y, _ = noisy_problem(15, classes=3)
    step = 1e-5
    model = GaussianProcessClassifier(
        REFERENCE_KERNELS[kernel], optimizer=None, multi_class=multi_class, **method
    ).fit(X, y, sample_weight=np.linspace(0.0, 2.0, len(y)))
    theta = model.kernel_.theta + 0.1
    _, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    for i, unit in enumerate(np.eye(len(theta))):
        up = model.log_marginal_likelihood(theta + step * unit)
        down = model.log_marginal_likelihood(theta - step * unit)
        same(gradient[i], (up - down) / (2 * step), 1e-6 * max(1.0, abs(gradient[i])))


@pytest.mark.parametrize("variance", [1e-8, 1.0, 1e4, 1e8])
def test_probit_probabilities_are_the_closed_form(variance):
    X, y, rng = noisy_problem(16)
    X_new = 3.0 * rng.normal(size=(50, 2))
    model = GaussianProcessClassifier(
        ConstantKernel(variance) * RBF(0.5), optimizer=None, likelihood="probit"
    ).fit(X, y)
    mean, var = model.latent_mean_and_variance(X_new)
    z = mean / np.sqrt(1.0 + var)
    P = model.predict_proba(X_new)
    np.testing.assert_allclose(P, np.c_[ndtr(-z), ndtr(z)], rtol=1e-12)
    odds = model.decision_function(X_new)
    np.testing.assert_allclose(odds, np.log(ndtr(z)) - np.log(ndtr(-z)), rtol=1e-9, atol=1e-12)


def independent_evidence(variance, n):
    """Logit evidence by Laplace of n latents of one variance, none correlated: a scalar mode."""
    f = brentq(lambda f: 1.0 / (1.0 + np.exp(f)) - f / variance, 0.0, 700.0, xtol=1e-14)
    # 1 - p is not taken as a difference: at a variance of 1e12 it has five digits left
    p, q = 1.0 / (1.0 + np.exp(-f)), 1.0 / (1.0 + np.exp(f))
    log_det = np.log1p(variance * p * q)
    return n * (np.log1p(-q) - 0.5 * f * f / variance - 0.5 * log_det)


# of one latent of mean zero: the truth, which a method that matches moments has exactly
EVIDENCE_OF_UNCORRELATED_ROWS = {
    "laplace": independent_evidence,
    "ep": lambda variance, n: n * np.log(0.5),
    "ep, logit": lambda variance, n: n * np.log(0.5),
    "sequential ep": lambda variance, n: n * np.log(0.5),
    "pl": lambda variance, n: n * np.log(0.5),
    "pl, logit": lambda variance, n: n * np.log(0.5),
    "vi by the ep energy": lambda variance, n: n * np.log(0.5),
    "ep, threshold": lambda variance, n: n * np.log(0.5),
}


@pytest.mark.parametrize("variance", [1e-10, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("method", EVIDENCE_OF_UNCORRELATED_ROWS)
def test_evidence_of_uncorrelated_rows(method, variance):
    X, y = TABLES["two classes"]
    kernel = ConstantKernel(variance, (1e-12, 1e20)) * RBF(1e-6)
    model = GaussianProcessClassifier(kernel, optimizer=None, **WHOLE[method]).fit(X, y)
    expected = EVIDENCE_OF_UNCORRELATED_ROWS[method](variance, 24)
    np.testing.assert_allclose(model.log_marginal_likelihood_value_, expected, rtol=1e-8)


def independent_bound(variance, n):
    """Largest lower bound of one probit label under N(0, variance), n times."""

    def negative_bound(parameters):
        m, log_v = parameters
        v = np.exp(log_v)
        z, w = np.polynomial.hermite_e.hermegauss(200)
        expected = w @ log_ndtr(m + np.sqrt(v) * z) / np.sqrt(2 * np.pi)
        return 0.5 * ((v + m * m) / variance - 1.0 - np.log(v / variance)) - expected

    found = minimize(
        negative_bound, [1.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13}
    )
    return -n * found.fun


@pytest.mark.slow
@pytest.mark.parametrize("variance", [1.0, 10.0])
def test_variational_bound_of_uncorrelated_rows(variance):
    X, y = TABLES["two classes"]
    kernel = ConstantKernel(variance) * RBF(1e-6)
    model = GaussianProcessClassifier(kernel, optimizer=None, inference="vi").fit(X, y)
    same(model.log_marginal_likelihood_value_, independent_bound(variance, 24), 1e-8)


HUGE = (1e10, 1e12, 1e14, 1e16, 1e20, 1e30)


@pytest.mark.slow
@pytest.mark.parametrize("method", EVIDENCE_OF_UNCORRELATED_ROWS)
def test_a_huge_signal_variance_is_right_or_said_not_to_be(method):
    """The gradient of the mode is of size f / variance: a tolerance of 1e-10 says nothing here."""
    X, y = TABLES["two classes"]
    for variance in HUGE:
        kernel = ConstantKernel(variance, (1e-5, 1e40)) * RBF(1e-3)
        model = fit(X, y, kernel=kernel, optimizer=None, **WHOLE[method])
        if model.converged_:
            expected = EVIDENCE_OF_UNCORRELATED_ROWS[method](variance, 24)
            np.testing.assert_allclose(model.log_marginal_likelihood_value_, expected, rtol=1e-6)


@pytest.mark.slow
def test_the_variational_bound_of_a_huge_signal_variance_is_a_sum_or_said_not_to_be():
    """Without correlation every row adds the same: one row tells."""
    X, y = TABLES["two classes"]
    for variance in HUGE:
        kernel = ConstantKernel(variance, (1e-5, 1e40)) * RBF(1e-3)
        model = fit(X, y, kernel=kernel, optimizer=None, inference="vi")
        pair = fit(X[:2], [0, 1], kernel=kernel, optimizer=None, inference="vi")
        value = model.log_marginal_likelihood_value_
        if model.converged_:
            # of one row the bound is log(1/2) - 1.1 at 1e10 and loses log(10) / 40 a decade
            assert -24 * (1.0 + 0.05 * np.log(variance)) < value < 24 * np.log(0.5), variance
        if model.converged_ and pair.converged_:
            np.testing.assert_allclose(value, 12 * pair.log_marginal_likelihood_value_, rtol=1e-6)


def evidence_of_one_latent(variance, y):
    """Log of the integral of ``prod_i Phi(y_i f) N(f | 0, variance)``, by trapezoids."""
    f = np.linspace(-40.0, 40.0, 400_001)
    likelihood = y.sum() * log_ndtr(f) + (len(y) - y.sum()) * log_ndtr(-f)
    total = np.trapezoid(np.exp(likelihood - 0.5 * f * f / variance), f)
    return np.log(total) - 0.5 * np.log(2 * np.pi * variance)


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["ep", "pl", "vi"])
def test_a_huge_variance_of_one_latent_is_right_or_said_not_to_be(inference):
    """All rows share one value, and both labels hold it back: its evidence falls as 1 / sd.

    From 1e14 on the jitter that is warned of counts as noise of the probit. Laplace's method is
    not here: beside so much noise its own error is nats.
    """
    X, y = TABLES["two classes"]
    for variance in (1.0, 1e4, 1e8, *HUGE):
        kernel = ConstantKernel(variance, (1e-5, 1e40))
        model = fit(X, y, kernel=kernel, optimizer=None, inference=inference)
        if model.converged_:
            expected = evidence_of_one_latent(variance / (1.0 + model.models_[0].problem.jitter), y)
            same(model.log_marginal_likelihood_value_, expected, 0.1)


@pytest.mark.slow
def test_restarts_under_huge_variances_find_no_evidence_that_is_not_there():
    X, y = TABLES["three classes"]
    kernel = DotProduct(1.0, (1e-150, 1e150))
    model = fit(
        X, y, kernel=kernel, n_restarts_optimizer=3, random_state=0, multi_class="one_vs_rest"
    )
    # the bias has its maxima well below 1; a deviation of 1e14 costs 15 nats more
    assert model.kernel_.theta.max() < np.log(10.0)


def test_learning_is_not_drawn_to_evidence_that_is_not_there():
    X, y = TABLES["two classes"]
    kernel = ConstantKernel(1.0, (1e-5, 1e40)) * RBF(1e-3, "fixed")
    model = fit(X, y, kernel=kernel, n_restarts_optimizer=10, random_state=0)
    # 24 uncorrelated rows: a vanishing variance is best, with a probability of 1/2 each
    assert model.log_marginal_likelihood_value_ <= 24 * np.log(0.5) + 1e-3


# ---------------------------------------------------------------- hypothesis

STATIONARY = (
    lambda d, v, length: None,
    lambda d, v, length: ConstantKernel(v, (1e-12, 1e10)) * RBF(length, (1e-9, 1e9)),
    lambda d, v, length: RBF(np.full(d, length), (1e-9, 1e9)),
    lambda d, v, length: ConstantKernel(v, (1e-12, 1e10)) * Matern(length, (1e-9, 1e9), nu=0.5),
    lambda d, v, length: Matern(np.full(d, length), (1e-9, 1e9), nu=1.5),
    lambda d, v, length: (
        ConstantKernel(v, (1e-12, 1e10)) * Matern(length, (1e-9, 1e9), nu=2.5) + WhiteKernel(0.1)
    ),
    lambda d, v, length: RationalQuadratic(length, 1.0, (1e-9, 1e9)),
)
PRODUCTS = (
    lambda d, v, length: DotProduct(1.0),
    lambda d, v, length: DotProduct(0.0, "fixed"),
    lambda d, v, length: ConstantKernel(v, (1e-12, 1e10)) * DotProduct(1.0) ** 2,
    lambda d, v, length: RBF(length, (1e-9, 1e9)) + DotProduct(1.0),
    lambda d, v, length: RBF(length, (1e-9, 1e9)) * DotProduct(1.0),
)


@st.composite
def problems(draw, kernels, methods=QUICK, unit=150):
    """Rows (some equal), columns in any unit, labels, weights, and an estimator's settings."""
    n, d = draw(st.integers(2, 14)), draw(st.integers(1, 4))
    classes = draw(st.integers(2, min(4, n)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    distinct = draw(st.integers(1, n))
    X = rng.normal(size=(distinct, d))[rng.integers(0, distinct, size=n)]
    exponent = st.one_of(st.just(0), st.integers(-unit, unit))
    X = X * 10.0 ** np.array(draw(st.lists(exponent, min_size=d, max_size=d)), dtype=float)
    if draw(st.booleans()):
        X = X + 10.0 ** draw(st.integers(-9, 9))
    y = np.r_[np.arange(classes), rng.integers(0, classes, size=n - classes)]
    weights = None
    if draw(st.booleans()):
        weights = 10.0 ** rng.uniform(-12, 6, size=n) * rng.integers(0, 2, size=n)
        weights[:classes] = np.maximum(weights[:classes], 1.0)
    variance = 10.0 ** draw(st.floats(-10, 8))
    length = 10.0 ** draw(st.floats(-6, 6))
    method = draw(st.sampled_from(methods))
    settings = {
        "kernel": draw(st.sampled_from(kernels))(d, variance, length),
        **METHODS[method],
        "multi_class": draw(st.sampled_from(SPLITS if method in JOINT else SPLITS[1:])),
        "optimizer": draw(st.sampled_from([None, None, "fmin_l_bfgs_b"])),
    }
    far = 10.0 ** draw(st.integers(-300, 300)) * rng.normal(size=(3, d))
    return X, y, weights, settings, np.vstack([far, np.zeros((1, d))])


hunt = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.slow
@hunt
@given(problem=problems(STATIONARY))
def test_nothing_finite_breaks_a_stationary_kernel(problem):
    X, y, weights, settings, X_new = problem
    assert_sane(fit(X, y, weights, **settings), X, X_new)


@pytest.mark.slow
@settings(hunt, max_examples=40)
@given(problem=problems(STATIONARY, OTHERS))
def test_nothing_finite_breaks_any_method(problem):
    X, y, weights, settings, X_new = problem
    assert_sane(fit(X, y, weights, **settings), X, X_new)


@pytest.mark.slow
@hunt
@given(problem=problems(PRODUCTS, ["laplace"]))
def test_nothing_finite_breaks_a_dot_product_that_does_not_overflow(problem):
    X, y, weights, settings, X_new = problem
    try:
        model = fit(X, y, weights, **settings)
    except NotPositiveDefiniteError as error:
        # a variance beyond 1.8e308 cannot be had, and the message says so
        used = X if weights is None else X[weights > 0]
        with np.errstate(over="ignore"):
            assert not np.isfinite(1e10 * (1.0 + (used**2).sum(axis=1)) ** 2).all()
        assert "gives NaN or infinity on the training inputs" in str(error)  # noqa: PT017
    else:
        assert_sane(model, X, X_new)


# EP takes minutes where the values of K reach 1e100
@pytest.mark.slow
@settings(hunt, max_examples=6)
@given(problem=problems(PRODUCTS, ["ep"], unit=10))
def test_nothing_finite_breaks_ep_with_a_dot_product(problem):
    X, y, weights, settings, X_new = problem
    assert_sane(fit(X, y, weights, **settings), X, X_new)
