"""Kernels with several parameters each; every law is asserted over all of them."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)

from gpclass.kernels import ColumnKernel, MixedRBF

ARD = [0.5, 1.0, 2.0, 4.0, 1.5, 3.0, 0.9]

KERNELS = {
    "constant": ConstantKernel(2.5),
    "constant fixed": ConstantKernel(2.5, "fixed"),
    "white": WhiteKernel(0.3),
    "white fixed": WhiteKernel(0.3, "fixed"),
    "rbf": RBF(1.3),
    "rbf array of one": RBF([1.3]),
    "rbf fixed": RBF(1.3, "fixed"),
    "rbf ard": RBF(ARD),
    "rbf ard fixed": RBF(ARD, "fixed"),
    "rbf long": RBF(1e6),
    "rbf short": RBF(1e-6),
    "matern 1/2": Matern(1.3, nu=0.5),
    "matern 1/2 ard": Matern(ARD, nu=0.5),
    "matern 3/2": Matern(1.3, nu=1.5),
    "matern 3/2 ard": Matern(ARD, nu=1.5),
    "matern 3/2 fixed": Matern(ARD, "fixed", nu=1.5),
    "matern 5/2": Matern(1.3, nu=2.5),
    "matern 5/2 ard": Matern(ARD, nu=2.5),
    "matern inf": Matern(1.3, nu=np.inf),
    "matern inf ard": Matern(ARD, nu=np.inf),
    "rq": RationalQuadratic(1.3, 0.7),
    "rq alpha fixed": RationalQuadratic(1.3, 0.7, alpha_bounds="fixed"),
    "rq length fixed": RationalQuadratic(1.3, 0.7, length_scale_bounds="fixed"),
    "periodic": ExpSineSquared(1.3, 2.1),
    "periodic length fixed": ExpSineSquared(1.3, 2.1, length_scale_bounds="fixed"),
    "periodic period fixed": ExpSineSquared(1.3, 2.1, periodicity_bounds="fixed"),
    "dot": DotProduct(0.8),
    "dot fixed": DotProduct(0.8, "fixed"),
    "usual": 1.7 * RBF(ARD) + WhiteKernel(0.1),
    "constant last": RBF(ARD) * 1.7 + 0.4,
    "variance 1e8": 1e8 * RBF(2.0),
    "variance 1e-10": 1e-10 * RBF(2.0),
    "product": 1.7 * RBF(ARD) * Matern(2.0, nu=1.5) * RationalQuadratic(2.0, 0.5),
    "mixed product": (DotProduct(0.8) + 0.2) * RBF(ARD) * ConstantKernel(3.0, "fixed"),
    "white product": WhiteKernel(0.3) * RBF(2.0) + RBF(1.0, "fixed") * DotProduct(1.0),
    "sum in product": (RBF(1.0) + 0.5 * Matern(ARD, nu=2.5)) * (DotProduct() + WhiteKernel(0.1)),
    "power": Exponentiation(1.7 * RBF(ARD), 2),
    "power of dot": Exponentiation(DotProduct(0.8) + WhiteKernel(0.3), 2),
    "fractional power": Exponentiation(RationalQuadratic(1.3, 0.7), 1.5),
    "power of sum": 2.0 * Exponentiation(RBF(ARD) + Matern(2.0, nu=0.5), 3.0) + 1.0,
    "mixed rbf": MixedRBF(1.3, (5, 6), 0.8),
    "mixed rbf ard": MixedRBF(ARD[:5], (5, 6), (0.8, 2.0)),
    "mixed rbf shared": 1.7 * MixedRBF(ARD[:6], 5, 0.7) + WhiteKernel(0.1),
    "mixed rbf of one": MixedRBF(1.3, range(6), [0.5, 1.0, 2.0, 1.5, 3.0, 0.9]),
    "mixed rbf all discrete": MixedRBF(1.3, range(7), 2.0, length_scale_bounds="fixed"),
    "mixed rbf no discrete": MixedRBF(ARD),
    "mixed rbf fixed": MixedRBF(ARD[:5], (5, 6), 0.8, discrete_length_scale_bounds="fixed"),
    "columns": ColumnKernel(0, RBF(1.3)) + 2.0 * ColumnKernel((1, -1), Matern([1.0, 3.0], nu=1.5)),
    "columns shared": 1.7 * ColumnKernel(range(4), Matern(ARD[:3], nu=2.5), shared=[0, 1, 1, 2]),
    "columns shared fixed": ColumnKernel(range(7), RBF([2.0, 1.0], "fixed"), shared=[0] * 6 + [1]),
    "columns power": ColumnKernel([6, 5, 2], MixedRBF([1.0, 3.0], 1)) ** 2 * DotProduct(0.8),
    "columns opaque": ColumnKernel((4, 6), PairwiseKernel(0.3, metric="rbf")) + 0.2,
    "opaque": 2.0 * PairwiseKernel(0.3, metric="rbf") * RBF(ARD) + WhiteKernel(0.1),
}


@pytest.fixture(params=KERNELS, scope="session")
def kernel(request):
    return KERNELS[request.param]


@pytest.fixture(scope="session")
def X():
    """More than one tile of rows, few enough for the tensor of eval_gradient; one duplicate.

    The last two columns have 3 and 40 levels, for the kernels that compare them for equality.
    """
    rng = np.random.default_rng(1)
    X = rng.standard_normal((205, 7))
    X[:, 5] = rng.integers(3, size=205) - 1.0
    X[:, 6] = rng.integers(40, size=205) / 10.0 - 2.0
    X[200] = X[3]
    return X


@pytest.fixture(scope="session")
def G():
    G = np.random.default_rng(2).standard_normal((205, 205))
    return G + G.T
