"""The linear prior by its columns is the dense prior with a linear kernel."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, DotProduct

from gpclass.priors import InducingPrior
from gpclass.priors.linear import Linear
from gpclass.testing import check_prior


def test_laws():
    check_prior(InducingPrior(np.random.default_rng(0).standard_normal((24, 5)), np.zeros(24)))


@pytest.mark.parametrize("kernel", [RBF(1.0), 2.0 * RBF(1.0), 2.0 * DotProduct(1.0)])
def test_other_kernels_are_refused(kernel):
    with pytest.raises(ValueError, match="linear prior takes"):
        Linear().make(kernel, np.ones((2, 1)), 0.0)
