"""The stage between a user's table and the kernels: what X may be."""

import pickle
import tracemalloc

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Kernel
from sklearn.utils.validation import validate_data

from gpclass import GaussianProcessClassifier
from gpclass.estimator import inputs
from gpclass.estimator.inputs import (
    CovarianceMatrix,
    FloatTable,
    Inputs,
    MixedTable,
    Objects,
    inputs_of,
)
from gpclass.kernels import Precomputed, default_kernel

pd = pytest.importorskip("pandas", reason="tables of files need pandas")

RNG = np.random.default_rng(0)
AGE = RNG.uniform(20, 80, 60)
TOWN = RNG.choice(["Bonn", "Jena", "Ulm"], 60)
ILL = np.where((AGE > 50) ^ (TOWN == "Ulm"), "yes", "no")


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        (None, MixedTable),
        (RBF(), FloatTable),
        ([RBF(), RBF(), RBF()], FloatTable),
        ("precomputed", CovarianceMatrix),
        (2.0 * Precomputed(), CovarianceMatrix),
    ],
)
def test_the_kernel_says_what_X_is(kernel, kind):
    assert type(inputs_of(kernel, [[0.0]])) is kind


def test_a_kernel_of_objects_takes_objects():
    from sklearn.gaussian_process.tests._mini_sequence_kernel import MiniSeqKernel

    assert type(inputs_of(MiniSeqKernel(), ["AB"])) is Objects


# ---------------------------------------------- a table that is not float64: the door


class MixedRows(Inputs):
    """Frames with one column of numbers and one of categories, whose names are learnt at fit."""

    @classmethod
    def takes(cls, kernel, X):
        return isinstance(kernel, MixedKernel) and hasattr(X, "dtypes")

    def fit(self, estimator, X, y):
        validate_data(estimator, X, y, skip_check_array=True)
        self.categories = pd.Categorical(X["town"]).categories
        return self._encoded(X), np.asarray(y)

    def transform(self, estimator, X):
        validate_data(estimator, X, skip_check_array=True, reset=False)
        unknown = set(X["town"]) - set(self.categories)
        if unknown:
            raise ValueError(f"X has categories that no training row has: {sorted(unknown)}")
        return self._encoded(X)

    def _encoded(self, X):
        rows = np.empty(len(X), dtype=[("age", float), ("town", "u1")])
        rows["age"] = X["age"]
        rows["town"] = pd.Categorical(X["town"], categories=self.categories).codes
        return rows


class MixedKernel(Kernel):
    """``exp(-(a - a')^2 / 2 l^2) [town = town']`` of structured rows."""

    requires_vector_input = False

    def __init__(self, length_scale=15.0):
        self.length_scale = length_scale

    def __call__(self, X, Y=None, eval_gradient=False):
        Y = X if Y is None else Y
        K = np.exp(-0.5 * (np.subtract.outer(X["age"], Y["age"]) / self.length_scale) ** 2)
        K = K * np.equal.outer(X["town"], Y["town"])
        return (K, np.empty((*K.shape, 0))) if eval_gradient else K

    def diag(self, X):
        return np.ones(len(X))

    def is_stationary(self):
        return True


@pytest.mark.parametrize("classes", [2, 3])
def test_a_new_kind_of_table_is_one_class_and_its_place_in_the_list(monkeypatch, classes):
    monkeypatch.setattr(inputs, "KINDS", (MixedRows, *inputs.KINDS))
    X = pd.DataFrame({"age": AGE, "town": pd.Categorical(TOWN)})
    y = ILL if classes == 2 else np.where(AGE > 65, "old", ILL)
    model = GaussianProcessClassifier(MixedKernel()).fit(X, y)
    assert model.X_train_.dtype.names == ("age", "town")
    assert model.feature_names_in_.tolist() == ["age", "town"]
    assert model.score(X, y) > 0.85
    # the same as its matrix
    K = MixedKernel()(model.X_train_)
    expected = GaussianProcessClassifier("precomputed").fit(K, y).predict_proba(K)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-9)
    other = pickle.loads(pickle.dumps(model))
    assert other.predict_proba(X[:5]).tobytes() == model.predict_proba(X[:5]).tobytes()
    with pytest.raises(ValueError, match="Mainz"):
        model.predict(X.assign(town="Mainz"))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[["town", "age"]])


# ------------------------------------------------------------- fits that fail


def test_a_fit_that_fails_leaves_the_earlier_one():
    X = pd.DataFrame({"age": AGE, "size": AGE**2})
    model = GaussianProcessClassifier(RBF(20.0), optimizer=None).fit(X, ILL)
    before = dict(vars(model))
    P = model.predict_proba(X)
    # one column, and one class: what X has is known before what y lacks
    for Z, y in ((X[["size"]], np.full(60, "no")), (X.to_numpy(), ILL[:-1])):
        with pytest.raises(ValueError, match=r"classes|inconsistent"):
            model.fit(Z, y)
        assert vars(model) == before
    assert model.predict_proba(X).tobytes() == P.tobytes()
    model.fit(X.to_numpy(), ILL)
    assert not hasattr(model, "feature_names_in_")


def test_a_large_table_is_copied_thrice_at_most():
    """Its matrix, its distinct rows, and what these are sorted or judged by."""
    X = np.random.default_rng(0).standard_normal((20000, 20))
    table = MixedTable()
    raw = table.read(GaussianProcessClassifier(), X)
    tracemalloc.start()
    try:
        matrix = table.rescale(raw, None)
        learnt = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        default_kernel(matrix)
        started = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert learnt < 2.5 * X.nbytes
    assert started < 3.5 * X.nbytes
