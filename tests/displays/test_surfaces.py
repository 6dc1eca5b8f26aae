import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.naive_bayes import GaussianNB

from gpclass import GaussianProcessClassifier
from gpclass.displays import DecisionSurfaceDisplay, EvidenceSurfaceDisplay


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X[50::3], y[50::3]


@pytest.fixture(scope="module")
def model(iris):
    return GaussianProcessClassifier(1.0 * RBF(2.0), inference="laplace").fit(*iris)


def test_probabilities_and_deviations_by_hand(model, iris, ax):
    X, y = iris
    shown = DecisionSurfaceDisplay.from_estimator(model, X, (3, 1), y=y, n_points=3, ax=ax)
    np.testing.assert_allclose(shown.x, np.linspace(X[:, 3].min(), X[:, 3].max(), 3))
    for i, b in enumerate(shown.y):
        for j, a in enumerate(shown.x):
            row = [[np.median(X[:, 0]), b, np.median(X[:, 2]), a]]
            np.testing.assert_allclose(shown.probability[i, j], model.predict_proba(row)[0])
            variance = model.latent_mean_and_variance(row)[1]
            np.testing.assert_allclose(shown.deviation[i, j] ** 2, variance[0], rtol=1e-9)
    assert ax.get_xlabel().startswith("x3\n")
    assert ax.get_ylabel() == "x1"
    drawn = [line.get_xydata() for line in ax.get_lines()]
    np.testing.assert_array_equal(drawn[0], X[y == 1][:, [3, 1]])
    np.testing.assert_array_equal(drawn[1], X[y == 2][:, [3, 1]])
    assert shown.lines_ is not None
    assert shown.figure_ is ax.figure


def test_average_over_rows(model, iris):
    X, _ = iris
    found = DecisionSurfaceDisplay.compute(
        model, X, (0, 1), at={2: 5.0}, average=True, n_points=2, max_rows=len(X)
    )
    rows = X.copy()
    rows[:, 0], rows[:, 1], rows[:, 2] = found.x[1], found.y[0], 5.0
    np.testing.assert_allclose(found.probability[0, 1], model.predict_proba(rows).mean(axis=0))
    assert found.rest == "x2 = 5, averaged over 34 rows otherwise"


def test_raw_mixed_frame(fitted, mixed, ax):
    X, y = mixed
    found = DecisionSurfaceDisplay.from_estimator(
        fitted, X, ("dose", "day"), at={"site": "missing"}, y=y, n_points=3, ax=ax
    )
    row = X.iloc[[0]].assign(
        dose=found.x[2], day=found.y[0], site=None, unit=3.0, arms=float(X.arms.median())
    )
    np.testing.assert_allclose(found.probability[0, 2], fitted.predict_proba(row)[0], atol=1e-9)
    assert "site = missing" in found.rest
    # rows without a dose have no place
    assert len(found.codes) == X.dose.notna().sum()


def test_the_most_probable_of_three_classes(ax):
    X, y = load_iris(return_X_y=True)
    three = GaussianProcessClassifier(1.0 * RBF(2.0), optimizer=None, inference="laplace")
    three.fit(X[::5], y[::5])
    found = DecisionSurfaceDisplay.from_estimator(three, X, (2, 3), y=y, n_points=4, ax=ax)
    assert found.shown is None
    image = found.surface_.get_array().reshape(4, 4, 3)
    # a colour for each class: blue, vermilion and green
    assert np.argmax(image[0, 0]) == 2
    assert found.probability[0, 0].argmax() == 0


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (("dose", "dose"), {}, "two different columns"),
        (("dose",), {}, "pair of columns"),
        (("dose", "site"), {}, "'site', which has levels"),
        (("dose", "day"), {"at": {"dose": 3}}, "one of the two drawn"),
        (("dose", "day"), {"at": {"site": "east"}}, "none of .*'north'"),
        (("dose", "day"), {"at": {"arms": "two"}}, "a finite number is needed"),
        (("dose", "day"), {"y": ["ill"]}, "a class for each of the 60 rows"),
        (("dose", "day"), {"y": ["odd"] * 60}, "'odd', which is none of"),
        (("dose", "day"), {"n_points": 1}, "n_points"),
        (("dose", "day"), {"class_of_interest": 7}, "class_of_interest"),
    ],
)
def test_mistakes_of_decision_surfaces(fitted, mixed, columns, options, message):
    with pytest.raises(ValueError, match=message):
        DecisionSurfaceDisplay.compute(fitted, mixed[0], columns, **options)


def test_evidence_is_that_of_the_model(model, ax):
    shown = EvidenceSurfaceDisplay.from_estimator(model, n_points=4, ax=ax)
    assert shown.parameters == ("k1__constant_value", "k2__length_scale")
    for i, b in enumerate(shown.y):
        for j, a in enumerate(shown.x):
            expected = model.log_marginal_likelihood(np.log([a, b]))
            assert shown.log_evidence[i, j] == pytest.approx(expected, abs=1e-7)
    np.testing.assert_allclose(np.log(shown.learnt), model.kernel_.theta)
    assert shown.log_evidence.max() <= model.log_marginal_likelihood_value_ + 1e-7


def test_the_path_is_that_of_the_run(model, ax):
    shown = EvidenceSurfaceDisplay.from_estimator(model, ("k2__length_scale", 0), n_points=3, ax=ax)
    run = model.optimizer_report_.runs[0].run
    np.testing.assert_allclose(np.log(shown.path), run.path[:, [1, 0]], atol=1e-12)
    np.testing.assert_allclose(shown.path_.get_xydata(), shown.path)
    assert ax.get_xlabel() == "length-scale of the smooth part"
    assert ax.get_ylabel() == "variance of the smooth part"


def test_names_of_columns_and_no_path_where_nothing_was_learnt(iris, ax):
    fixed = GaussianProcessClassifier(RBF([1.0, 2.0, 3.0, 4.0]), optimizer=None).fit(*iris)
    shown = EvidenceSurfaceDisplay.from_estimator(fixed, (1, 2), n_points=3, ax=ax)
    assert shown.path_ is None
    assert shown.labels == ("length-scale of column 1", "length-scale of column 2")


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((("k1__constant_value", "scale"),), {}, "'scale', which is none of k1__constant_value"),
        (((0, 0),), {}, "two different"),
        (((0, 5),), {}, "parameters has 5"),
        ((), {"n_points": 1}, "n_points"),
        ((), {"reach": 0.0}, "reach"),
        ((), {"problem": 1}, "problem must be from 0 to 0"),
    ],
)
def test_mistakes_of_evidence_surfaces(model, arguments, options, message):
    with pytest.raises(ValueError, match=message):
        EvidenceSurfaceDisplay.compute(model, *arguments, **options)


def test_models_without_two_hyperparameters(iris):
    one = GaussianProcessClassifier(ConstantKernel(1.0, "fixed") * RBF(1.0)).fit(*iris)
    with pytest.raises(ValueError, match="two free hyperparameters"):
        EvidenceSurfaceDisplay.compute(one)
    with pytest.raises(TypeError, match="GaussianNB has no predict_latent"):
        EvidenceSurfaceDisplay.compute(GaussianNB())
