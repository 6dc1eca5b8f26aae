"""``inducing=``: the estimator with FITC's prior, and what it refuses."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.gaussian_process.tests._mini_sequence_kernel import MiniSeqKernel

import gpclass
from gpclass import GaussianProcessClassifier
from gpclass.estimator import inducing as module
from gpclass.estimator.inducing import InducingPoints
from gpclass.inference import EP
from gpclass.likelihoods import NoisyThreshold
from gpclass.priors import Inducing
from helpers import slow

N, M = 150, 12
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 2))
F = 2.0 * np.sin(2.0 * X[:, 0]) + X[:, 1]
Y = (F + 0.5 * RNG.standard_normal(N) > 0).astype(int)
CLASSES = np.digitize(F, [-1.0, 1.0])
NEW = RNG.standard_normal((40, 2))
KERNEL = 2.0 * RBF([1.0, 1.0])


def fitted(inducing=M, y=Y, rows=X, **arguments):
    return GaussianProcessClassifier(**{"inducing": inducing, **arguments}).fit(rows, y)


def form_of(model, k=0):
    return model.models_[k].problem.prior_form


@pytest.fixture(scope="module")
def model():
    return fitted()


def test_all_rows_inducing_is_the_exact_classifier():
    kernel = KERNEL + WhiteKernel(0.1)
    for inference in ("laplace", "ep", "pl", "bound"):
        settings = {"kernel": kernel, "optimizer": None, "inference": inference}
        settings["likelihood"] = "logit" if inference == "bound" else "probit"
        some = slice(0, 40)
        exact, ours = (fitted(Z, Y[some], X[some], **settings) for Z in (None, X[some]))
        got, want = ours.log_marginal_likelihood_value_, exact.log_marginal_likelihood_value_
        assert got == pytest.approx(want, rel=1e-6)
        np.testing.assert_allclose(ours.predict_proba(NEW), exact.predict_proba(NEW), atol=1e-6)
        np.testing.assert_allclose(ours.loo_proba_, exact.loo_proba_, atol=1e-6)


def test_the_answers_are_near_the_exact_ones(model):
    exact = fitted(None)
    assert np.abs(model.predict_proba(NEW) - exact.predict_proba(NEW)).mean() < 0.03
    assert abs(model.log_marginal_likelihood_value_ - exact.log_marginal_likelihood_value_) < 2.0
    assert model.converged_


def test_points_are_chosen_again_with_the_kernel_that_was_learnt(model):
    Z, kernel = form_of(model).Z, model.models_[0].problem
    assert Z.shape == (M, 2)
    first, second = (reported.run for reported in model.optimizer_report_.runs)
    again = InducingPoints(M).placed([kernel], [first.end[None]])[0]
    np.testing.assert_array_equal(again.prior_form.Z, Z)
    np.testing.assert_array_equal(second.start, first.end)
    held = fitted(kernel=KERNEL, optimizer=None)
    assert held.optimizer_report_.runs == ()
    assert form_of(held).Z.shape == (M, 2)


def test_of_many_rows_some_lead_and_some_are_candidates(monkeypatch):
    monkeypatch.setattr(module, "rows_for", lambda m: 40)
    monkeypatch.setattr(module, "MOST_CANDIDATES", 60)
    weight = np.random.default_rng(2).integers(1, 3, N).astype(float)
    led = GaussianProcessClassifier(inducing=30).fit(X, Y, sample_weight=weight)
    (few,) = InducingPoints(30).for_first_search([led.models_[0].problem])
    some = np.sort(np.concatenate([np.flatnonzero(Y == 0)[::3], np.flatnonzero(Y == 1)[::3]]))
    np.testing.assert_array_equal(few.inputs, led.X_train_[some])
    np.testing.assert_array_equal(few.weights, weight[some])
    np.testing.assert_array_equal(few.y, np.where(Y[some] > 0, 1.0, -1.0))
    assert (form_of(led).Z[:, None] == led.X_train_).all(axis=2).any(axis=1).all()
    again = GaussianProcessClassifier(inducing=30).fit(X, Y, sample_weight=weight)
    np.testing.assert_array_equal(again.predict_proba(NEW), led.predict_proba(NEW))
    first, second = (reported.run for reported in led.optimizer_report_.runs)
    np.testing.assert_array_equal(second.start, first.end)


def test_rows_that_are_given_stay_and_are_scaled_as_the_table_is():
    raw = np.array([1e3, 1e-3]) * X + 5.0
    chosen = raw[:M]
    given = fitted(chosen, rows=raw)
    np.testing.assert_array_equal(form_of(given).Z, given.X_train_[:M])
    assert len(given.optimizer_report_.runs) == 1
    frame = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(np.where(X[:, 1] > 0, "u", "v"))})
    mixed = fitted(frame.iloc[:M], rows=frame)
    np.testing.assert_array_equal(form_of(mixed).Z, mixed.X_train_[:M])
    assert mixed.predict_proba(frame[:3]).shape == (3, 2)


def test_the_order_of_the_rows_does_not_matter():
    order = np.random.default_rng(1).permutation(N)
    settings = {"kernel": KERNEL, "optimizer": None}
    one, other = fitted(**settings), fitted(y=Y[order], rows=X[order], **settings)
    got, want = other.log_marginal_likelihood_value_, one.log_marginal_likelihood_value_
    assert got == pytest.approx(want, rel=1e-9)
    np.testing.assert_allclose(other.predict_proba(NEW), one.predict_proba(NEW), atol=1e-9)


def test_a_row_of_weight_zero_is_no_row():
    weight = np.ones(N)
    weight[::7] = 0.0
    weighted = GaussianProcessClassifier(KERNEL, optimizer=None, inducing=M)
    weighted.fit(X, Y, sample_weight=weight)
    without = fitted(y=Y[weight > 0], rows=X[weight > 0], kernel=KERNEL, optimizer=None)
    np.testing.assert_allclose(weighted.predict_proba(NEW), without.predict_proba(NEW), atol=1e-12)


def test_a_batch_of_new_rows_has_the_bits_of_its_rows(model):
    P = model.predict_proba(NEW)
    np.testing.assert_array_equal(model.predict_proba(NEW[7:11]), P[7:11])


@pytest.mark.parametrize("multi_class", slow(["one_vs_rest", "one_vs_one"], "one_vs_one"))
def test_three_classes(multi_class):
    settings = {"kernel": KERNEL, "multi_class": multi_class, "inference": "laplace"}
    ours, exact = (fitted(m, CLASSES, **settings) for m in (40, None))
    assert {type(form_of(ours, k)) for k in range(3)} == {Inducing}
    assert np.abs(ours.predict_proba(NEW) - exact.predict_proba(NEW)).mean() < 0.03
    assert "FITC, 40 inducing points" in ours.summary()


def test_a_pair_with_fewer_rows_takes_what_it_has():
    y = np.r_[np.zeros(8), np.ones(9), np.full(N - 17, 2)].astype(int)
    ours = fitted(30, y, kernel=KERNEL, multi_class="one_vs_one", optimizer=None)
    assert [len(form_of(ours, k).Z) for k in range(3)] == [17, 30, 30]
    assert "FITC, 17 to 30 inducing points" in ours.summary()


def test_slopes_draws_and_questions(model):
    step = 1e-5
    slopes = model.predict_proba_gradient(NEW)
    for j in range(2):
        up, down = (model.predict_proba(NEW + s * step * np.eye(2)[j]) for s in (1, -1))
        np.testing.assert_allclose(slopes[:, :, j], (up - down) / (2 * step), atol=1e-7)
    mean, variance = model.latent_mean_and_variance(NEW)
    draws = model.sample_latent(NEW, 4000, random_state=0)[:, 1] * 2.0
    np.testing.assert_allclose((draws.mean(axis=1) - mean) / np.sqrt(variance), 0.0, atol=0.06)
    np.testing.assert_allclose(draws.var(axis=1), variance, rtol=0.15)
    assert (model.bald(NEW) >= 0.0).all()


def test_onnx_has_the_same_probabilities(model):
    pytest.importorskip("onnx", reason="the export needs onnx")
    runtime = pytest.importorskip("onnxruntime", reason="it is checked by onnxruntime")
    from gpclass.estimator.export import to_onnx

    session = runtime.InferenceSession(to_onnx(model).SerializeToString())
    found = session.run(["probabilities"], {"X": NEW})[0]
    np.testing.assert_allclose(found, model.predict_proba(NEW), atol=1e-5)


def test_a_saved_model_is_small_and_the_same(model):
    text = pickle.dumps(model)
    assert len(text) < 40_000
    P = model.predict_proba(NEW)
    np.testing.assert_array_equal(pickle.loads(text).predict_proba(NEW), P)
    skops_io = pytest.importorskip("skops.io")
    loaded = skops_io.loads(skops_io.dumps(model), trusted=gpclass.trusted_types())
    np.testing.assert_array_equal(loaded.predict_proba(NEW), P)


def test_arguments_are_kept_as_they_were_given():
    Z = X[:M].copy()
    estimator = clone(GaussianProcessClassifier(inducing=Z))
    np.testing.assert_array_equal(estimator.get_params()["inducing"], Z)
    assert "inducing=array(" in repr(estimator)
    assert clone(GaussianProcessClassifier(inducing=M)).inducing == M


def test_a_warm_start_begins_where_the_last_fit_ended():
    ours = GaussianProcessClassifier(KERNEL, inducing=40, warm_start=True).fit(X, Y)
    evidence, theta = ours.log_marginal_likelihood_value_, ours.kernel_.theta
    ours.fit(X, Y)
    np.testing.assert_allclose(ours.optimizer_report_.runs[0].run.start, theta, rtol=1e-12)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(evidence, abs=1e-3)


def test_progress_is_shown(capsys):
    fitted(kernel=KERNEL, verbose=1)
    assert "evidence evaluation" in capsys.readouterr().err


@pytest.mark.parametrize("learning", slow(["loo", "em", "ccd"], "em", "ccd"))
def test_every_learner(learning):
    rows = slice(0, 60)
    settings = {"kernel": KERNEL, "learning": learning}
    ours, exact = (fitted(m, Y[rows], X[rows], **settings) for m in (25, None))
    assert np.abs(ours.predict_proba(NEW) - exact.predict_proba(NEW)).mean() < 0.03


def test_negative_precisions():
    ours = fitted(
        kernel=KERNEL, optimizer=None, likelihood=NoisyThreshold(0.2), inference=EP(tol=1e-6)
    )
    assert ours.models_[0].sites.tau.min() < 0.0
    assert np.isfinite(ours.predict_log_proba(NEW)).all()


REFUSED = {
    "zero": (0, {}, ValueError, "inducing=0 must be at least 1"),
    "negative": (-3, {}, ValueError, "inducing=-3 must be at least 1"),
    "bool": (True, {}, TypeError, "inducing=True: expected None, 'auto', a number"),
    "float": (10.0, {}, TypeError, "inducing=10.0: expected None, 'auto', a number"),
    "name": ("many", {}, TypeError, "inducing='many': expected None, 'auto', a number"),
    "too many": (N + 1, {}, ValueError, f"inducing=151 asks for 151 points, and X has {N} rows"),
    "more rows than X": (np.arange(2.0 * N + 2).reshape(-1, 2), {}, ValueError, "asks for 151"),
    "wrong width": (X[:M, :1], {}, ValueError, "inducing cannot be used as rows of X: .*1 feature"),
    "one row as a vector": (X[0], {}, ValueError, "inducing cannot be used as rows of X"),
    "no rows": (X[:0], {}, ValueError, "inducing cannot be used as rows of X"),
    "text": ([["a", "b"]], {"kernel": KERNEL}, ValueError, "inducing cannot be used"),
    "equal rows": (X[[3, 1, 4, 1]], {}, ValueError, "inducing has equal rows, 1 and 3"),
    "joint": (M, {"y": CLASSES}, ValueError, "inducing.*'joint' for 3 classes.*'one_vs_rest'"),
    "differences": (
        M,
        {"y": CLASSES, "multi_class": "differences"},
        ValueError,
        "inducing.*'differences'.*'one_vs_rest' or 'one_vs_one'",
    ),
    "samples": (M, {"inference": "mcmc", "optimizer": None}, ValueError, "inducing.*mcmc"),
    "precomputed": (
        M,
        {"kernel": "precomputed", "rows": X @ X.T + np.eye(N)},
        ValueError,
        "inducing=12 needs a table X.*precomputed",
    ),
    "objects": (
        2,
        {"kernel": MiniSeqKernel(), "rows": ["A", "AB", "B"], "y": [0, 1, 1]},
        ValueError,
        "inducing=2 needs a table X",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_by_name(case):
    inducing, arguments, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        fitted(inducing, **arguments)


def test_nothing_of_n_squared_is_held():
    import tracemalloc

    n, m = 3000, 20
    rows = np.random.default_rng(3).standard_normal((n, 2))
    tracemalloc.start()
    try:
        ours = fitted(m, (rows[:, 0] > 0).astype(int), rows, kernel=KERNEL, optimizer=None)
        ours.predict_proba(rows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.25 * 8 * n * n
