"""Kernels at other hyperparameters, against scikit-learn's own way."""

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from gpclass.kernels import n_free, with_theta


class Doubled(RBF):
    """A kernel with a theta of its own: the logarithm of twice the length-scale."""

    @property
    def theta(self):
        return np.array([np.log(2.0 * self.length_scale)])

    @theta.setter
    def theta(self, theta):
        self.length_scale = 0.5 * np.exp(theta[0])


def test_is_what_scikit_learn_clones(kernel):
    theta = kernel.theta + np.linspace(0.1, 0.7, kernel.n_dims)
    want, before = kernel.clone_with_theta(theta), str(kernel)
    got = with_theta(kernel, theta)
    assert n_free(kernel) == kernel.n_dims
    assert type(got) is type(kernel)
    assert got == want
    np.testing.assert_array_equal(got.theta, want.theta)
    assert str(kernel) == before


def test_a_theta_of_its_own_is_used():
    test_is_what_scikit_learn_clones(3.0 * Doubled(1.5))
