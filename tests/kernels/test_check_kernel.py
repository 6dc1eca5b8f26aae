"""The laws hold for the kernels here, and each law is missed where it is broken."""

from typing import final

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, Hyperparameter, Kernel
from sklearn.gaussian_process.tests._mini_sequence_kernel import MiniSeqKernel

from gpclass.kernels import Precomputed
from gpclass.kernels.tiles import BoundKernel, binds
from gpclass.testing.kernels import check_kernel


def test_the_laws_hold(kernel):
    X = np.random.default_rng(3).standard_normal((12, 7))
    check_kernel(kernel, X[:, :1] if isinstance(kernel, ExpSineSquared) else X)


def test_the_periodic_kernel_is_a_kernel_in_one_dimension_only():
    # a sine of the Euclidean distance is no sum of sines of its coordinates
    with pytest.raises(AssertionError, match=r"^positive semi-definiteness"):
        check_kernel(ExpSineSquared(1.3, 2.1), np.random.default_rng(3).standard_normal((12, 7)))


def test_the_laws_hold_for_a_matrix():
    X = np.random.default_rng(3).standard_normal((12, 7))
    check_kernel(Precomputed(), RBF(2.0)(X))


class Scaled(Kernel):
    """``s exp(-|x - y|^2 / 2)``, right in every respect unless a part is replaced."""

    def __init__(self, s=2.0, s_bounds=(1e-5, 1e5)):
        self.s = s
        self.s_bounds = s_bounds

    @property
    def hyperparameter_s(self):
        return Hyperparameter("s", "numeric", self.s_bounds)

    def values(self, X, Y):
        return self.s * RBF()(X, X if Y is None else Y)

    def gradient(self, K):
        return K[:, :, None]

    def __call__(self, X, Y=None, eval_gradient=False):
        K = self.values(X, Y)
        return (K, self.gradient(K)) if eval_gradient else K

    def diag(self, X):
        return np.full(len(X), self.s)

    def is_stationary(self):
        return True


class PlainGradient(Scaled):
    """The derivative by s where the derivative by log s is due."""

    def gradient(self, K):
        return K[:, :, None] / self.s


class WrongRule(Scaled):
    """Right in itself; the rule registered for it doubles the gradient."""


@final
class Doubled(BoundKernel):
    n_theta = 1

    def __init__(self, K):
        self.K = K

    def value(self, rows, cols):
        return np.array(self.K[rows, cols])

    def pull(self, rows, cols, G, value=None):
        return np.array([2.0 * np.sum(G * self.K[rows, cols])])


@binds(WrongRule)
def bind_wrong_rule(kernel, X, X_new):
    return Doubled(kernel(X, X_new))


class FlatGradient(Scaled):
    def gradient(self, K):
        return K


class WrongDiagonal(Scaled):
    def diag(self, X):
        return np.ones(len(X))


class Lopsided(Scaled):
    def values(self, X, Y):
        K = super().values(X, Y)
        return np.triu(K) if Y is None else K


class Indefinite(Scaled):
    def values(self, X, Y):
        return super().values(X, Y) - 3.0

    def diag(self, X):
        return np.full(len(X), self.s - 3.0)


class WrongCross(Scaled):
    def values(self, X, Y):
        K = super().values(X, Y)
        return K if Y is None else 1.1 * K


class WrongTheta(Scaled):
    def clone_with_theta(self, theta):
        return super().clone_with_theta(0.5 * theta)


class NotFinite(Scaled):
    def values(self, X, Y):
        return super().values(X, Y) * np.nan


class WrongRows(RBF):
    """Inherits the rule of RBF through its call, but not its prior variances."""

    def diag(self, X):
        return 2.0 * super().diag(X)


BROKEN = {
    "gradient: eval_gradient=True against": PlainGradient(),
    "pullback: ": WrongRule(),
    "gradient: eval_gradient=True returned shape": FlatGradient(),
    "diagonal: kernel.diag": WrongDiagonal(),
    "symmetry": Lopsided(),
    "positive semi-definiteness": Indefinite(),
    "cross": WrongCross(),
    "theta": WrongTheta(),
    "values": NotFinite(),
    "diagonal": WrongRows(),
}


def test_a_kernel_of_ones_own():
    check_kernel(Scaled(), np.random.default_rng(3).standard_normal((12, 2)))


@pytest.mark.parametrize("law", BROKEN)
def test_a_broken_law_is_named(law):
    with pytest.raises(AssertionError, match=f"^{law}"):
        check_kernel(BROKEN[law], np.random.default_rng(3).standard_normal((12, 2)))


def test_scikit_learns_sequence_kernel_has_a_plain_gradient():
    # its eval_gradient is by the similarity, not by its logarithm as theta is
    with pytest.raises(AssertionError, match=r"^gradient"):
        check_kernel(MiniSeqKernel(0.4), ["ACGT", "AC", "GGTA", "TTA", "C"])
