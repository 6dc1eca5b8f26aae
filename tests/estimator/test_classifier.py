"""The estimator: what goes in, what comes out, and what scikit-learn does with it."""

import functools
import sys
import warnings
from dataclasses import dataclass
from typing import ClassVar

import joblib
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    WhiteKernel,
)
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from threadpoolctl import threadpool_info, threadpool_limits

from gpclass import GaussianProcessClassifier
from gpclass.inference import Approximation, Laplace, PosteriorLinearisation
from gpclass.kernels import Precomputed, pullback
from gpclass.learning import KeepFixed
from gpclass.likelihoods import Likelihood, Logit, Probit

MULTI_CLASS = ["one_vs_rest", "one_vs_one"]

X2, Y2 = make_classification(
    60, 3, n_informative=3, n_redundant=0, flip_y=0.2, class_sep=0.7, random_state=1
)
X3, Y3 = make_classification(
    75, 3, n_informative=3, n_redundant=0, n_classes=3, n_clusters_per_class=1, flip_y=0.2,
    class_sep=0.7, random_state=1,
)  # fmt: skip
# X, y and multi_class of a problem of two classes and of both ways to split three
PROBLEMS = {
    "two": (X2, Y2, "one_vs_rest"),
    "rest": (X3, Y3, "one_vs_rest"),
    "pairs": (X3, Y3, "one_vs_one"),
}
NEW = np.random.default_rng(5).standard_normal((40, 3))


@pytest.fixture(params=PROBLEMS)
def problem(request):
    return PROBLEMS[request.param]


def gpc(kernel=None, **settings):
    return GaussianProcessClassifier(kernel, **settings)


def fixed(kernel=None, **settings):
    return gpc(2.0 * RBF(1.5) if kernel is None else kernel, optimizer=None, **settings)


# ------------------------------------------------------------------ weights


@pytest.mark.parametrize("multi_class", MULTI_CLASS)
@pytest.mark.parametrize("likelihood", ["logit", "probit"])
@pytest.mark.parametrize("learn", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_weight_is_the_row_repeated(multi_class, likelihood, learn):
    counts = np.random.default_rng(0).integers(0, 4, len(Y3))
    make = gpc if learn else fixed
    settings = {"multi_class": multi_class, "likelihood": likelihood}
    repeated = make(**settings).fit(np.repeat(X3, counts, axis=0), np.repeat(Y3, counts))
    weighted = make(**settings).fit(X3, Y3, sample_weight=counts)
    left_out = make(**settings).fit(X3[counts > 0], Y3[counts > 0], counts[counts > 0])
    # the hyperprior's maximum is none of the evidence, which moves with theta in first order there
    rel = 1e-7 if learn else 1e-8
    for other in (weighted, left_out):
        assert other.log_marginal_likelihood_value_ == pytest.approx(
            repeated.log_marginal_likelihood_value_, rel=rel
        )
        np.testing.assert_allclose(other.kernel_.theta, repeated.kernel_.theta, atol=1e-5)
        np.testing.assert_allclose(
            other.predict_proba(NEW), repeated.predict_proba(NEW), atol=1e-6 if learn else 1e-8
        )
    theta = repeated.kernel_.theta
    _, expected = repeated.log_marginal_likelihood(theta, eval_gradient=True)
    for other in (weighted, left_out):
        _, found = other.log_marginal_likelihood(theta, eval_gradient=True)
        np.testing.assert_allclose(found, expected, atol=1e-8)


def test_weights_of_one_change_nothing():
    plain = fixed().fit(X2, Y2)
    for weight in (np.ones(len(Y2)), 1.0, np.ones(len(Y2), dtype=np.float32), [1] * len(Y2)):
        weighted = fixed().fit(X2, Y2, sample_weight=weight)
        assert weighted.predict_proba(NEW).tobytes() == plain.predict_proba(NEW).tobytes()


def test_a_class_without_weight_is_no_class():
    model = fixed().fit(X3, Y3, sample_weight=Y3 != 1)
    np.testing.assert_array_equal(model.classes_, [0, 2])
    assert model.predict_proba(NEW).shape == (len(NEW), 2)
    with pytest.raises(ValueError, match="rows of positive weight"):
        fixed().fit(X3, Y3, sample_weight=Y3 == 1)


def test_class_weight_of_a_dict_is_explicit_weights():
    by_class = fixed(class_weight={0: 2.0, 2: 0.5}).fit(X3, Y3)
    explicit = fixed().fit(X3, Y3, sample_weight=np.array([2.0, 1.0, 0.5])[Y3])
    assert by_class.predict_proba(NEW).tobytes() == explicit.predict_proba(NEW).tobytes()


def test_balanced_class_weight_is_explicit_weights():
    rare = np.flatnonzero((Y2 == 0) | (np.arange(len(Y2)) % 5 == 0))
    X, y = X2[rare], Y2[rare]
    counts = np.bincount(y)
    assert counts[0] > 2 * counts[1]
    balanced = fixed(class_weight="balanced").fit(X, y)
    explicit = fixed().fit(X, y, sample_weight=(len(y) / (2 * counts))[y])
    np.testing.assert_allclose(
        balanced.predict_proba(NEW), explicit.predict_proba(NEW), rtol=0, atol=1e-12
    )
    assert (balanced.predict_proba(NEW)[:, 1] > fixed().fit(X, y).predict_proba(NEW)[:, 1]).all()


def test_class_weights_multiply_sample_weights():
    weight = np.random.default_rng(0).uniform(size=len(Y2))
    both = fixed(class_weight={1: 3.0}).fit(X2, Y2, sample_weight=weight)
    explicit = fixed().fit(X2, Y2, sample_weight=weight * np.where(Y2 == 1, 3.0, 1.0))
    assert both.predict_proba(NEW).tobytes() == explicit.predict_proba(NEW).tobytes()


def test_weights_of_a_string_class():
    names = np.array(["no", "yes"])[Y2]
    by_name = fixed(class_weight={"yes": 2.0}).fit(X2, names)
    explicit = fixed().fit(X2, names, sample_weight=np.where(names == "yes", 2.0, 1.0))
    assert by_name.predict_proba(NEW).tobytes() == explicit.predict_proba(NEW).tobytes()


# --------------------------------------------------------- metadata routing


def test_sample_weights_are_routed_through_a_pipeline():
    weight = np.random.default_rng(0).uniform(0.1, 3, len(Y2))
    scaled = StandardScaler().fit_transform(X2)
    expected = fixed().fit(scaled, Y2, sample_weight=weight).predict_proba(scaled)
    with config_context(enable_metadata_routing=True):
        model = fixed().set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, model).fit(X2, Y2, sample_weight=weight)
    np.testing.assert_array_equal(pipeline.predict_proba(X2), expected)


@pytest.mark.slow
def test_sample_weights_are_routed_through_a_grid_search():
    weight = np.where(np.arange(len(Y2)) % 3 == 0, 5.0, 0.2)
    grid = {"kernel__k2__length_scale": [0.5, 2.0]}
    folds = StratifiedKFold(3)
    with config_context(enable_metadata_routing=True):
        model = fixed().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        search = GridSearchCV(model, grid, cv=folds).fit(X2, Y2, sample_weight=weight)
    for k, length in enumerate(grid["kernel__k2__length_scale"]):
        scores = [
            fixed(2.0 * RBF(length))
            .fit(X2[train], Y2[train], weight[train])
            .score(X2[test], Y2[test], weight[test])
            for train, test in folds.split(X2, Y2)
        ]
        assert search.cv_results_["mean_test_score"][k] == pytest.approx(np.mean(scores))
    best = fixed(2.0 * RBF(search.best_params_["kernel__k2__length_scale"]))
    best.fit(X2, Y2, sample_weight=weight)
    np.testing.assert_array_equal(search.predict_proba(NEW), best.predict_proba(NEW))


def test_weights_that_nobody_asked_for_are_refused():
    from sklearn.exceptions import UnsetMetadataPassedError

    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(fixed(), {"max_iter_predict": [50]}, cv=2)
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            search.fit(X2, Y2, sample_weight=np.ones(len(Y2)))


# ---------------------------------------------------------- decision_function


@pytest.mark.parametrize("likelihood", ["logit", "probit"])
def test_decision_function_of_two_classes_is_the_log_odds(likelihood):
    model = gpc(likelihood=likelihood).fit(X2, Y2)
    far = np.vstack([NEW, 30 * NEW, X2])
    scores, P = model.decision_function(far), model.predict_proba(far)
    assert scores.shape == (len(far),)
    np.testing.assert_allclose(expit(scores), P[:, 1], rtol=1e-12)
    np.testing.assert_array_equal(model.predict(far), (scores > 0).astype(int))
    np.testing.assert_array_equal(model.predict(far), P.argmax(axis=1))
    order = np.argsort(scores, kind="stable")
    assert (np.diff(P[order, 1]) >= 0).all()
    mean, variance = model.latent_mean_and_variance(far)
    # far away a mean of 1e-200 has the odds of zero
    telling = np.abs(mean) > 1e-12
    np.testing.assert_array_equal(np.sign(mean[telling]), np.sign(scores[telling]))
    assert (variance >= 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("multi_class", MULTI_CLASS)
def test_decision_function_of_three_classes_ranks_as_probabilities(multi_class):
    model = gpc(multi_class=multi_class).fit(X3, Y3)
    scores, P = model.decision_function(NEW), model.predict_proba(NEW)
    assert scores.shape == P.shape == (len(NEW), 3)
    np.testing.assert_allclose(np.exp(scores), P, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(NEW), scores.argmax(axis=1))
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-14)


# --------------------------------------------------------------- kinds of X


def as_pandas(X, names):
    pd = pytest.importorskip("pandas", reason="this frame needs pandas")
    return pd.DataFrame(X, columns=names)


def as_polars(X, names):
    pl = pytest.importorskip("polars", reason="this frame needs polars")
    return pl.DataFrame(X, schema=names, orient="row")


@pytest.mark.parametrize("frame", [as_pandas, as_polars])
def test_frames(frame):
    model = fixed().fit(frame(X2, ["a", "b", "c"]), Y2)
    plain = fixed().fit(X2, Y2)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.n_features_in_ == 3
    P = model.predict_proba(frame(NEW, ["a", "b", "c"]))
    np.testing.assert_allclose(P, plain.predict_proba(NEW), rtol=0, atol=1e-14)
    for names in (["a", "c", "b"], ["a", "b", "d"]):
        for method in (model.predict, model.predict_proba, model.decision_function):
            with pytest.raises(ValueError, match="feature names should match"):
                method(frame(NEW, names))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame(NEW[:, :2], ["a", "b"]))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(NEW)
    assert not hasattr(plain, "feature_names_in_")


def test_series_of_labels():
    pd = pytest.importorskip("pandas", reason="series need pandas")
    pl = pytest.importorskip("polars", reason="series need polars")
    names = np.array(["no", "yes"])[Y2]
    expected = fixed().fit(X2, names)
    for y in (
        pd.Series(names),
        pd.Series(names, index=np.arange(len(names))[::-1]),
        pd.Series(names).astype("category"),
        pl.Series(names),
        names.astype(object),
        names.tolist(),
    ):
        model = fixed().fit(X2, y)
        assert model.classes_.tolist() == ["no", "yes"]
        assert model.predict(NEW).tolist() == expected.predict(NEW).tolist()
    weight = np.linspace(0.1, 2, len(Y2))
    for sample_weight in (pd.Series(weight, index=np.arange(len(Y2))[::-1]), pl.Series(weight)):
        model = fixed().fit(X2, names, sample_weight=sample_weight)
        explicit = fixed().fit(X2, names, sample_weight=weight)
        assert model.predict_proba(NEW).tobytes() == explicit.predict_proba(NEW).tobytes()


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "yes"],
        [False, True],
        [0, 1],
        [-1, 1],
        [7, 100],
        [1.0, 2.0],
        np.array(["a", "b"], dtype=object),
        np.array([1, 2], dtype=np.uint8),
    ],
    ids=str,
)
def test_labels_of_any_type(labels):
    labels = np.asarray(labels)
    model = fixed().fit(X2, labels[Y2])
    expected = fixed().fit(X2, Y2)
    np.testing.assert_array_equal(model.classes_, labels)
    assert model.classes_.dtype == labels.dtype
    assert model.predict(NEW).dtype == labels.dtype
    np.testing.assert_array_equal(model.predict(NEW), labels[expected.predict(NEW)])
    np.testing.assert_array_equal(model.y_train_, Y2)
    assert model.predict_proba(NEW).tobytes() == expected.predict_proba(NEW).tobytes()
    assert model.score(X2, labels[Y2]) == expected.score(X2, Y2)


@pytest.mark.slow
@pytest.mark.parametrize("multi_class", MULTI_CLASS)
def test_three_string_labels(multi_class):
    names = np.array(["setosa", "virginica", "other"])
    model = gpc(multi_class=multi_class).fit(X3, names[Y3])
    assert model.classes_.tolist() == sorted(names)
    assert model.n_classes_ == 3
    order = np.searchsorted(model.classes_, names)
    expected = gpc(multi_class=multi_class).fit(X3, Y3).predict_proba(NEW)
    np.testing.assert_allclose(model.predict_proba(NEW)[:, order], expected, atol=1e-5)


@pytest.mark.parametrize("y", [np.linspace(0, 1, 60), np.ones(60), [None] * 60, Y2[:-1]])
def test_bad_labels(y):
    with pytest.raises(
        ValueError, match=r"[Uu]nknown label type|2 or more|missing labels|inconsistent"
    ):
        fixed().fit(X2, y)


@pytest.mark.parametrize("learn", [False, True])
def test_float32_input_is_float64_to_its_precision(learn):
    make = gpc if learn else fixed
    double = make().fit(X2, Y2)
    single = make().fit(X2.astype(np.float32), Y2)
    P = single.predict_proba(NEW.astype(np.float32))
    assert P.dtype == np.float64
    np.testing.assert_allclose(P, double.predict_proba(NEW), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("copy_X_train", [False, True])
def test_read_only_memory_maps(tmp_path, copy_X_train):
    joblib.dump((X2, Y2, np.linspace(0.5, 2, len(Y2)), NEW), tmp_path / "data")
    X, y, weight, new = joblib.load(tmp_path / "data", mmap_mode="r")
    assert not X.flags.writeable
    model = gpc(1.0 * RBF([1.0] * 3), copy_X_train=copy_X_train).fit(X, y, sample_weight=weight)
    expected = gpc(1.0 * RBF([1.0] * 3)).fit(X2, Y2, sample_weight=np.array(weight))
    np.testing.assert_allclose(model.predict_proba(new), expected.predict_proba(NEW), atol=1e-12)


def test_copy_X_train():
    X = X2.copy()
    kept, shared = fixed().fit(X, Y2), fixed(copy_X_train=False).fit(X, Y2)
    assert not np.shares_memory(kept.X_train_, X)
    assert np.shares_memory(shared.X_train_, X)
    expected = fixed().fit(X2, Y2).predict_proba(NEW)
    X[:] = 0.0
    assert kept.predict_proba(NEW).tobytes() == expected.tobytes()


def test_nothing_that_was_given_is_changed():
    X, y, weight = X2.copy(), Y2.copy(), np.linspace(0.0, 1.0, len(Y2))
    before = X.tobytes(), y.tobytes(), weight.tobytes()
    kernel = 2.0 * RBF([1.0, 2.0, 3.0])
    theta = kernel.theta.copy()
    new = NEW.copy()
    model = gpc(kernel, copy_X_train=False, class_weight="balanced").fit(X, y, weight)
    model.predict_proba(new)
    model.log_marginal_likelihood(theta + 1, eval_gradient=True)
    assert (X.tobytes(), y.tobytes(), weight.tobytes()) == before
    np.testing.assert_array_equal(new, NEW)
    np.testing.assert_array_equal(kernel.theta, theta)
    assert model.kernel is kernel


# --------------------------------------------------------- structured inputs


def sequence_kernel():
    module = pytest.importorskip(
        "sklearn.gaussian_process.tests._mini_sequence_kernel",
        reason="the installed scikit-learn comes without its tests",
    )
    return module.MiniSeqKernel


WORDS = ["A", "AB", "B", "BB", "ABA", "BAB", "AA", "BBA"]
KINDS = np.array([0, 0, 1, 1, 0, 1, 0, 1])


def test_lists_of_strings():
    kernel = 0.1 * sequence_kernel()(0.5, (0.1, 0.9))
    model = fixed(kernel).fit(WORDS, KINDS)
    K = kernel(WORDS)
    expected = fixed("precomputed").fit(K, KINDS)
    new = ["AAA", "BA", "B"]
    K_new = np.hstack([kernel(new, WORDS), kernel.diag(new)[:, None]])
    np.testing.assert_allclose(model.predict_proba(new), expected.predict_proba(K_new), atol=1e-12)
    learnt = gpc(sequence_kernel()(0.5, (0.1, 0.9)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        learnt.fit(WORDS, KINDS)
    assert (
        learnt.log_marginal_likelihood_value_
        >= gpc(sequence_kernel()(0.5, (0.1, 0.9)), optimizer=None)
        .fit(WORDS, KINDS)
        .log_marginal_likelihood_value_
    )
    assert learnt.score(WORDS, KINDS) >= 0.5


@pytest.mark.parametrize("multi_class", MULTI_CLASS)
def test_lists_of_strings_with_three_classes_and_weights(multi_class):
    kernel = 0.1 * sequence_kernel()(0.5, (0.1, 0.9))
    kinds = np.array([0, 2, 1, 1, 2, 2, 0, 1])
    model = fixed(kernel, multi_class=multi_class)
    model.fit(WORDS, kinds, sample_weight=[1, 1, 1, 0, 1, 1, 2, 1])
    kept = [i for i in range(8) if i != 3]
    words = [WORDS[i] for i in kept] + ["AA"]
    repeated = fixed(kernel, multi_class=multi_class).fit(words, [*kinds[kept], 0])
    np.testing.assert_allclose(
        model.predict_proba(["AAA", "BA"]), repeated.predict_proba(["AAA", "BA"]), atol=1e-9
    )


@pytest.mark.parametrize(
    "convert",
    [tuple, list, lambda word: np.array([ord(c) for c in word])],
    ids=["tuple", "list", "array"],
)
def test_lists_of_sequences_of_unequal_length(convert):
    kernel = 0.1 * sequence_kernel()(0.5, (0.1, 0.9))
    expected = fixed(kernel).fit(WORDS, KINDS)
    model = fixed(kernel).fit([convert(word) for word in WORDS], KINDS)
    np.testing.assert_array_equal(
        model.predict_proba([convert(word) for word in ("AAA", "BA")]),
        expected.predict_proba(["AAA", "BA"]),
    )


def test_lists_of_sequences_of_equal_length():
    kernel = 0.1 * sequence_kernel()(0.5, (0.1, 0.9))
    words, kinds = ["AB", "BA", "AA", "BB"], [0, 1, 0, 1]
    expected = fixed(kernel).fit(words, kinds)
    model = fixed(kernel).fit([list(word) for word in words], kinds)
    np.testing.assert_array_equal(
        model.predict_proba([list("AB"), list("AAA")]), expected.predict_proba(["AB", "AAA"])
    )


# -------------------------------------------------------------- precomputed


@pytest.mark.parametrize("multi_class", MULTI_CLASS)
@pytest.mark.parametrize("given", ["precomputed", Precomputed()], ids=["name", "object"])
def test_a_precomputed_matrix_is_its_kernel(given, multi_class):
    kernel = 2.0 * RBF(1.5)
    expected = fixed(kernel, multi_class=multi_class).fit(X3, Y3)
    model = gpc(given, multi_class=multi_class).fit(kernel(X3), Y3)
    P = expected.predict_proba(NEW)
    K_new = kernel(NEW, X3)
    np.testing.assert_allclose(model.predict_proba(K_new), P, atol=1e-10)
    with_variance = np.hstack([K_new, kernel.diag(NEW)[:, None]])
    np.testing.assert_allclose(model.predict_proba(with_variance), P, atol=1e-10)
    np.testing.assert_array_equal(model.predict(with_variance), expected.predict(NEW))
    assert model.log_marginal_likelihood_value_ == pytest.approx(
        expected.log_marginal_likelihood_value_, abs=1e-10
    )
    assert get_tags(model).input_tags.pairwise


def test_a_precomputed_matrix_whose_diagonal_is_not_constant_needs_variances():
    kernel = DotProduct(1.0)
    expected = fixed(kernel).fit(X2, Y2)
    model = gpc("precomputed").fit(kernel(X2), Y2)
    K_new = kernel(NEW, X2)
    with pytest.raises(ValueError, match="append it as the last column"):
        model.predict(K_new)
    with_variance = np.hstack([K_new, kernel.diag(NEW)[:, None]])
    np.testing.assert_allclose(
        model.predict_proba(with_variance), expected.predict_proba(NEW), atol=1e-10
    )


def test_a_precomputed_matrix_with_weights():
    kernel, weight = 2.0 * RBF(1.5), np.arange(len(Y2)) % 3
    expected = fixed(kernel).fit(X2, Y2, sample_weight=weight)
    model = gpc("precomputed").fit(kernel(X2), Y2, sample_weight=weight)
    np.testing.assert_allclose(
        model.predict_proba(kernel(NEW, X2)), expected.predict_proba(NEW), atol=1e-10
    )


@pytest.mark.slow
@pytest.mark.parametrize("multi_class", MULTI_CLASS)
def test_a_precomputed_matrix_in_cross_validation(multi_class):
    kernel, folds = 2.0 * RBF(1.5), StratifiedKFold(3)
    plain, given = fixed(kernel), gpc("precomputed")
    settings = {"cv": folds, "scoring": "neg_log_loss"}
    for model in (plain, given):
        model.set_params(multi_class=multi_class)
    np.testing.assert_allclose(
        cross_val_score(given, kernel(X3), Y3, **settings),
        cross_val_score(plain, X3, Y3, **settings),
        atol=1e-9,
    )
    np.testing.assert_allclose(
        cross_val_predict(given, kernel(X3), Y3, cv=folds, method="predict_proba"),
        cross_val_predict(plain, X3, Y3, cv=folds, method="predict_proba"),
        atol=1e-9,
    )


def test_only_precomputed_is_pairwise():
    for kernel in (None, RBF(), 1.0 * RBF()):
        assert not get_tags(gpc(kernel)).input_tags.pairwise


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda K: K[:, :-1], "square"),
        (lambda K: K + np.triu(np.ones_like(K), 1), "not symmetric"),
        (lambda K: K - 10 * np.eye(len(K)), "negative"),
        (lambda K: np.where(K.max() == K, np.nan, K), "NaN"),
        (lambda K: np.where(np.eye(len(K)) == 1, K, 3.0), "not positive semi-definite"),
    ],
)
def test_bad_precomputed_matrices(change, words):
    with pytest.raises(ValueError, match=words):
        gpc("precomputed").fit(change((2.0 * RBF(1.5))(X2)), Y2)


@pytest.mark.parametrize("columns", [59, 62])
def test_new_rows_of_a_precomputed_matrix_of_the_wrong_width(columns):
    model = gpc("precomputed").fit(RBF(1.5)(X2), Y2)
    with pytest.raises(ValueError, match=r"60 features|shape"):
        model.predict(np.ones((2, columns)))


# ---------------------------------------------- what scikit-learn does with it


def test_clone_keeps_parameters_and_drops_what_was_learnt():
    model = gpc(
        1.0 * RBF([1.0] * 3), inference=Laplace(tol=1e-8), likelihood=Probit(), n_jobs=1, verbose=0
    ).fit(X2, Y2)
    other = clone(model)
    assert repr(other) == repr(model)
    assert other.kernel == model.kernel
    with pytest.raises(NotFittedError):
        other.predict(X2)
    assert other.fit(X2, Y2).predict_proba(NEW).tobytes() == model.predict_proba(NEW).tobytes()


def test_the_pipeline_does_as_its_steps():
    pipeline = make_pipeline(StandardScaler(), gpc()).fit(X2, Y2)
    scaler = StandardScaler().fit(X2)
    model = gpc().fit(scaler.transform(X2), Y2)
    P = model.predict_proba(scaler.transform(NEW))
    assert pipeline.predict_proba(NEW).tobytes() == P.tobytes()
    assert pipeline.decision_function(NEW).shape == (len(NEW),)


def test_grid_search_over_the_kernels_parameters():
    grid = {
        "kernel__k1__constant_value": [0.5, 5.0],
        "kernel__k2__length_scale": [0.1, 1.0, 3.0],
    }
    search = GridSearchCV(fixed(1.0 * RBF(1.0)), grid, cv=3, scoring="neg_log_loss").fit(X2, Y2)
    assert len(set(search.cv_results_["mean_test_score"])) == 6
    constant, length = (search.best_params_[name] for name in grid)
    best = fixed(ConstantKernel(constant) * RBF(length)).fit(X2, Y2)
    np.testing.assert_allclose(search.predict_proba(NEW), best.predict_proba(NEW), atol=1e-12)


@pytest.mark.slow
def test_grid_search_over_kernels_and_parts():
    grid = {
        "kernel": [None, RBF(1.0, "fixed")],
        "likelihood": ["logit", Probit()],
        "inference": ["laplace", Laplace(tol=1e-8), "ep", PosteriorLinearisation()],
    }
    search = GridSearchCV(gpc(), grid, cv=2, scoring="neg_brier_score").fit(X2, Y2)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_the_calibration_display():
    matplotlib = pytest.importorskip("matplotlib", reason="the display needs matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from sklearn.calibration import CalibrationDisplay

    model = gpc().fit(X2, Y2)
    display = CalibrationDisplay.from_estimator(model, X2, Y2, n_bins=4)
    np.testing.assert_array_equal(display.y_prob, model.predict_proba(X2)[:, 1])
    plt.close(display.figure_)


# ----------------------------------------------------------- warm starts, verbose


def test_warm_starts_take_fewer_iterations_to_the_same_result():
    for X, y, multi_class in PROBLEMS.values():
        model = fixed(20.0 * RBF(1.5), warm_start=True, multi_class=multi_class).fit(X, y)
        cold = model.n_iter_, model.log_marginal_likelihood_value_, model.predict_proba(NEW)
        model.fit(X, y)
        assert model.n_iter_ < cold[0]
        assert model.log_marginal_likelihood_value_ == pytest.approx(cold[1], abs=1e-10)
        np.testing.assert_allclose(model.predict_proba(NEW), cold[2], atol=1e-9)
        again = fixed(20.0 * RBF(1.5), multi_class=multi_class).fit(X, y)
        assert again.fit(X, y).n_iter_ == cold[0]


@pytest.mark.parametrize("inference", ["ep", "laplace"])
@pytest.mark.parametrize("multi_class", ["joint", "one_vs_rest"])
def test_warm_starts_keep_the_sites_where_rows_are_added(multi_class, inference):
    for X, y in ((X2, Y2), (X3, Y3)):
        settings = {"multi_class": multi_class, "inference": inference}
        cold = fixed(20.0 * RBF(1.5), **settings).fit(X, y)
        model = fixed(20.0 * RBF(1.5), warm_start=True, **settings).fit(X[:-1], y[:-1])
        model.fit(X, y)
        assert model.n_iter_ < cold.n_iter_
        np.testing.assert_allclose(model.predict_proba(NEW), cold.predict_proba(NEW), atol=1e-7)


def test_warm_starts_of_other_rows_are_cold():
    cold = fixed().fit(X2, Y2)
    model = fixed(warm_start=True).fit(X2[:-1], 1 - Y2[:-1]).fit(X2, Y2)
    assert model.n_iter_ == cold.n_iter_


def test_warm_starts_of_a_learnt_kernel_end_at_the_same_result():
    model = gpc(1.0 * RBF(1.0), warm_start=True).fit(X2, Y2)
    theta, P = model.kernel_.theta, model.predict_proba(NEW)
    model.fit(X2, Y2)
    np.testing.assert_allclose(model.kernel_.theta, theta, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(NEW), P, atol=1e-7)


def test_warm_starts_begin_at_the_last_hyperparameters():
    model = gpc(1.0 * RBF(1.0), warm_start=True).fit(X2[:-1], Y2[:-1])
    theta, cold = model.kernel_.theta, gpc(1.0 * RBF(1.0)).fit(X2, Y2)
    model.fit(X2, Y2)
    np.testing.assert_allclose(model.optimizer_report_.runs[0].run.start, theta)
    assert model.n_iter_ < cold.n_iter_
    np.testing.assert_allclose(model.kernel_.theta, cold.kernel_.theta, atol=1e-5)
    # within new bounds, and anew where the hyperparameters are others
    bound = 0.5 * np.exp(theta[1])
    model.set_params(kernel=1.0 * RBF(0.5 * bound, (0.1 * bound, bound)))
    with pytest.warns(ConvergenceWarning, match="bound"):
        model.fit(X2, Y2)
    assert model.optimizer_report_.runs[0].run.start[1] == pytest.approx(np.log(bound))
    model.set_params(kernel=RBF(0.7)).fit(X2, Y2)
    np.testing.assert_allclose(model.optimizer_report_.runs[0].run.start, np.log([0.7]))


def test_warm_starts_from_another_problem_do_no_harm():
    model = fixed(warm_start=True).fit(X2, Y2)
    for X, y in ((X2[:30], Y2[:30]), (X3, Y3), (X2, 1 - Y2), (1e3 * X2, Y2), (X2, Y2)):
        expected = fixed().fit(X, y)
        model.fit(X, y)
        np.testing.assert_allclose(model.predict_proba(NEW), expected.predict_proba(NEW), atol=1e-8)


@pytest.fixture(params=["rich", "plain"])
def console(request, monkeypatch):
    if request.param == "rich":
        pytest.importorskip("rich", reason="the progress line of rich needs rich")
    else:
        monkeypatch.setitem(sys.modules, "rich", None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"optimizer": None},
        {"kernel": 1.0 * RBF(1.0), "n_restarts_optimizer": 1, "random_state": 0},
        pytest.param(
            {"kernel": 1.0 * RBF(1.0), "n_restarts_optimizer": 1, "random_state": 0, "n_jobs": 2},
            marks=pytest.mark.slow,
        ),
    ],
    ids=["learnt", "fixed", "restarts", "restarts in parallel"],
)
@pytest.mark.parametrize(("X", "y"), [(X2, Y2), (X3, Y3)], ids=["two", "three"])
def test_verbose_shows_a_line_on_standard_error(console, capsys, settings, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        quiet = GaussianProcessClassifier(**settings).fit(X, y)
        assert capsys.readouterr() == ("", "")
        loud = GaussianProcessClassifier(**settings, verbose=1).fit(X, y)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith("\n")
    if "optimizer" not in settings:
        assert "evidence evaluation" in captured.err
        assert "best log evidence" in captured.err
    assert "inf" not in captured.err
    assert loud.predict_proba(NEW).tobytes() == quiet.predict_proba(NEW).tobytes()


# ---------------------------------------------------------------- optimisers


def test_optimizer_none_keeps_theta():
    kernel = 3.0 * RBF([0.5, 1.0, 2.0])
    for settings in ({"optimizer": None}, {"learning": KeepFixed()}):
        model = gpc(kernel, n_restarts_optimizer=2, **settings).fit(X2, Y2)
        np.testing.assert_array_equal(model.kernel_.theta, kernel.theta)
        assert model.kernel_ is not kernel
        assert model.optimizer_report_.runs == ()
        assert model.optimizer_report_.n_evaluations == 0


def test_a_users_optimizer():
    calls = []

    def optimizer(obj_func, initial_theta, bounds):
        calls.append(np.array(initial_theta))
        found = minimize(obj_func, initial_theta, jac=True, bounds=bounds, method="L-BFGS-B")
        return found.x, found.fun

    model = gpc(1.0 * RBF(1.0), optimizer=optimizer, n_restarts_optimizer=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X2, Y2)
    assert len(calls) == 2
    np.testing.assert_array_equal(calls[0], [0.0, 0.0])
    ours = gpc(1.0 * RBF(1.0)).fit(X2, Y2)
    assert model.log_marginal_likelihood_value_ == pytest.approx(
        ours.log_marginal_likelihood_value_, abs=1e-5
    )
    constant = gpc(1.0 * RBF(1.0), optimizer=lambda obj_func, theta, bounds: (theta + 0.5, 0.0))
    np.testing.assert_allclose(constant.fit(X2, Y2).kernel_.theta, [0.5, 0.5])


@pytest.mark.slow
def test_random_state_makes_it_reproducible(problem):
    X, y, multi_class = problem

    def fit(**settings):
        kernel = ConstantKernel(1.0, (1e-2, 1e2)) * RBF(1.0, (1e-1, 1e2))
        model = gpc(kernel, multi_class=multi_class, n_restarts_optimizer=1, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(X, y)

    one, two, three = fit(random_state=3), fit(random_state=3), fit(random_state=4)
    assert one.predict_proba(NEW).tobytes() == two.predict_proba(NEW).tobytes()
    starts = [[r.run.start for r in m.optimizer_report_.runs] for m in (one, two, three)]
    np.testing.assert_array_equal(starts[0], starts[1])
    assert not np.array_equal(starts[0], starts[2])
    plain = gpc(one.kernel, multi_class=multi_class)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        plain.fit(X, y)
    assert one.log_marginal_likelihood_value_ >= plain.log_marginal_likelihood_value_ - 1e-9


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture
def threads():
    """Numbers of BLAS threads, put back for the tests that follow."""
    before = blas_threads()
    yield before
    threadpool_limits(limits=max(before, default=1), user_api="blas")


@pytest.mark.slow
def test_n_jobs_changes_no_bit(problem, threads):
    X, y, multi_class = problem

    def fit(n_jobs):
        model = gpc(
            ConstantKernel(1.0, (1e-2, 1e2)) * RBF(1.0, (1e-1, 1e2)),
            multi_class=multi_class, n_restarts_optimizer=1, random_state=0, n_jobs=n_jobs,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        return model.predict_proba(NEW).tobytes(), model.kernel_.theta.tobytes()

    expected = fit(None)
    for n_jobs in (1, 2, -1):
        assert fit(n_jobs) == expected, n_jobs
    for _ in range(2):
        with joblib.parallel_config("threading", n_jobs=2):
            assert fit(None) == expected
        assert blas_threads() == threads


def test_infinite_bounds_serve_where_nothing_is_drawn_between_them():
    kernel = ConstantKernel(1.0, (1e-3, np.inf)) * RBF(1.0)
    model = gpc(kernel).fit(X2, Y2)
    expected = gpc(ConstantKernel(1.0, (1e-3, 1e6)) * RBF(1.0)).fit(X2, Y2)
    np.testing.assert_allclose(model.kernel_.theta, expected.kernel_.theta, atol=1e-5)
    with pytest.raises(ValueError, match="finite"):
        gpc(kernel, n_restarts_optimizer=1).fit(X2, Y2)


@pytest.mark.slow
def test_the_report():
    kernel = 1.0 * RBF([1.0] * 3)
    model = gpc(kernel, n_restarts_optimizer=1, random_state=0, multi_class="one_vs_rest")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X3, Y3)
    report = model.optimizer_report_
    assert report.parameter_names[0] == "k1__constant_value"
    assert len(report.parameter_names) == 4
    rows = report.to_rows()
    assert len(rows) == 6
    assert len({row["problem"] for row in rows}) == 3
    for k in range(3):
        best = max(row["log_evidence"] for row in rows[2 * k : 2 * k + 2])
        assert best == pytest.approx(model.models_[k].log_evidence, abs=1e-9)
        assert rows[2 * k]["start"]["k1__constant_value"] == 1.0
        assert all(row["message"] for row in rows)
    assert report.n_evaluations == sum(row["n_evaluations"] for row in rows)


# ------------------------------------------- every inference takes every table


def laplace_of_a_user(prior, y, likelihood, *, weights=None, init=None):
    """What a user writes: no name of ours, and no joint model of its own."""
    return Laplace()(prior, y, likelihood, weights=weights, init=init)


@pytest.mark.parametrize(
    ("inference", "likelihood"),
    [("pl", "probit"), ("vi", "probit"), ("bound", "logit"), (laplace_of_a_user, "logit")],
    ids=["pl", "vi", "bound", "user's"],
)
def test_an_inference_without_a_joint_model_takes_the_differences(inference, likelihood):
    X, y = X3[::2], Y3[::2]
    settings = {"inference": inference, "likelihood": likelihood}
    model = fixed(**settings).fit(X, y)
    expected = fixed(**settings, multi_class="differences").fit(X, y)
    assert len(model.models_) == 1
    assert model.log_marginal_likelihood_value_ == expected.log_marginal_likelihood_value_
    assert model.predict_proba(NEW).tobytes() == expected.predict_proba(NEW).tobytes()
    assert model.score(X, y) > 0.6


@dataclass(frozen=True)
class Own(Likelihood):
    """A user's likelihood of two classes, with the values of the logit."""

    name: ClassVar[str] = "own"
    log_concave: ClassVar[bool] = True

    def log_prob(self, y, f):
        return Logit().log_prob(y, f)

    def derivatives(self, y, f):
        return Logit().derivatives(y, f)


@pytest.mark.parametrize(
    "settings", [{}, {"inference": "laplace"}, {"inference": "pl"}, {"multi_class": "differences"}]
)
def test_a_users_likelihood_of_two_classes_is_told_what_takes_three(settings):
    with pytest.raises(ValueError, match=r"Own\(\).*one_vs_rest"):
        fixed(likelihood=Own(), **settings).fit(X3, Y3)


def test_one_against_the_rest_takes_a_users_likelihood():
    assert fixed(likelihood=Own(), multi_class="one_vs_rest").fit(X3, Y3).score(X3, Y3) > 0.6


# ------------------------------------------------------------------ evidence


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["logit", "probit"])
def test_the_evidence_has_the_gradient_of_central_differences(problem, likelihood):
    X, y, multi_class = problem
    model = fixed(2.0 * RBF([0.7, 1.5, 3.0]), multi_class=multi_class, likelihood=likelihood)
    model.fit(X, y)
    k = len(model.models_)
    rng = np.random.default_rng(0)
    shared = model.models_[0].problem.theta + 0.3 * rng.standard_normal(4)
    compound = np.tile(shared, k) + 0.3 * rng.standard_normal(4 * k)
    for theta in (shared, compound):
        value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
        assert value == model.log_marginal_likelihood(theta)
        assert gradient.shape == theta.shape
        step = 1e-4
        differences = [
            (model.log_marginal_likelihood(theta + e) - model.log_marginal_likelihood(theta - e))
            / (2 * step)
            for e in step * np.eye(len(theta))
        ]
        np.testing.assert_allclose(gradient, differences, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("multi_class", MULTI_CLASS)
def test_the_evidence_of_many_classes_is_the_mean(multi_class):
    model = gpc(multi_class=multi_class).fit(X3, Y3)
    values = [m.log_evidence for m in model.models_]
    assert len(values) == 3
    assert model.log_marginal_likelihood_value_ == pytest.approx(np.mean(values), rel=1e-14)
    assert model.log_marginal_likelihood() == model.log_marginal_likelihood_value_
    assert model.log_marginal_likelihood(model.kernel_.theta) == pytest.approx(
        model.log_marginal_likelihood_value_, abs=1e-9
    )
    kernel = model.kernel_
    assert isinstance(kernel, CompoundKernel)
    assert len(kernel.kernels) == 3
    np.testing.assert_array_equal(
        kernel.theta, np.concatenate([m.problem.theta for m in model.models_])
    )
    # the evidence of each problem is highest at its own hyperparameters
    for m in model.models_:
        shared = model.log_marginal_likelihood(m.problem.theta)
        assert shared <= model.log_marginal_likelihood_value_ + 1e-9


@pytest.mark.parametrize("multi_class", MULTI_CLASS)
def test_the_binary_problems_are_binary_classifiers(multi_class):
    model = gpc(2.0 * RBF(1.5), multi_class=multi_class).fit(X3, Y3)
    pairs = [(0, 1), (0, 2), (1, 2)]
    for k, m in enumerate(model.models_):
        rows = np.isin(Y3, pairs[k]) if multi_class == "one_vs_one" else np.full(len(Y3), True)
        target = Y3[rows] == (pairs[k][1] if multi_class == "one_vs_one" else k)
        alone = gpc(m.problem.kernel, optimizer=None).fit(X3[rows], target)
        assert alone.log_marginal_likelihood_value_ == pytest.approx(m.log_evidence, abs=1e-8)


@pytest.mark.parametrize(("n_classes", "length"), [(2, 1), (2, 3), (3, 4), (3, 5)])
def test_theta_of_the_wrong_length(n_classes, length):
    model = fixed().fit(*((X2, Y2) if n_classes == 2 else (X3, Y3)))
    with pytest.raises(ValueError, match="theta must have length 2"):
        model.log_marginal_likelihood(np.zeros(length))
    with pytest.raises(ValueError, match="eval_gradient=True needs theta"):
        model.log_marginal_likelihood(eval_gradient=True)


def test_clone_kernel(problem):
    X, y, multi_class = problem

    model = fixed(multi_class=multi_class).fit(X, y)
    theta = model.kernel_.theta + 0.2
    value = model.log_marginal_likelihood(theta)
    np.testing.assert_allclose(model.kernel_.theta, theta - 0.2, rtol=1e-14)
    assert model.log_marginal_likelihood(theta, clone_kernel=False) == value
    np.testing.assert_allclose(model.kernel_.theta, theta, rtol=1e-14)
    model.log_marginal_likelihood(theta - 0.1, eval_gradient=True, clone_kernel=False)
    np.testing.assert_allclose(model.kernel_.theta, theta - 0.1, rtol=1e-14)
    assert model.kernel != model.kernel_


def test_clone_kernel_does_not_let_the_history_decide_predictions():
    """A model that predicted before and one that did not must agree afterwards."""
    one, two = fixed().fit(X2, Y2), fixed().fit(X2, Y2)
    one.predict_proba(NEW)
    for model in (one, two):
        model.log_marginal_likelihood(model.kernel_.theta + 1.0, clone_kernel=False)
    np.testing.assert_allclose(one.predict_proba(NEW), two.predict_proba(NEW), atol=1e-12)


# ------------------------------------------------------- what fit leaves behind


@pytest.mark.parametrize("likelihood", ["logit", "probit"])
def test_latent_mean_and_variance(likelihood):
    kernel = 2.0 * RBF(1.5)
    model = fixed(kernel, likelihood=likelihood).fit(X2, Y2)
    mean, variance = model.latent_mean_and_variance(NEW)
    # RW06 eq. 3.21 and 3.24, with inverses
    q = model.approximation_
    f, tau = q.posterior.mean, q.sites.tau
    K, K_new = kernel(X2), kernel(X2, NEW)
    np.testing.assert_allclose(mean, K_new.T @ np.linalg.solve(K, f), atol=1e-6)
    direct = kernel.diag(NEW) - np.einsum(
        "ij,ij->j", K_new, np.linalg.solve(K + np.diag(1 / tau), K_new)
    )
    np.testing.assert_allclose(variance, direct, atol=1e-8)
    P = {"logit": Logit(), "probit": Probit()}[likelihood].predict_proba(mean, variance)
    np.testing.assert_allclose(model.predict_proba(NEW)[:, 1], P, rtol=1e-10)


def test_latent_mean_and_variance_are_for_two_classes():
    with pytest.raises(ValueError, match=r"only supported for binary classification.* 3 classes"):
        fixed().fit(X3, Y3).latent_mean_and_variance(NEW)


@pytest.mark.parametrize("multi_class", MULTI_CLASS)
def test_approximation(multi_class):
    two = gpc(multi_class=multi_class).fit(X2, Y2)
    three = gpc(multi_class=multi_class).fit(X3, Y3)
    assert isinstance(two.approximation_, Approximation)
    many = three.approximation_
    assert len(many) == 3
    for model, found in ((two, [two.approximation_]), (three, many)):
        for m, q in zip(model.models_, found, strict=True):
            assert q.converged
            assert q.log_evidence == pytest.approx(m.log_evidence, abs=1e-9)
            n = len(m.problem.y)
            assert len(q.sites) == len(q.posterior.mean) == n
            np.testing.assert_allclose(q.sites.tau, m.sites.tau, atol=1e-8)
            K = m.problem.kernel(m.problem.inputs)
            np.testing.assert_allclose(K @ q.posterior.mean_weights, q.posterior.mean, atol=1e-8)
            G = q.evidence_pullback()
            assert G.shape == (n, n)
            np.testing.assert_allclose(
                pullback(m.problem.kernel, m.problem.inputs, G),
                m.problem.evaluate(m.problem.theta).gradient,
                atol=1e-7,
            )


def test_the_approximation_is_computed_once():
    model = fixed().fit(X2, Y2)
    assert model.approximation_ is model.approximation_
    model.log_marginal_likelihood(model.kernel_.theta + 1.0, clone_kernel=False)
    assert model.approximation_.log_evidence != pytest.approx(model.log_marginal_likelihood_value_)


def test_convergence():
    laplace = {"inference": "laplace", "likelihood": "logit"}
    model = fixed(50.0 * RBF(1.0), max_iter_predict=1, **laplace)
    with pytest.warns(ConvergenceWarning, match="max_iter_predict") as caught:
        model.fit(X2, Y2)
    assert len(caught) == 1
    assert not model.converged_
    assert model.n_iter_ == 1
    P = model.predict_proba(NEW)
    assert np.isfinite(P).all()
    good = fixed(50.0 * RBF(1.0), **laplace).fit(X2, Y2)
    assert good.converged_
    assert good.n_iter_ > 1


@pytest.mark.parametrize("inference", ["ep", "pl", "vi", "bound"])
def test_one_iteration_is_not_enough_whatever_takes_over(inference):
    likelihood = "logit" if inference == "bound" else "probit"
    model = fixed(500.0 * RBF(1.0), max_iter_predict=1, inference=inference, likelihood=likelihood)
    with pytest.warns(ConvergenceWarning, match="max_iter_predict") as caught:
        model.fit(X2, Y2)
    assert len(caught) == 1
    assert not model.converged_
    assert np.isfinite(model.predict_proba(NEW)).all()
    good = model.set_params(max_iter_predict=100).fit(X2, Y2)
    assert good.converged_
    assert good.n_iter_ > 1


@pytest.mark.parametrize("multi_class", MULTI_CLASS)
def test_a_warning_for_each_problem_that_did_not_converge(multi_class):
    model = fixed(50.0 * RBF(1.0), max_iter_predict=1, multi_class=multi_class)
    with pytest.warns(ConvergenceWarning, match="inference .* stopped") as caught:
        model.fit(X3, Y3)
    assert len(caught) == 3
    assert not model.converged_


def test_bounds_are_warned_of_only_for_a_kernel_that_was_given():
    X, y = np.linspace(-1, 1, 30)[:, None], np.arange(30) % 2
    # labels without a pattern: without a prior values run to their bounds, and nothing is said
    default = gpc(hyperprior=None).fit(X, y)
    assert default.optimizer_report_.runs[0].run.at_bounds
    kernel = ConstantKernel(1.0, (1e-2, 10.0)) * RBF(1.0, "fixed")
    with pytest.warns(ConvergenceWarning, match="specified lower bound 0.01"):
        given = gpc(kernel).fit(X, y)
    assert given.converged_
    assert given.kernel_.theta[0] == pytest.approx(np.log(1e-2))


@pytest.mark.parametrize("settings", [{"optimizer": None}, {"learning": KeepFixed()}])
def test_bounds_are_not_warned_of_where_nothing_is_learnt(settings):
    model = gpc(ConstantKernel(1.0, (1.0, 10.0)) * RBF(1.0), **settings)
    model.fit(X2, Y2)


def test_parts_as_objects():
    model = fixed(inference=Laplace(tol=1e-8), likelihood=Probit()).fit(X2, Y2)
    expected = fixed(inference="laplace", likelihood="probit").fit(X2, Y2)
    assert model.models_[0].problem.inference == Laplace(tol=1e-8)
    np.testing.assert_allclose(model.predict_proba(NEW), expected.predict_proba(NEW), atol=1e-7)
    partial = fixed(inference=functools.partial(Laplace(max_iter=50)), likelihood=Probit())
    np.testing.assert_allclose(
        partial.fit(X2, Y2).predict_proba(NEW), expected.predict_proba(NEW), atol=1e-10
    )


def test_parameters_set_after_fit_do_not_change_predictions(problem):
    X, y, multi_class = problem
    model = gpc(1.0 * RBF(1.0), multi_class=multi_class).fit(X, y)
    P, labels, scores = model.predict_proba(NEW), model.predict(NEW), model.decision_function(NEW)
    other = "one_vs_rest" if multi_class == "one_vs_one" else "one_vs_one"
    for settings in (
        {"likelihood": "logit"},
        {"likelihood__epsilon": 0.3, "likelihood": "threshold"},
        {"inference": Laplace(tol=1.0)},
        {"multi_class": other},
        {"kernel__k2__length_scale": 7.0},
        {"kernel": "precomputed"},
        {"kernel": DotProduct()},
        {"kernel": None},
        {"optimizer": None, "n_jobs": 2, "max_iter_predict": 1, "class_weight": "balanced"},
    ):
        model.set_params(**settings)
        assert model.predict_proba(NEW).tobytes() == P.tobytes(), settings
        np.testing.assert_array_equal(model.predict(NEW), labels)
        np.testing.assert_array_equal(model.decision_function(NEW), scores)


def test_a_kernel_set_after_fit_does_not_change_what_new_rows_are():
    K_new = np.hstack([RBF(1.0)(NEW, X2), np.ones((len(NEW), 1))])
    model = gpc("precomputed").fit(RBF(1.0)(X2), Y2)
    P = model.predict_proba(K_new)
    model.set_params(kernel=RBF(2.0))
    assert model.predict_proba(K_new).tobytes() == P.tobytes()
    words = gpc(0.1 * sequence_kernel()(0.5, (0.1, 0.9)), optimizer=None).fit(WORDS, KINDS)
    P = words.predict_proba(["AAA", "BA"])
    words.set_params(kernel=None)
    assert words.predict_proba(["AAA", "BA"]).tobytes() == P.tobytes()


def test_a_kernel_changed_in_place_after_fit_does_not_change_predictions():
    kernel = 1.0 * RBF(1.0)
    model = fixed(kernel).fit(X2, Y2)
    expected = fixed(1.0 * RBF(1.0)).fit(X2, Y2).predict_proba(NEW)
    kernel.theta = kernel.theta + 1.0
    assert model.predict_proba(NEW).tobytes() == expected.tobytes()


# the variance of a pair, or a length-scale that nothing needs, may end on a bound
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_prediction_does_not_depend_on_its_batch(problem):
    X, y, multi_class = problem
    model = gpc(1.0 * RBF([1.0] * 3), multi_class=multi_class).fit(X, y)
    together = model.predict_proba(NEW)
    alone = np.vstack([model.predict_proba(NEW[i : i + 1]) for i in range(len(NEW))])
    assert together.tobytes() == alone.tobytes()
    assert model.predict_proba(NEW[::-1]).tobytes() == together[::-1].tobytes()
    np.testing.assert_allclose(together.sum(axis=1), 1.0, rtol=1e-14)


def test_a_fit_that_fails_leaves_no_half_fitted_model():
    model = gpc()
    with pytest.raises(ValueError, match="2 or more"):
        model.fit(X2, np.zeros(len(Y2)))
    with pytest.raises(NotFittedError):
        model.predict(X2)
    for attribute in ("kernel_", "approximation_"):
        with pytest.raises(AttributeError):
            getattr(model, attribute)


def test_what_is_there_after_fit():
    model = fixed(2.0 * RBF(1.5) + WhiteKernel(0.1)).fit(X2, Y2)
    np.testing.assert_array_equal(model.X_train_, X2)
    np.testing.assert_array_equal(model.y_train_, Y2)
    np.testing.assert_array_equal(model.classes_, [0, 1])
    assert model.n_classes_ == 2
    assert model.n_features_in_ == 3
    assert model.converged_ is True
    assert isinstance(model.n_iter_, int)
    assert np.isfinite(model.log_marginal_likelihood_value_)
    for name in ("predict", "predict_proba", "decision_function", "latent_mean_and_variance"):
        with pytest.raises(NotFittedError):
            getattr(gpc(), name)(X2)
        with pytest.raises(ValueError, match="2 features"):
            getattr(model, name)(NEW[:, :2])


@pytest.mark.slow
def test_iris_is_learnt_whichever_way_it_is_split():
    X, y = load_iris(return_X_y=True)
    for multi_class in MULTI_CLASS:
        model = gpc(multi_class=multi_class)
        assert cross_val_score(model, X, y, cv=3).mean() > 0.93
