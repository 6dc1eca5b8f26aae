import pickle

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from gpclass.kernels import Precomputed, from_recipe, to_recipe


class MyRBF(RBF):
    """A user's own class."""


@pytest.mark.parametrize(
    "kernel",
    [
        RBF([1 / 3, 2.0], "fixed"),
        ConstantKernel(np.pi, (1e-3, 1e3)) * Matern(0.1, nu=2.5) ** 2 + WhiteKernel(1e-7),
        Precomputed(),
    ],
)
def test_a_kernel_comes_back_bit_for_bit(kernel):
    recipe = pickle.loads(pickle.dumps(to_recipe(kernel)))
    assert isinstance(recipe, dict)
    back = from_recipe(recipe)
    assert back == kernel
    np.testing.assert_array_equal(back.theta, kernel.theta)


def test_a_users_class_stays_what_it_is():
    kernel = MyRBF(2.0)
    assert to_recipe(kernel) is kernel
    assert from_recipe(kernel) is kernel
    inside = to_recipe(ConstantKernel(2.0) * kernel)
    assert inside["parameters"]["k2"] is kernel


def test_only_kernels_are_built():
    with pytest.raises(ValueError, match="'system' that does not exist"):
        from_recipe({"kernel": "system", "parameters": {}})
