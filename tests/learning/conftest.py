"""Problems that several files of this folder learn."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass.inference import EP, Laplace
from gpclass.inference.joint import LatentDifferences, MultinomialProbit, Softmax
from gpclass.learning import JointProblem
from gpclass.likelihoods import Logit, Probit

MODELS = {
    "nested": (MultinomialProbit(), Probit(), EP()),
    "softmax": (Softmax(), Logit(), Laplace()),
    "differences": (LatentDifferences(), Probit(), EP()),
}


@pytest.fixture
def joint_problem():
    """Factory of problems of three classes in two columns, by the name of their joint model."""

    def make(name="nested", n=40, seed=0, kernel=None, weights=None, classes=3):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n, 2))
        latent = np.stack([np.sin(2 * X[:, 0] + k) + 0.5 * k * X[:, 1] for k in range(classes)], 1)
        codes = (latent + 0.5 * rng.gumbel(size=latent.shape)).argmax(axis=1)
        codes[:classes] = np.arange(classes)
        kernel = ConstantKernel(1.0) * RBF(1.0) if kernel is None else kernel
        scheme, likelihood, inference = MODELS[name]
        return JointProblem(kernel, X, codes, classes, scheme, likelihood, inference, weights)

    return make
