"""Kernels of columns in the estimator: names are found in the frame, and models are saved."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.model_selection import GridSearchCV

import gpclass
from gpclass import GaussianProcessClassifier
from gpclass.kernels import ColumnKernel, MixedRBF


@pytest.fixture
def frame():
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age": rng.normal(50.0, 10.0, 60),
            "sex": rng.integers(2, size=60),
            "town": rng.integers(4, size=60),
        }
    )


@pytest.fixture
def y(frame):
    # noise keeps the variance within its bounds
    noise = np.random.default_rng(4).normal(0.0, 1.0, len(frame))
    latent = frame["age"] / 10.0 - 2.0 * frame["sex"] + (frame["town"] == 2) + noise
    return np.where(latent > 4.0, "ill", "well")


KERNEL = 2.0 * MixedRBF(10.0, ["sex"]) + ColumnKernel("town", RBF(2.0))


def test_names_are_found_in_the_frame(frame, y):
    by_name = GaussianProcessClassifier(KERNEL).fit(frame, y)
    by_position = GaussianProcessClassifier(
        2.0 * MixedRBF(10.0, [1]) + ColumnKernel(2, RBF(2.0))
    ).fit(frame.to_numpy(), y)
    np.testing.assert_array_equal(
        by_name.predict_proba(frame), by_position.predict_proba(frame.to_numpy())
    )
    assert "discrete=['sex']" in str(by_name.kernel_)
    assert "ColumnKernel('town', RBF(" in str(by_name.kernel_)
    assert "k1__k2__discrete_length_scale" in by_name.optimizer_report_.parameter_names
    assert by_name.kernel.k1.k2.positions is None


def test_the_order_of_the_columns_does_not_matter(frame, y):
    kernel = 2.0 * MixedRBF(10.0, ["town", "sex"])
    moved = frame[["town", "age", "sex"]]
    P = GaussianProcessClassifier(kernel).fit(frame, y).predict_proba(frame)
    again = GaussianProcessClassifier(kernel).fit(moved, y).predict_proba(moved)
    np.testing.assert_allclose(again, P, atol=1e-6)


def test_one_kernel_a_class_may_name_columns(frame):
    towns = np.array(["a", "b", "c"])[(frame["age"] // 15).clip(2, 4).astype(int) - 2]
    kernels = [ColumnKernel("age", RBF(10.0)) + 0.5, MixedRBF(10.0, "sex"), MixedRBF(10.0, "town")]
    model = GaussianProcessClassifier(kernels, optimizer=None).fit(frame, towns)
    assert model.score(frame, towns) > 0.8


def test_names_need_a_frame_that_has_them(frame, y):
    with pytest.raises(ValueError, match="names the column 'sex', but the columns of X have no"):
        GaussianProcessClassifier(KERNEL).fit(frame.to_numpy(), y)
    with pytest.raises(ValueError, match="names the column 'town', but X has 'age', 'sex'"):
        GaussianProcessClassifier(KERNEL).fit(frame[["age", "sex"]], y)


def test_a_saved_model_predicts_the_same(frame, y):
    model = GaussianProcessClassifier(KERNEL).fit(frame, y)
    P = model.predict_proba(frame)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(frame), P)
    assert again.kernel_ == model.kernel_
    skops_io = pytest.importorskip("skops.io")
    loaded = skops_io.loads(skops_io.dumps(model), trusted=gpclass.trusted_types())
    np.testing.assert_array_equal(loaded.predict_proba(frame), P)
    assert loaded.kernel == KERNEL


def test_a_grid_search_reaches_the_inner_kernel(frame, y):
    kernel = ColumnKernel(["age", "town"], RBF(1.0)) + WhiteKernel(0.1)
    search = GridSearchCV(
        GaussianProcessClassifier(kernel, optimizer=None),
        {"kernel__k1__kernel__length_scale": [1e-3, 10.0]},
        cv=3,
    ).fit(frame, y)
    assert search.best_params_ == {"kernel__k1__kernel__length_scale": 10.0}


# ------------------------------------------------------------------------- text in a frame


@pytest.fixture
def raw(frame):
    towns = np.array(["Bath", "York", "Ely", "Wells"])[frame["town"]]
    return frame.assign(town=towns, sex=pd.Categorical.from_codes(frame["sex"], ["f", "m"]))


TEXT_KERNEL = 2.0 * MixedRBF(10.0, ["sex", "town"]) + ColumnKernel("age", RBF(10.0))


def test_discrete_columns_may_be_text(frame, raw, y):
    P = GaussianProcessClassifier(TEXT_KERNEL).fit(frame, y).predict_proba(frame)
    model = GaussianProcessClassifier(TEXT_KERNEL).fit(raw, y)
    np.testing.assert_allclose(model.predict_proba(raw), P, atol=1e-9)
    assert model.feature_names_in_.tolist() == ["age", "sex", "town"]
    skops_io = pytest.importorskip("skops.io")
    loaded = skops_io.loads(skops_io.dumps(model), trusted=gpclass.trusted_types())
    np.testing.assert_array_equal(loaded.predict_proba(raw), model.predict_proba(raw))
    assert "town" in model.summary()


def test_text_of_a_polars_frame(raw, y):
    pl = pytest.importorskip("polars")
    settings = {"optimizer": None}
    P = GaussianProcessClassifier(TEXT_KERNEL, **settings).fit(raw, y).predict_proba(raw)
    table = pl.DataFrame({name: raw[name].astype(object).tolist() for name in raw})
    model = GaussianProcessClassifier(TEXT_KERNEL, **settings).fit(table, y)
    np.testing.assert_array_equal(model.predict_proba(table), P)


def test_a_new_level_differs_from_all(raw, y):
    model = GaussianProcessClassifier(MixedRBF(10.0, ["sex", "town"]), optimizer=None).fit(raw, y)
    first = raw.head(1).assign(town="Oxford")
    second = raw.head(1).assign(town="Derby")
    P = model.predict_proba(pd.concat([raw.head(1), first, second]))
    np.testing.assert_array_equal(P[1], P[2])
    assert (P[0] != P[1]).all()


def test_text_that_the_kernel_does_not_see_is_left_out(raw, y):
    kernel = ColumnKernel("age", RBF(10.0))
    model = GaussianProcessClassifier(kernel, optimizer=None).fit(raw, y)
    alone = GaussianProcessClassifier(kernel, optimizer=None).fit(raw[["age"]], y)
    np.testing.assert_array_equal(model.predict_proba(raw), alone.predict_proba(raw[["age"]]))


@pytest.mark.parametrize(
    "kernel", [RBF(1.0), ColumnKernel("town", RBF(1.0)), MixedRBF(1.0, "sex") + WhiteKernel()]
)
def test_text_that_a_kernel_takes_for_numbers_is_an_error(raw, y, kernel):
    with pytest.raises(ValueError, match=r"string to float: '.*the columns (sex, )?town of X"):
        GaussianProcessClassifier(kernel).fit(raw, y)


def test_what_has_changed_since_the_fit_is_an_error(raw, y):
    model = GaussianProcessClassifier(TEXT_KERNEL, optimizer=None).fit(raw, y)
    with pytest.raises(ValueError, match="text in the column 'age', which had numbers in training"):
        model.predict(raw.assign(age="old"))
    with pytest.raises(ValueError, match=r"missing values in the columns town \(60\)"):
        model.predict(raw.assign(town=None))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(raw[["town", "age", "sex"]])
    with pytest.raises(ValueError, match="Input X contains infinity"):
        model.predict(raw.assign(age=np.inf))


@pytest.mark.parametrize(
    ("kernel", "error", "words"),
    [
        (MixedRBF(1.0, 7), ValueError, "takes column 7 of X, which has 3 columns"),
        (ColumnKernel(1.5, RBF()), TypeError, "positions or names, got 1.5"),
        (MixedRBF([1.0] * 3, 1), ValueError, "length_scale has shape .* 2 continuous columns"),
        (ColumnKernel("age", RBF([1.0, 2.0])), ValueError, "length_scale has shape"),
        (MixedRBF(-1.0, 1), ValueError, "hyperparameters that are no finite numbers above zero"),
    ],
)
def test_a_kernel_that_does_not_fit_the_frame_is_an_error(frame, y, kernel, error, words):
    model = GaussianProcessClassifier(kernel)
    with pytest.raises(error, match=words):
        model.fit(frame, y)
    assert not hasattr(model, "models_")
