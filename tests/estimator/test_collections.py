"""Fits to Dask collections: the same as in memory, however the rows are divided."""

import os
import signal
from threading import Timer

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF

from gpclass import GaussianProcessClassifier
from gpclass.estimator.inputs import MixedTable
from gpclass.estimator.inputs.collections import Collection

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

SETTINGS = {"inference": "vi", "inducing": 12, "random_state": 0}


@pytest.fixture(scope="module")
def numbers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    f = 2.0 * np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=300)
    return X, np.where(f > 0, "yes", "no"), rng.integers(0, 3, 300).astype(float)


@pytest.fixture(scope="module")
def frame(numbers):
    """Numbers, gaps, levels that some partitions lack, dates, a constant, equal rows."""
    X, y, _ = numbers
    table = pd.DataFrame(X.round(2), columns=["a", "b", "c"])
    table.loc[::7, "a"] = np.nan
    table["kind"] = np.where(np.arange(300) < 120, "early", np.where(X[:, 1] > 0, "late", "later"))
    table["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(300), unit="D")
    table["same"] = 1.5
    table = pd.concat([table, table[:60]], ignore_index=True)
    return table, pd.Series(np.r_[y, y[:60]], name="y")


def fitted(X, y, kernel=None, sample_weight=None, **settings):
    return GaussianProcessClassifier(kernel, **SETTINGS | settings).fit(X, y, sample_weight)


def assert_same(model, expected, X, rtol=1e-8):
    np.testing.assert_allclose(
        model.log_marginal_likelihood_value_, expected.log_marginal_likelihood_value_, rtol=rtol
    )
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=rtol)


@pytest.mark.parametrize("chunks", [300, (1, 99, 150, 50)])
def test_arrays_give_the_fit_in_memory(numbers, chunks):
    X, y, w = numbers
    chunks = (chunks,) if isinstance(chunks, tuple) else chunks
    expected = fitted(X, y, 1.0 * RBF(1.0), w)
    parts = [da.from_array(one, chunks=chunks) for one in (y, w)]
    table = da.from_array(X, chunks=(chunks[0] if isinstance(chunks, tuple) else chunks, 2))
    model = fitted(table, parts[0], 1.0 * RBF(1.0), parts[1])
    assert_same(model, expected, X)
    proba = model.predict_proba(table)
    assert isinstance(proba, da.Array)
    np.testing.assert_allclose(proba.compute(), expected.predict_proba(X), atol=1e-8)
    np.testing.assert_array_equal(model.predict(table).compute(), expected.predict(X))


@pytest.mark.parametrize("n_partitions", [1, 7])
def test_what_is_learnt_of_a_frame(frame, n_partitions):
    table, y = frame
    expected = GaussianProcessClassifier()
    inputs = MixedTable()
    matrix = inputs.rescale(inputs.fit(expected, table, y)[0], None)
    parts = dd.from_pandas(table.assign(y=y), npartitions=n_partitions)
    found = Collection(GaussianProcessClassifier(), parts.drop(columns="y"), parts.y, None)
    found.rescale()
    assert found.inputs.kinds == inputs.kinds
    assert found.inputs.levels == inputs.levels
    for name in ("numeric", "gaps", "exponents"):
        np.testing.assert_array_equal(getattr(found.inputs, name), getattr(inputs, name))
    np.testing.assert_allclose(found.inputs.centres, inputs.centres, rtol=1e-14)
    np.testing.assert_allclose(found.inputs.scales, inputs.scales, rtol=1e-13)
    np.testing.assert_allclose(found.inputs.transform(expected, table), matrix, atol=1e-12)
    assert found.n_rows == 360


def test_a_frame_gives_the_fit_in_memory(frame):
    table, y = frame
    parts = dd.from_pandas(table.assign(y=y), npartitions=4)
    expected = fitted(table, y, optimizer=None)
    model = fitted(parts.drop(columns="y"), parts.y, optimizer=None)
    assert_same(model, expected, table)
    assert model.temperature_ == pytest.approx(expected.temperature_, abs=1e-8)
    proba = model.predict_proba(parts.drop(columns="y"))
    assert list(proba.columns) == ["no", "yes"]
    np.testing.assert_allclose(proba.compute().to_numpy(), model.predict_proba(table), atol=1e-12)
    assert "360 rows" in model.summary()


def test_many_classes_of_which_a_partition_lacks_some(numbers):
    X, _, _ = numbers
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    settings = {"kernel": RBF(1.0), "optimizer": None, "likelihood": "logit"}
    expected = fitted(X, y, **settings)
    model = fitted(da.from_array(X, chunks=(60, 3)), da.from_array(y, chunks=60), **settings)
    assert_same(model, expected, X)


def test_unknown_chunks_and_empty_partitions(numbers):
    X, y, _ = numbers
    y = (y == "yes").astype(int)
    whole = pd.DataFrame(X, columns=list("abc")).assign(y=y, row=np.arange(300))
    table = dd.from_pandas(whole, npartitions=5)
    table = table[table.row >= 70]
    features, labels = table[["a", "b", "c"]], table["y"]
    settings = {"kernel": RBF(1.0), "optimizer": None}
    expected = fitted(X[70:], y[70:], **settings)
    assert_same(fitted(features.to_dask_array(), labels.to_dask_array(), **settings), expected, X)


def test_it_is_kept_without_its_rows(numbers, tmp_path):
    import pickle

    X, y, _ = numbers
    arrays = da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100)
    model = fitted(*arrays, RBF(1.0), optimizer=None)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.loo_proba_, model.loo_proba_)
    theta = model.models_[0].learned.theta
    assert model.log_marginal_likelihood(theta) == pytest.approx(
        model.log_marginal_likelihood_value_, abs=1e-6
    )
    with pytest.raises(ValueError, match="the 300 rows of this model were a Dask collection"):
        again.log_marginal_likelihood(theta)
    assert model.approximation_.converged
    assert not hasattr(again, "approximation_")
    assert "RBF" in again._repr_html_()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"inducing": None}, ValueError, "set inference='vi' and inducing=500"),
        ({"inference": "ep"}, ValueError, "set inference='vi' and inducing=500"),
        ({"y": "memory"}, TypeError, "y is a ndarray, and X a Dask collection"),
        ({"y": "other parts"}, ValueError, "different numbers of partitions"),
        ({"y": "other sizes"}, ValueError, "divided alike"),
        ({"y": "one class"}, ValueError, r"got 1 class \(only \['yes'\]\)"),
        ({"X": "nan"}, ValueError, "contains NaN"),
        ({"inducing": 301}, ValueError, "asks for 301 points, and X has 300 rows"),
        ({"class_weight": {"yes": 1, "no": 0}}, ValueError, r"class_weight is 0 for \['no'\]"),
        ({"y": "numbers"}, ValueError, "Unknown label type: continuous"),
        ({"y": "text and numbers"}, ValueError, "text in some partitions and numbers in others"),
        ({"sample_weight": 1e16}, ValueError, "reaches 1e"),
    ],
)
def test_what_is_refused(numbers, change, error, message):
    X, y, _ = numbers
    change = dict(change)
    arrays = {
        "memory": y,
        "other parts": da.from_array(y, chunks=50),
        "other sizes": da.from_array(y, chunks=((99, 101, 100),)),
        "one class": da.from_array(np.full(300, "yes"), chunks=100),
        "numbers": da.from_array(np.round(X[:, 0], 1), chunks=100),
        "text and numbers": da.concatenate(
            [da.from_array(one, chunks=100) for one in (y[:200].astype(object), np.arange(100) % 2)]
        ),
        "nan": da.from_array(np.where(X > 2.0, np.nan, X), chunks=(100, 3)),
    }
    table = arrays.get(change.pop("X", None), da.from_array(X, chunks=(100, 3)))
    labels = arrays[change.pop("y")] if "y" in change else da.from_array(y, chunks=100)
    weights = change.pop("sample_weight", None)
    if weights is not None:
        weights = da.full(300, weights, chunks=100)
    with pytest.raises(error, match=message):
        fitted(table, labels, RBF(1.0), weights, optimizer=None, **change)


def test_a_sample_without_the_rarest_class_has_no_temperature(numbers, monkeypatch):
    monkeypatch.setattr("gpclass.estimator.training.KEPT", 40)
    X, _, _ = numbers
    drawn = np.random.default_rng(0).choice(300, 40, replace=False, shuffle=False)
    y = np.zeros(300, int)
    y[np.setdiff1d(np.arange(300), drawn)[:5]] = 1
    arrays = da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100)
    model = fitted(*arrays, RBF(1.0), optimizer=None, calibration="loo")
    assert model.temperature_ == 1.0
    assert "0 (40), 1 (0)" in model.summary()


def test_restarts_run_one_after_the_other(numbers):
    X, y, _ = numbers
    arrays = da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100)
    kernel = 1.0 * RBF(1.0)
    model = fitted(*arrays, kernel, n_restarts_optimizer=1, n_jobs=2)
    assert len(model.optimizer_report_.runs) >= 2


def test_a_model_that_is_not_fitted_says_so(numbers):
    with pytest.raises(NotFittedError):
        GaussianProcessClassifier().predict_proba(da.from_array(numbers[0], chunks=(100, 3)))
    bag = pytest.importorskip("dask.bag").from_sequence([1, 2])
    X, y, _ = numbers
    with pytest.raises(TypeError, match="X is a Bag"):
        fitted(X, y, RBF(1.0), optimizer=None).predict(bag)


def test_types_that_differ_between_partitions():
    table = pd.DataFrame({"a": [1, 2, "x", "y"] * 15, "b": np.arange(60.0)})
    y = pd.Series(["u", "v", "v"] * 20)
    mixed = [table.iloc[:2], table.iloc[2:]]
    meta = table.iloc[:0]
    parts = dd.from_delayed([dask.delayed(one) for one in mixed], meta=meta, verify_meta=False)
    labels = dd.from_delayed([dask.delayed(y.iloc[:2]), dask.delayed(y.iloc[2:])], meta=y[:0])
    found = Collection(GaussianProcessClassifier(), parts, labels, None)
    assert found.inputs.kinds == ["levels", "numbers"]
    assert found.inputs.levels[0] == ["1", "2", "x", "y"]


def test_text_in_one_partition_does_not_name_the_rows_of_all():
    table = pd.DataFrame({"a": np.arange(140.0)})
    columns = [np.arange(130) % 5, [f"A{i}" for i in range(10)]]
    halves = [table[:130].assign(c=columns[0]), table[130:].assign(c=columns[1])]
    meta = halves[0].iloc[:0]
    parts = dd.from_delayed([dask.delayed(one) for one in halves], meta=meta, verify_meta=False)
    y = pd.Series(["u", "v"] * 70)
    labels = dd.from_delayed([dask.delayed(y[:130]), dask.delayed(y[130:])], meta=y[:0])
    found = Collection(GaussianProcessClassifier(), parts, labels, None)
    assert len(found.inputs.levels[1]) == 15


def test_dates_beside_text_are_refused():
    table = pd.DataFrame({"a": pd.to_datetime(["2020-01-01", "2020-01-02"] * 10)})
    halves = [table[:10], table[10:].astype(str)]
    meta = halves[0].iloc[:0]
    parts = dd.from_delayed([dask.delayed(one) for one in halves], meta=meta, verify_meta=False)
    y = pd.Series(["u", "v"] * 10)
    labels = dd.from_delayed([dask.delayed(y[:10]), dask.delayed(y[10:])], meta=y[:0])
    with pytest.raises(ValueError, match="X has dates and levels in the column 'a'"):
        Collection(GaussianProcessClassifier(), parts, labels, None)


def test_other_questions_need_rows_in_memory(numbers):
    X, y, _ = numbers
    arrays = da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100)
    model = fitted(*arrays, RBF(1.0), optimizer=None)
    with pytest.raises(TypeError, match="X is a Dask collection"):
        model.predict_latent(arrays[0])


@pytest.mark.slow
def test_a_worker_that_is_killed_in_the_middle_of_a_fit_changes_nothing(numbers):
    distributed = pytest.importorskip("distributed")
    X, y, _ = numbers
    arrays = da.from_array(X, chunks=(50, 3)), da.from_array(y, chunks=50)
    kernel = 1.0 * RBF(1.0)
    expected = fitted(*arrays, kernel)
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
        pids = client.run(os.getpid)
        killer = Timer(1.5, os.kill, (next(iter(pids.values())), signal.SIGKILL))
        killer.start()
        model = fitted(*arrays, kernel)
        still = not killer.finished.is_set()
        killer.join()
    assert not still, "the fit ended before the worker was killed"
    assert model.log_marginal_likelihood_value_ == expected.log_marginal_likelihood_value_
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
