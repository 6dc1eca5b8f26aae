"""Any table with ``kernel=None``: what each type of column becomes, and what does not matter."""

import pickle
import subprocess
import sys
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import get_tags

import gpclass
from gpclass import GaussianProcessClassifier
from gpclass.estimator.inputs import MixedTable, TableEncoder
from gpclass.estimator.inputs import columns as columns_module

pd = pytest.importorskip("pandas", reason="frames need pandas")
pl = pytest.importorskip("polars", reason="frames need polars")

RNG = np.random.default_rng(0)
N = 48
AGE = RNG.uniform(20, 80, N)
TOWN = RNG.choice(["Bonn", "Jena", "Ulm"], N)
ILL = np.where((AGE > 50) ^ (TOWN == "Ulm"), "yes", "no")


def table():
    """A column of each type, each with a gap where its type can have one."""
    frame = pd.DataFrame(
        {
            "age": AGE,
            "visits": RNG.integers(0, 5, N),
            "smokes": RNG.random(N) > 0.5,
            "town": TOWN.astype(object),
            "grade": pd.Categorical(RNG.choice([10, 20], N)),
            "when": pd.date_range("2020-01-01", periods=N, freq="D"),
            "stay": pd.to_timedelta(RNG.integers(1, 9, N), unit="D"),
            "beds": pd.array(RNG.integers(0, 5, N), dtype="Int64"),
            "flag": pd.array(RNG.random(N) > 0.5, dtype="boolean"),
        }
    )
    for row, name in enumerate(["age", "town", "grade", "when", "stay", "beds", "flag"]):
        frame.loc[row, name] = None
    return frame


FRAME = table()
NEW = FRAME.iloc[::5]


def fitted(X, y=ILL, **arguments):
    return GaussianProcessClassifier(**arguments).fit(X, y)


def encoded(X, new=None, **arguments):
    encoder = TableEncoder(**arguments).fit(X)
    return encoder.transform(X if new is None else new)


# ----------------------------------------------------- what columns become


def test_every_type_of_column():
    encoder = TableEncoder().fit(FRAME)
    names = [*FRAME.columns.drop(["town", "grade"])]
    gaps = [f"{name}_missing" for name in names if FRAME[name].isna().any()]
    towns = ["town_Bonn", "town_Jena", "town_Ulm", "town_missing"]
    grades = ["grade_10", "grade_20", "grade_missing"]
    assert encoder.get_feature_names_out().tolist() == [*names, *gaps, *towns, *grades]
    matrix = encoder.set_output(transform="pandas").transform(FRAME)
    for name in names:
        known = FRAME[name].notna()
        values = FRAME.loc[known, name]
        values = values.astype("int64") if name in ("when", "stay") else values.astype(float)
        expected = (values - values.mean()) / values.std(ddof=0)
        np.testing.assert_allclose(matrix.loc[known, name], expected, atol=1e-12)
        assert (matrix.loc[~known, name] == 0.0).all()
    for name in gaps:
        np.testing.assert_array_equal(matrix[name], FRAME[name.removesuffix("_missing")].isna())
    np.testing.assert_allclose(matrix["town_Ulm"], (FRAME["town"] == "Ulm") * np.sqrt(0.5))


def test_two_levels_have_distance_one_and_so_has_a_level_never_seen():
    X = pd.DataFrame({"town": ["a", "b", None, "c"]})
    new = pd.DataFrame({"town": ["a", "b", None, "c", "d"]})
    points = encoded(X, new)
    np.testing.assert_allclose(cdist(points, points), 1.0 - np.eye(5), atol=1e-12)
    # where nothing is missing in training, a gap is a level never seen
    points = encoded(X.dropna(), new)
    np.testing.assert_allclose(cdist(points[[0, 1, 3]], points[[2, 4]]), 1.0, atol=1e-12)


def test_a_new_gap_in_a_column_of_numbers_is_its_centre():
    X = np.array([[1.0], [3.0], [8.0]])
    np.testing.assert_array_equal(encoded(X, [[np.nan], [4.0]]), [[0.0], [0.0]])


@pytest.mark.parametrize("useless", [3, "one", np.nan, None, pd.NaT, True, 1e300])
def test_constant_and_empty_columns_are_left_out(useless):
    X = pd.DataFrame({"a": AGE, "b": [useless] * N})
    assert TableEncoder().fit(X).get_feature_names_out().tolist() == ["a"]
    # and what is new in them does not matter
    other = X.assign(b=["new"] * N) if useless in ("one", None) else X.assign(b=7)
    if useless is not pd.NaT:
        np.testing.assert_array_equal(encoded(X, other), encoded(X))
    # a table of nothing else says what the classes' frequencies say
    P = fitted(X[["b"]]).predict_proba(X[["b"]])
    assert np.ptp(P[:, 0]) == 0.0


def test_one_value_and_gaps_are_a_gap():
    X = pd.DataFrame({"a": [1.0, np.nan, 1.0]})
    encoder = TableEncoder().fit(X)
    assert encoder.get_feature_names_out().tolist() == ["a_missing"]
    assert encoder.transform(X)[:, 0].tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    "values",
    [
        ["1", "2.5", "-3"],
        [True, 2, 3.5],
        [Decimal(1), Decimal("2.5"), Decimal(-3)],
        [date(2020, 1, 1), datetime(2021, 1, 1), pd.Timestamp("2022-01-01", tz="UTC")],
        [timedelta(1), timedelta(2), pd.Timedelta("4D")],
    ],
    ids=["text", "mixed", "decimal", "dates", "times"],
)
def test_objects_that_are_numbers(values):
    for column in (values, [None, *values], [np.nan, *values], [pd.NA, *values]):
        X = np.array(column, dtype=object)[:, None]
        names = ["x0", "x0_missing"] if len(column) == 4 else ["x0"]
        assert TableEncoder().fit(X).get_feature_names_out().tolist() == names


def test_dates_are_seconds_whatever_their_type():
    days = pd.date_range("2020-01-01", periods=3, freq="YS")
    zone = timezone(timedelta(hours=3))
    expected = encoded(pd.DataFrame({"a": days}))
    for column in (
        days.tz_localize(zone),
        days.astype(object),
        [day.date() for day in days],
        [day.to_pydatetime().replace(tzinfo=zone) for day in days],
    ):
        np.testing.assert_allclose(encoded(pd.DataFrame({"a": column})), expected, atol=1e-12)
    polars = pl.DataFrame({"a": pl.Series(list(days.date))})
    np.testing.assert_allclose(encoded(polars), expected, atol=1e-12)
    np.testing.assert_allclose(encoded(days.to_numpy()[:, None]), expected, atol=1e-12)


def test_levels_are_compared_by_their_text():
    X = pd.DataFrame({"a": ["1", "x", 2, "1"]})
    new = pd.DataFrame({"a": [1, 2.0, np.nan]})
    np.testing.assert_array_equal(encoded(X, new)[:2], encoded(X)[[0, 2]])


# --------------------------------------------------- frames, arrays, sparse


def as_polars(frame):
    text = frame.assign(grade=frame["grade"].astype("Float64").astype("Int64").astype("string"))
    return pl.from_pandas(text).with_columns(pl.col("grade").cast(pl.Categorical))


@pytest.mark.slow
def test_polars_and_arrays_are_as_pandas():
    P = fitted(FRAME).predict_proba(NEW)
    frame = as_polars(FRAME)
    np.testing.assert_allclose(fitted(frame).predict_proba(as_polars(NEW)), P, atol=1e-9)
    lists = FRAME.astype(object).to_numpy().tolist()
    chosen = {"categorical_features": [3, 4]}
    for rows in (np.array(lists, dtype=object), lists):
        model = fitted(rows, **chosen)
        np.testing.assert_allclose(model.predict_proba(rows[::5]), P, atol=1e-9)
    enum = frame.with_columns(pl.col("grade").cast(pl.Utf8).cast(pl.Enum(["10", "20"])))
    np.testing.assert_allclose(fitted(enum).predict_proba(enum[::5]), P, atol=1e-9)


def test_columns_of_a_new_frame_are_found_by_name():
    model = fitted(FRAME)
    P = model.predict_proba(NEW)
    for shuffled in (NEW[NEW.columns[::-1]].assign(note="x"), as_polars(NEW)[:, ::-1]):
        np.testing.assert_array_equal(model.predict_proba(shuffled), P)
    with pytest.raises(ValueError, match=r"now missing:\n- age\n- town"):
        model.predict(NEW.drop(columns=["age", "town"]))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        np.testing.assert_array_equal(model.predict_proba(NEW.astype(object).to_numpy()), P)
    with pytest.raises(ValueError, match=r"X has 2 features, .* expecting 9"):
        fitted(FRAME.astype(object).to_numpy()).predict(np.ones((2, 2)))


def test_sparse_tables(monkeypatch):
    towns = OneHotEncoder().fit_transform(TOWN[:, None])
    assert scipy.sparse.issparse(towns)
    P = fitted(towns).predict_proba(towns[:5])
    np.testing.assert_array_equal(fitted(towns.toarray()).predict_proba(towns[:5].toarray()), P)
    model = GaussianProcessClassifier(RBF(), optimizer=None)
    P = model.fit(towns, ILL).predict_proba(towns[:5])
    np.testing.assert_array_equal(model.fit(towns.toarray(), ILL).predict_proba(towns[:5]), P)
    monkeypatch.setattr(columns_module, "LARGEST_DENSE", 3 * N - 1)
    with pytest.raises(ValueError, match=r"sparse table of 48 rows and 3 columns.*made dense"):
        fitted(towns)


def test_tags():
    tags = get_tags(GaussianProcessClassifier()).input_tags
    assert tags.allow_nan
    assert tags.categorical
    assert tags.string
    assert tags.sparse
    tags = get_tags(GaussianProcessClassifier(RBF())).input_tags
    assert not any((tags.allow_nan, tags.categorical, tags.string))
    assert tags.sparse


@pytest.mark.slow
def test_neither_pandas_nor_polars_is_needed():
    code = """
import sys
sys.modules["pandas"] = sys.modules["polars"] = None
from gpclass import GaussianProcessClassifier
X = [[1.0, "a"], [None, "b"], [3.0, None]] * 4
print(GaussianProcessClassifier().fit(X, [0, 1, 1] * 4).predict(X[:3]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[0 1 1]\n", done.stderr


# ------------------------------------------------------ categorical_features


@pytest.mark.parametrize(
    "chosen",
    [["town", "visits"], np.array(["visits", "town"]), [3, 1], np.arange(5) % 2 == 1],
    ids=["names", "array", "numbers", "mask"],
)
def test_chosen_columns(chosen):
    X = FRAME[["age", "visits", "smokes", "town", "beds"]]
    encoder = TableEncoder(chosen).fit(X)
    assert encoder.table_.kinds == ["numbers", "levels", "numbers", "levels", "numbers"]
    model = fitted(X, categorical_features=chosen)
    np.testing.assert_array_equal(model.X_train_, encoder.transform(X))


def test_no_column_is_chosen():
    X = FRAME[["age", "grade"]]
    assert TableEncoder(None).fit(X).table_.kinds == ["numbers", "numbers"]
    assert TableEncoder([]).fit(X).table_.kinds == ["numbers", "numbers"]


@pytest.mark.parametrize(
    ("chosen", "match"),
    [
        (["city"], "categorical_features has city, but the columns of X are age, town"),
        ([5], "categorical_features has 5, but the columns of X are 0, 1"),
        ([-1], "categorical_features has -1"),
        ([True], "'from_dtype', None, or a list"),
        ([0.5], "'from_dtype', None, or a list"),
        (None, "text in the column 'town' .such as 'Bonn'.*categorical_features"),
        (["age"], "text in the column 'town'"),
    ],
)
def test_bad_choices(chosen, match):
    X = pd.DataFrame({"age": AGE, "town": ["Bonn"] * N})
    with pytest.raises(ValueError, match=match):
        fitted(X, categorical_features=chosen)


def test_a_choice_is_for_the_default_kernel():
    with pytest.raises(ValueError, match=r"categorical_features=\[0\] is for kernel=None"):
        fitted(AGE[:, None], kernel=RBF(), categorical_features=[0])


# ----------------------------------------------------------------- bad tables


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"age": np.inf}, "infinite values in the columns age"),
        ({"age": -np.inf, "beds": 10**400}, "infinite values in the columns age, beds"),
        ({"age": 1j}, "Complex data not supported: the column 'age'"),
        ({"name": [f"patient {i}" for i in range(N)]}, "text column 'name' with 48 different"),
        ({"when": [f"2020-01-{i % 28 + i / 1000}" for i in range(N)]}, "text column 'when'"),
    ],
)
def test_bad_columns_are_named(bad, match):
    with pytest.raises(ValueError, match=match):
        fitted(FRAME.assign(**bad))


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"age": "old"}, "X has text in the column 'age', which had numbers"),
        ({"when": "2020-01-01"}, "X has text in the column 'when', which had dates"),
        ({"when": 5.0}, "X has numbers in the column 'when', which had dates"),
        ({"age": pd.Timestamp("2020-01-01")}, "X has dates in the column 'age', which had numbers"),
        ({"smokes": np.inf}, "infinite values in the columns smokes"),
    ],
)
def test_new_columns_of_another_kind_are_named(bad, match):
    model = fitted(FRAME)
    with pytest.raises(ValueError, match=match):
        model.predict(NEW.assign(**bad))


def test_frames_of_other_kinds_are_refused():
    parts = pl.DataFrame({"age": AGE, "place": [{"x": 1.0, "y": 2.0}] * N})
    with pytest.raises(ValueError, match="several parts: place"):
        fitted(parts)
    with pytest.raises(ValueError, match="2D"):
        fitted(FRAME["age"].to_list())


def test_names_are_taken_where_they_are_asked_for():
    X = pd.DataFrame({"age": AGE, "name": [f"patient {i}" for i in range(N)]})
    assert fitted(X, categorical_features=["name"]).X_train_.shape == (N, N + 1)
    assert fitted(X.astype({"name": "category"})).X_train_.shape == (N, N + 1)


def test_a_name_twice():
    with pytest.raises(ValueError, match="the column 'age' twice"):
        fitted(FRAME[["age", "age", "town"]])


def test_text_of_numbers_with_other_text_in_new_rows():
    X = pd.DataFrame({"children": RNG.choice(["0", "1", "2"], N)})
    model = fitted(X)
    new = pd.DataFrame({"children": ["1", "3+", None]})
    with pytest.warns(DataConversionWarning, match=r"'children' .*no number.*3\+.* 1 rows"):
        P = model.predict_proba(new)
    expected = model.predict_proba(pd.DataFrame({"children": [1.0, np.nan, np.nan]}))
    np.testing.assert_array_equal(P, expected)


@pytest.mark.parametrize("method", ["fit", "predict"])
def test_a_kernel_that_is_given_takes_no_gaps(method):
    X = FRAME[["age", "visits"]].fillna({"age": 30.0})
    gaps = X.assign(age=FRAME["age"])
    model = GaussianProcessClassifier(RBF(10.0), optimizer=None).fit(X, ILL)
    for frame in (gaps, pl.from_pandas(gaps)):
        with pytest.raises(ValueError, match=r"X contains NaN.*in the columns age \(1\)"):
            model.fit(frame, ILL) if method == "fit" else model.predict(frame)
    model.fit(X.to_numpy(), ILL)
    with pytest.raises(ValueError, match=r"X contains NaN.*in the columns 0 \(1\)"):
        model.fit(gaps.to_numpy(), ILL) if method == "fit" else model.predict(gaps.to_numpy())
    with pytest.raises(ValueError, match="could not convert string to float: 'Bonn'"):
        model.fit(FRAME[["town"]].fillna("Bonn").assign(town="Bonn"), ILL)


def test_labels_that_are_missing():
    X = FRAME[["age"]]
    for gap in (None, np.nan):
        y = ILL.astype(object)
        y[3] = gap
        with pytest.raises(ValueError, match="contains NaN"):
            GaussianProcessClassifier().fit(X, y)


# --------------------------------------------------------- what does not matter

PLAIN = FRAME[["age", "visits", "town", "when"]]
EXPECTED = fitted(PLAIN).predict_proba(PLAIN)


def changed_units(frame, factor, shift):
    return frame.assign(
        age=frame["age"] * factor,
        visits=frame["visits"] + shift,
        town=frame["town"].map({"Bonn": "z", "Jena": "b", "Ulm": "a"}),
        when=frame["when"] - pd.Timedelta(days=shift),
    )


@pytest.mark.slow
@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    st.sampled_from([1e9, 1e-9, -3.0, 1e200, 1e-280]),
    st.integers(-1000, 1000),
    st.permutations(range(4)),
    st.randoms(use_true_random=False),
)
def test_units_names_and_orders_do_not_matter(factor, shift, columns, random):
    rows = list(range(N))
    random.shuffle(rows)
    X = changed_units(PLAIN, factor, shift).iloc[rows, columns]
    P = fitted(X, ILL[rows]).predict_proba(X)
    np.testing.assert_allclose(P, EXPECTED[rows], atol=1e-6)


@pytest.mark.parametrize("factor", [5e-324, 1e-300, 1e300])
def test_numbers_at_the_ends_of_floats(factor):
    X = np.round(np.c_[AGE, 100 * AGE[::-1]]) * [[factor, 1.0]]
    np.testing.assert_allclose(encoded(X), encoded(X / [[factor, 1.0]]), atol=1e-12)
    assert np.isfinite(encoded(X, [[1.7e308, -1.7e308]])).all()


def test_one_column_of_a_huge_scale_does_not_hide_the_others():
    X = np.c_[AGE, RNG.normal(size=N)]
    P, huge = fitted(X, AGE > 50).predict_proba(X), X * [1.0, 1e12]
    np.testing.assert_allclose(fitted(huge, AGE > 50).predict_proba(huge), P, atol=1e-6)


def test_weights_are_repetition():
    rows = np.r_[np.arange(N), np.arange(0, N, 3), np.arange(0, N, 3)]
    weights = np.bincount(rows, minlength=N).astype(float)
    weights[5] = 0.0  # the only row of a level that no other has
    X = FRAME.assign(town=np.where(np.arange(N) == 5, "Hof", FRAME["town"]))
    repeated = rows[rows != 5]
    one = fitted(X.iloc[repeated], ILL[repeated])
    other = GaussianProcessClassifier().fit(X, ILL, sample_weight=weights)
    assert one.log_marginal_likelihood_value_ == pytest.approx(
        other.log_marginal_likelihood_value_, abs=1e-8
    )
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-6)


def test_every_entry_of_a_new_row_may_be_new_or_missing():
    model = fitted(FRAME.dropna(), ILL[FRAME.notna().all(axis=1)])
    unknown = pd.DataFrame({name: [None] for name in FRAME})
    for new in (unknown, unknown.assign(town="Hof", grade=30)):
        P = model.predict_proba(new)
        assert np.isfinite(P).all()
        assert P.sum() == pytest.approx(1.0)


@pytest.mark.slow
def test_cross_validation_of_a_frame():
    X = FRAME.assign(town=np.where(np.arange(N) % 12 == 0, [f"T{i}" for i in range(N)], TOWN))
    P = cross_val_predict(GaussianProcessClassifier(), X, ILL, cv=3, method="predict_proba")
    assert np.isfinite(P).all()
    search = GridSearchCV(GaussianProcessClassifier(), {"kernel": [None]}, cv=2).fit(X, ILL)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


# ------------------------------------------------------------------ what is kept


def test_a_fitted_table_survives_pickle_and_skops():
    model = fitted(FRAME)
    P = model.predict_proba(NEW)
    assert pickle.loads(pickle.dumps(model)).predict_proba(NEW).tobytes() == P.tobytes()
    skops = pytest.importorskip("skops.io", reason="model files need skops")
    other = skops.loads(skops.dumps(model), trusted=gpclass.trusted_types())
    assert other.predict_proba(NEW).tobytes() == P.tobytes()
    assert isinstance(other._inputs, MixedTable)
    encoder = skops.loads(skops.dumps(TableEncoder().fit(FRAME)), trusted=gpclass.trusted_types())
    np.testing.assert_array_equal(encoder.transform(NEW), encoded(FRAME, NEW))


def test_what_was_learnt_is_a_kernel_of_encoded_columns():
    model = fitted(FRAME)
    gp = GaussianProcessClassifier(model.kernel_, calibration="loo", optimizer=None)
    P = make_pipeline(TableEncoder(), gp).fit(FRAME, ILL).predict_proba(NEW)
    np.testing.assert_allclose(P, model.predict_proba(NEW), atol=1e-9)


def test_the_encoder_is_a_transformer():
    encoder = clone(TableEncoder(categorical_features=["town"]))
    assert encoder.get_params() == {"categorical_features": ["town"]}
    with pytest.raises(NotFittedError):
        encoder.transform(FRAME)
    with pytest.raises(NotFittedError):
        encoder.get_feature_names_out()
