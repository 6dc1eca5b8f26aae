"""One warning a fit of hyperparameters on their bounds, none of a column that does not matter."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, ConstantKernel, WhiteKernel
from sklearn.preprocessing import scale

from gpclass import GaussianProcessClassifier
from gpclass.estimator.bounds import on_bounds
from gpclass.kernels import ColumnKernel, MixedRBF, Precomputed, column_scales

RNG = np.random.default_rng(1)
X = RNG.standard_normal((80, 3))
Y = (X[:, 0] + 0.5 * RNG.standard_normal(80) > 0).astype(int)


def warnings_of(model, X, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert all(issubclass(one.category, ConvergenceWarning) for one in caught)
    return [str(one.message) for one in caught]


def test_a_column_that_does_not_matter_is_an_answer():
    model = GaussianProcessClassifier(1.0 * RBF([1.0] * 3), inference="laplace")
    assert warnings_of(model, X, Y) == []
    matters = [one.matters for one in column_scales(model.kernel_, X)]
    assert matters[0]
    assert not all(matters)


@pytest.mark.slow
def test_one_warning_for_thirty_columns():
    data = load_breast_cancer()
    model = GaussianProcessClassifier(1.0 * RBF([1.0] * 30), inference="laplace")
    messages = warnings_of(model, scale(data.data), data.target)
    assert len(messages) <= 1
    assert len(model.optimizer_report_.runs[0].run.at_bounds) > 5


def test_a_bound_that_decides_is_told_once_with_what_it_means():
    # at a length-scale of 10 a column still matters, at 0.01 rows are alone
    kernel = RBF([1.0] * 3, [(1e-5, 1e-2), (1e-5, 10.0), (1e-5, 10.0)])
    kernel = ConstantKernel(1.0, (0.1, 1.1)) * kernel + WhiteKernel(1e-2, (1e-3, 1e-2))
    model = GaussianProcessClassifier(kernel, inference="laplace")
    (message,) = warnings_of(model, X, Y)
    for name, value, side in on_bounds(model.kernel_, X):
        assert f"{name} = {value:.3g}" in message
        assert f"close to the {side} bound" in message
    assert message.startswith("hyperparameters of the kernel ended on a bound")
    assert "ncreasing the bound" not in message


def test_only_bounds_of_the_user_are_to_be_widened():
    """In scikit-learn's words, which its own tests ask for."""

    def to_the_top(evaluate, theta, bounds):
        return bounds[:, 1], evaluate(bounds[:, 1])[0]

    def said(*bounds):
        kernel = ConstantKernel(1.0, *bounds) * RBF(1.0, "fixed")
        model = GaussianProcessClassifier(kernel, inference="laplace", optimizer=to_the_top)
        (message,) = warnings_of(model, X, Y)
        return message

    assert "Increasing the bound" in said((0.5, 10.0))
    assert "k1__constant_value = 1e+05 close to the upper bound: the classes are sep" in said()


def test_several_problems_are_one_warning():
    classes = np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.5])
    kernel = ConstantKernel(1.0, (0.9, 1.1)) * RBF(1.0, "fixed")
    model = GaussianProcessClassifier(kernel, inference="laplace", multi_class="one_vs_rest")
    (message,) = warnings_of(model, X, classes)
    assert message.count("k1__constant_value") >= 2
    assert "(0 or not)" in message


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (ConstantKernel(5.0, (1.0, 5.0)) * RBF(2.0), [("k1__constant_value", 5.0, "upper")]),
        (RBF(1e5), [("length_scale", 1e5, "upper")]),
        (RBF([1e5, 1.0, 1e-5]), [("length_scale[2]", 1e-5, "lower")]),
        (RBF([1e5, 1.0, 9.0], (0.1, 9.0)), [("length_scale[2]", 9.0, "upper")]),
        (
            ColumnKernel(1, RBF(1e5)) + ColumnKernel([0, 2], RBF(1e5)),
            [("k2__kernel", 1e5, "upper")],
        ),
        (MixedRBF([1.0, 2.0], 0, 1e5), []),
        (
            MixedRBF([1.0, 2.0], 0, 5.0, discrete_length_scale_bounds=(0.1, 5.0)),
            [("disc", 5.0, "upper")],
        ),
        (WhiteKernel(1e-5, "fixed"), []),
    ],
)
def test_what_is_on_a_bound(kernel, expected):
    found = on_bounds(kernel, X)
    assert len(found) == len(expected)
    for (name, value, side), (starts, size, where) in zip(found, expected, strict=True):
        assert name.startswith(starts)
        assert (value, side) == (pytest.approx(size), where)


def test_length_scales_of_columns():
    kernel = 2.0 * ColumnKernel([2, 0], RBF([1.0, 4.0])) + MixedRBF(3.0, [1, 2], (0.5, 50.0)) ** 2
    found = column_scales(kernel, X)
    assert [(one.parameter, one.column, one.length_scale, one.discrete) for one in found] == [
        ("k1__k2__kernel__length_scale[0]", 2, 1.0, False),
        ("k1__k2__kernel__length_scale[1]", 0, 4.0, False),
        ("k2__kernel__discrete_length_scale[0]", 1, 0.5, True),
        ("k2__kernel__discrete_length_scale[1]", 2, 50.0, True),
        ("k2__kernel__length_scale", 0, 3.0, False),
    ]
    assert [one.matters for one in found] == [True, True, True, False, True]
    assert found[1].relative == pytest.approx(4.0 / X[:, 0].std())
    assert column_scales(RBF(1.0), X) == []
    assert on_bounds(Precomputed(), np.eye(3)) == []


def test_several_kernels_print_as_they_are():
    classes = np.digitize(X[:, 0], [-0.5, 0.5])
    settings = {"optimizer": None, "inference": "laplace"}
    rest = GaussianProcessClassifier(RBF(2.0), multi_class="one_vs_rest", **settings)
    shown = "RBF(length_scale=2)"
    assert repr(rest.fit(X, classes).kernel_) == f"CompoundKernel([{shown}, {shown}, {shown}])"
    joint = GaussianProcessClassifier([RBF(2.0), RBF(2.0), RBF(3.0)], **settings).fit(X, classes)
    assert isinstance(joint.kernel_, CompoundKernel)
    assert repr(joint.kernel_) == f"CompoundKernel([{shown}, {shown}, RBF(length_scale=3)])"
