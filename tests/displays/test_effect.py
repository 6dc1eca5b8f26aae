import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

from gpclass import GaussianProcessClassifier
from gpclass.displays import EffectDisplay
from gpclass.estimator.intervals import probability_intervals


def by_hand(model, X, column, value):
    return model.predict_proba(X.assign(**{column: value}))


def test_values_by_hand(fitted, mixed):
    X, _ = mixed
    effect = EffectDisplay.compute(fitted, X, "dose", n_points=4)
    np.testing.assert_allclose(effect.values, np.linspace(X.dose.min(), X.dose.max(), 4))
    known = X.dose[X.dose.notna()].to_numpy()
    nearest = np.abs(known[:, None] - effect.values).argmin(axis=1)
    np.testing.assert_allclose(effect.shares, np.bincount(nearest, minlength=4) / len(known))
    tables = []
    for k, value in enumerate(effect.values):
        P = by_hand(fitted, X, "dose", value)
        np.testing.assert_allclose(effect.by_row[k], P, atol=1e-9)
        np.testing.assert_allclose(effect.probability[k], P.mean(axis=0), atol=1e-9)
        ends = probability_intervals(fitted, X.assign(dose=value))
        np.testing.assert_allclose(effect.lower[k], ends.lower.mean(axis=0), atol=1e-9)
        np.testing.assert_allclose(effect.upper[k], ends.upper.mean(axis=0), atol=1e-9)
        tables.append(P)
    tables = np.array(tables)
    mean = np.einsum("k,krc->rc", effect.shares, tables)
    variance = np.einsum("k,krc->rc", effect.shares, (tables - mean) ** 2)
    np.testing.assert_allclose(effect.influence, np.sqrt(variance).mean(axis=0), atol=1e-9)


def test_levels_are_points_and_a_gap_is_one(fitted, mixed):
    X, _ = mixed
    effect = EffectDisplay.compute(fitted, X, "site")
    assert effect.values.tolist() == ["missing", "north", "south"]
    assert effect.as_points
    for k, level in enumerate([None, "north", "south"]):
        P = by_hand(fitted, X, "site", level).mean(axis=0)
        np.testing.assert_allclose(effect.probability[k], P, atol=1e-9)
    assert EffectDisplay.compute(fitted, X, "arms").values.tolist() == [0, 1]
    assert EffectDisplay.compute(fitted, X, "arms").as_points


def test_dates_stay_dates(fitted, mixed):
    X, _ = mixed
    effect = EffectDisplay.compute(fitted, X, 2, n_points=3)
    assert effect.values.dtype.kind == "M"
    assert effect.values[0] == X.day.min()
    np.testing.assert_allclose(
        effect.probability[2], by_hand(fitted, X, "day", X.day.max()).mean(axis=0), atol=1e-9
    )


@pytest.mark.parametrize("column", ["dose", "site", "day"])
def test_polars_gives_the_same(fitted, mixed, column):
    X, _ = mixed
    one = EffectDisplay.compute(fitted, X, column, n_points=3)
    two = EffectDisplay.compute(fitted, pl.from_pandas(X), column, n_points=3)
    np.testing.assert_allclose(one.by_row, two.by_row, atol=1e-12)
    np.testing.assert_allclose(one.lower, two.lower, atol=1e-12)


def test_what_is_drawn(fitted, mixed, ax):
    X, _ = mixed
    effect = EffectDisplay.from_estimator(fitted, X, "dose", ax=ax, n_points=5)
    (line,) = effect.lines_
    np.testing.assert_allclose(line.get_xdata(), effect.values)
    np.testing.assert_allclose(line.get_ydata(), effect.probability[:, 1])
    band = ax.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(effect.lower[:, 1].min())
    assert band[:, 1].max() == pytest.approx(effect.upper[:, 1].max())
    assert ax.get_xlabel() == "dose"
    assert ax.get_ylabel() == "Probability of class well"
    assert effect.figure_ is ax.figure


def test_levels_are_drawn_with_their_intervals(fitted, mixed, ax):
    X, _ = mixed
    effect = EffectDisplay.from_estimator(fitted, X, "site", ax=ax, class_of_interest="ill")
    assert [text.get_text() for text in ax.get_xticklabels()] == effect.values.tolist()
    ends = np.array(ax.collections[0].get_segments())
    np.testing.assert_allclose(ends[:, 0, 1], effect.lower[:, 0])
    np.testing.assert_allclose(ends[:, 1, 1], effect.upper[:, 0])


def test_three_classes_are_three_lines(ax):
    X, y = load_iris(return_X_y=True)
    model = GaussianProcessClassifier(inference="laplace", optimizer=None).fit(X[::5], y[::5])
    effect = EffectDisplay.from_estimator(model, X, 2, ax=ax, n_points=3, max_rows=5)
    assert len(effect.lines_) == 3
    np.testing.assert_allclose(effect.probability.sum(axis=1), 1.0)
    assert (effect.lower <= effect.probability).all()
    assert (effect.probability <= effect.upper).all()
    assert effect.column == "x2"


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("height",), {}, "'height' is none of those of X, by name dose"),
        ((9,), {}, "by number 0 to 4"),
        ((True,), {}, "column True"),
        (("dose",), {"n_points": 1}, "n_points must be at least 2"),
        (("dose",), {"max_rows": 0}, "max_rows must be at least 1"),
        (("dose",), {"confidence": 1.0}, "confidence"),
        (("dose",), {"class_of_interest": "dead"}, "class_of_interest 'dead' is none of"),
    ],
)
def test_mistakes(fitted, mixed, arguments, options, message):
    with pytest.raises(ValueError, match=message):
        EffectDisplay.compute(fitted, mixed[0], *arguments, **options)


def test_mistakes_of_tables_and_estimators(fitted, mixed):
    X, _ = mixed
    with pytest.raises(ValueError, match="lacks the columns dose"):
        EffectDisplay.compute(fitted, X.drop(columns="dose"), "site")
    with pytest.raises(ValueError, match="'dose' of X has no entry"):
        EffectDisplay.compute(fitted, X.assign(dose=np.nan), "dose")
    with pytest.raises(TypeError, match="GaussianNB has no predict_latent"):
        EffectDisplay.compute(GaussianNB(), X, "dose")
    K = np.eye(8)
    model = GaussianProcessClassifier("precomputed", optimizer=None).fit(K, [0, 1] * 4)
    with pytest.raises(ValueError, match="X must be a table"):
        EffectDisplay.compute(model, K, 0)
    pairs = GaussianProcessClassifier(multi_class="one_vs_one", optimizer=None)
    A, b = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="one against one has a latent function for each pair"):
        EffectDisplay.compute(pairs.fit(A[::5], b[::5]), A, 0)
