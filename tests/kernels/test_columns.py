import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.gaussian_process.tests._mini_sequence_kernel import MiniSeqKernel

from gpclass.kernels import (
    ColumnKernel,
    MixedRBF,
    Precomputed,
    cross,
    evaluate,
    from_recipe,
    pullback,
    resolved,
    to_recipe,
    uses_names,
)
from gpclass.testing import check_kernel

NAMES = ["age", "sex", "height", "town"]
X = np.array(
    [
        [0.3, 1.0, -1.0, 4.0],
        [1.3, 0.0, 0.4, 2.0],
        [-0.2, 0.0, 0.4, 4.0],
        [0.3, 1.0, 2.0, 3.0],
        [0.9, 1.0, -0.5, 3.0],
    ]
)


def mixed_by_loops(A, B, lengths, discrete_lengths):
    """KG06 eq. 13 and 14 for columns age and height, and for sex and town."""
    K = np.empty((len(A), len(B)))
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            total = 0.0
            for column, length in zip((0, 2), lengths, strict=True):
                total += (a[column] - b[column]) ** 2 / length**2
            for column, length in zip((1, 3), discrete_lengths, strict=True):
                total += (0.0 if a[column] == b[column] else 1.0) / length**2
            K[i, j] = np.exp(-0.5 * total)
    return K


@pytest.mark.parametrize(
    ("kernel", "lengths", "discrete_lengths"),
    [
        (MixedRBF(0.7, (1, 3), 1.4), (0.7, 0.7), (1.4, 1.4)),
        (MixedRBF([0.7, 2.0], [1, 3], 1.4), (0.7, 2.0), (1.4, 1.4)),
        (MixedRBF([0.7, 2.0], [3, 1], [1.4, 0.3]), (0.7, 2.0), (0.3, 1.4)),
        (MixedRBF(0.7, ("sex", "town"), (1.4, 0.3)), (0.7, 0.7), (1.4, 0.3)),
    ],
)
def test_mixed_rbf_is_eq_13(kernel, lengths, discrete_lengths):
    kernel = resolved(kernel, NAMES)
    new = X[:3] + np.array([0.5, 0.0, 0.0, -2.0])
    np.testing.assert_allclose(
        evaluate(kernel, X), mixed_by_loops(X, X, lengths, discrete_lengths), rtol=1e-13
    )
    np.testing.assert_allclose(
        cross(kernel, X, new), mixed_by_loops(X, new, lengths, discrete_lengths), rtol=1e-13
    )
    check_kernel(kernel, X)


def test_mixed_rbf_is_a_product_of_rbf_over_one_hot_columns():
    # a mismatch of two one-hot codes is at the squared distance 2
    one_hot = [(X[:, [k]] == np.unique(X[:, k])) / np.sqrt(2.0) for k in (1, 3)]
    product = evaluate(RBF([0.7, 2.0]), X[:, [0, 2]])
    for codes, length in zip(one_hot, (1.4, 0.3), strict=True):
        product = product * evaluate(RBF(length), codes)
    mixed = evaluate(MixedRBF([0.7, 2.0], (1, 3), (1.4, 0.3)), X)
    np.testing.assert_allclose(mixed, product, rtol=1e-13)


def test_mixed_rbf_without_discrete_columns_is_rbf():
    kernel, rbf = MixedRBF([1.0, 2.0, 3.0, 4.0]), RBF([1.0, 2.0, 3.0, 4.0])
    G = np.ones((5, 5))
    np.testing.assert_array_equal(evaluate(kernel, X), evaluate(rbf, X))
    np.testing.assert_array_equal(pullback(kernel, X, G), pullback(rbf, X, G))
    np.testing.assert_array_equal(kernel.theta, rbf.theta)


def test_codes_are_compared_only():
    renamed = X.copy()
    renamed[:, 3] = np.array([9.0, -7.0, 1e9])[np.array([2, 0, 2, 1, 1])]
    kernel = MixedRBF(1.0, (1, 3), 0.5)
    np.testing.assert_array_equal(evaluate(kernel, X), evaluate(kernel, renamed))


@pytest.mark.parametrize("length", [1e-300, 1e-5, 1e5, 1e300])
def test_discrete_length_scales_may_be_extreme(length):
    kernel = MixedRBF(1.0, (1, 3), (length, 1.0))
    with np.errstate(all="raise"):
        K, gradient = evaluate(kernel, X), pullback(kernel, X, np.ones((5, 5)))
    assert np.isfinite(K).all()
    assert np.isfinite(gradient).all()
    assert K[0, 1] == 0.0 if length < 1.0 else K[0, 1] > 0.0


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (MixedRBF([1.0, 2.0, 3.0], (1, 3)), r"length_scale has shape \(3,\).* 2 continuous"),
        (MixedRBF(1.0, (1, 3), [1.0] * 3), r"discrete_length_scale has shape \(3,\).* 2 discrete"),
        (MixedRBF(1.0, 4), "takes column 4 of X, which has 4 columns"),
        (ColumnKernel((0, -5), RBF()), "takes column -5 of X, which has 4 columns"),
        (MixedRBF(1.0, "town"), "names the column 'town', but the columns of X have no names"),
        (ColumnKernel("age", RBF()), "names the column 'age', but the columns of X have no names"),
        (ColumnKernel(0, RBF([1.0, 2.0])), "X has 1 columns"),
        (ColumnKernel(0, MiniSeqKernel()), "kernels of columns of numbers, not MiniSeqKernel"),
    ],
)
def test_a_kernel_that_does_not_fit_its_table_is_refused(kernel, message):
    with pytest.raises(ValueError, match=message):
        evaluate(kernel, X)


@pytest.mark.parametrize("columns", [1.5, None, [True, False, True, False], [0, "age", 2.0]])
def test_columns_are_positions_or_names(columns):
    for kernel in (ColumnKernel(columns, RBF()), MixedRBF(1.0, columns)):
        with pytest.raises(TypeError, match=r"positions or names, got (1\.5|None|True|2\.0)"):
            evaluate(resolved(kernel, NAMES), X)


def test_positions_may_be_of_any_integer_type():
    kernels = [MixedRBF(1.0, columns) for columns in ([1, 3], np.array([1, 3]), range(1, 4, 2))]
    for kernel in kernels:
        assert repr(kernel) == repr(kernels[0])
        back = from_recipe(to_recipe(kernel))
        assert repr(back) == repr(kernels[0])
        np.testing.assert_array_equal(evaluate(back, X), evaluate(kernels[0], X))
    assert isinstance(to_recipe(kernels[2])["parameters"]["discrete"], list)


def test_a_gram_matrix_has_no_columns():
    with pytest.raises(ValueError, match=r"not Precomputed\(\)"):
        evaluate(ColumnKernel(0, Precomputed()), np.eye(3))


def test_a_column_kernel_is_the_kernel_of_the_columns():
    inner = 2.0 * Matern([1.0, 3.0], nu=1.5) + WhiteKernel(0.1)
    kernel = ColumnKernel((3, 0), inner)
    G = np.random.default_rng(0).standard_normal((5, 5))
    G += G.T
    chosen = X[:, [3, 0]]
    np.testing.assert_array_equal(evaluate(kernel, X), evaluate(inner, chosen))
    np.testing.assert_array_equal(cross(kernel, X, X[:2]), cross(inner, chosen, chosen[:2]))
    np.testing.assert_array_equal(pullback(kernel, X, G), pullback(inner, chosen, G))
    check_kernel(kernel, X)
    check_kernel(1.5 * ColumnKernel(0, RBF()) ** 2 * ColumnKernel([1, 2], DotProduct()), X)


def test_columns_may_share_length_scales():
    kernel = ColumnKernel([0, 2, 3], 2.0 * RBF(1.0)).set_params(
        kernel=Matern([0.7, 2.0], nu=2.5), shared=[0, 1, 0]
    )
    each = Matern([0.7, 2.0, 0.7], nu=2.5)
    np.testing.assert_array_equal(evaluate(kernel, X), evaluate(each, X[:, [0, 2, 3]]))
    G = np.add.outer(np.arange(5.0), np.arange(5.0))
    apart = pullback(each, X[:, [0, 2, 3]], G)
    np.testing.assert_allclose(pullback(kernel, X, G), [apart[0] + apart[2], apart[1]])
    np.testing.assert_allclose(
        np.einsum("ij,ijk", G, kernel(X, eval_gradient=True)[1]), [apart[0] + apart[2], apart[1]]
    )


@pytest.mark.parametrize(
    ("inner", "shared"),
    [
        (RBF([1.0, 2.0]), [0, 1, 2]),
        (RBF([1.0, 2.0]), [0, 0, 0]),
        (RBF([1.0, 2.0]), [0, -1, 1]),
        (DotProduct(), [0, 0, 1]),
        (RationalQuadratic(1.0), [0, 0, 0]),
    ],
)
def test_shared_numbers_the_length_scales(inner, shared):
    with pytest.raises(ValueError, match="does not number the length-scales of"):
        evaluate(ColumnKernel([0, 1, 2], inner, shared=shared), X)


def test_a_kernel_of_all_columns_prints_no_list():
    shown = str(ColumnKernel([0, 1, 2], RBF([2.0, 1.0]), shared=[0, 1, 1]))
    assert shown == "ColumnKernel(range(0, 3), RBF(length_scale=[2, 1]))"


def test_parameters_have_the_names_of_scikit_learn():
    kernel = ColumnKernel("age", 2.0 * RBF(3.0, "fixed"))
    assert kernel.get_params()["kernel__k2__length_scale"] == 3.0
    assert [one.name for one in kernel.hyperparameters] == [
        "kernel__k1__constant_value",
        "kernel__k2__length_scale",
    ]
    assert kernel.set_params(kernel__k1__constant_value=5.0).theta == np.log(5.0)
    assert kernel.bounds.tolist() == kernel.kernel.bounds.tolist()
    assert kernel.is_stationary()
    assert not ColumnKernel(0, DotProduct()).is_stationary()
    assert kernel == clone(kernel)
    assert kernel != ColumnKernel("age", 2.0 * RBF(4.0, "fixed"))


def test_names_are_found_at_any_depth_and_printed():
    kernel = ColumnKernel("age", RBF()) ** 2 + 2.0 * ColumnKernel(
        ("height", "town", "sex"), MixedRBF(1.0, ["sex", "town"]) * ColumnKernel("height", RBF())
    )
    known = resolved(kernel, NAMES)
    assert repr(known) == repr(kernel)
    assert repr(ColumnKernel(("sex", 0), RBF())) == "ColumnKernel(['sex', 0], RBF(length_scale=1))"
    by_position = ColumnKernel(0, RBF()) ** 2 + 2.0 * ColumnKernel(
        (2, 3, 1), MixedRBF(1.0, [2, 1]) * ColumnKernel(0, RBF())
    )
    np.testing.assert_array_equal(evaluate(known, X), evaluate(by_position, X))
    check_kernel(known, X)
    assert uses_names(kernel)
    assert not uses_names(by_position)
    assert resolved(by_position, NAMES) is by_position
    both = resolved(CompoundKernel([kernel, RBF()]), NAMES)
    np.testing.assert_array_equal(evaluate(both.kernels[0], X), evaluate(known, X))


def test_names_follow_their_columns():
    kernel = ColumnKernel("age", RBF(0.7)) * MixedRBF(1.0, ("town", "sex"))
    order = [2, 0, 3, 1]
    moved = resolved(kernel, [NAMES[k] for k in order])
    np.testing.assert_allclose(
        evaluate(moved, X[:, order]), evaluate(resolved(kernel, NAMES), X), rtol=1e-15
    )
    # what was found once is found anew in another table
    again = resolved(resolved(kernel, NAMES), [NAMES[k] for k in order])
    assert again == moved


@pytest.mark.parametrize("kernel", [ColumnKernel("weight", RBF()), MixedRBF(1.0, "weight")])
def test_an_unknown_name_is_an_error_that_lists_the_known(kernel):
    message = "names the column 'weight', but X has 'age', 'sex', 'height', 'town'"
    with pytest.raises(ValueError, match=message):
        resolved(2.0 * kernel, NAMES)
    with pytest.raises(ValueError, match="have no names"):
        resolved(2.0 * kernel, None)
    with pytest.raises(ValueError, match="names the column 'sex', but X has 'age'"):
        resolved(ColumnKernel("age", ColumnKernel("sex", RBF())), NAMES)


@pytest.mark.parametrize(
    "kernel",
    [
        ColumnKernel("age", RBF(1 / 3)) + MixedRBF([0.1, 0.2], ("sex", "town"), (0.3, 0.7)),
        ColumnKernel((0, 2), Matern([1.0, 3.0], nu=1.5)) * MixedRBF(1.0, 3),
    ],
)
def test_a_kernel_comes_back_bit_for_bit(kernel):
    kernel = resolved(kernel, NAMES)
    recipe = pickle.loads(pickle.dumps(to_recipe(kernel)))
    assert isinstance(recipe, dict)
    back = from_recipe(recipe)
    assert back == kernel == clone(kernel)
    np.testing.assert_array_equal(evaluate(back, X), evaluate(kernel, X))


def test_mixed_rbf_prints_its_values():
    assert repr(MixedRBF(2.0)) == "MixedRBF(length_scale=2)"
    printed = "MixedRBF(length_scale=[1, 2], discrete=['sex'], discrete_length_scale=0.5)"
    assert repr(MixedRBF([1.0, 2.0], "sex", 0.5)) == printed
