"""RW06 exercise 3.10.1: the probit is a step on a latent with Gaussian noise.

The step function says that the label is the sign of the noisy latent f + e, e ~ N(0, 1). Averaged
over e it is Phi(y f), the probit. So a noise-free process with the probit and a noisy process with
the step are one model, and EP gives both the same evidence and the same predictions.
"""

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from gpclass import GaussianProcessClassifier
from gpclass.likelihoods import NoisyThreshold, Probit

step = NoisyThreshold(0.0)

# one case: the step averaged over N(f, 1) is the probit at f
f = np.linspace(-6.0, 6.0, 25)
ones = np.ones_like(f)
averaged = step.tilted_moments(ones, f, ones).log_z
np.testing.assert_allclose(averaged, Probit().log_prob(ones, f), rtol=1e-12)

# whole models, trained and tested
rng = np.random.default_rng(0)
X = rng.uniform(-3.0, 3.0, size=(40, 1))
y = np.sign(np.sin(2.0 * X[:, 0]) + 0.4 * rng.normal(size=40))
X_new = np.linspace(-4.0, 4.0, 9)[:, None]
latent = ConstantKernel(4.0) * RBF(0.8)
free = GaussianProcessClassifier(latent, optimizer=None, likelihood="probit").fit(X, y)
noisy = GaussianProcessClassifier(latent + WhiteKernel(1.0), optimizer=None, likelihood=step).fit(
    X, y
)

evidences = [model.log_marginal_likelihood_value_ for model in (free, noisy)]
print(f"log evidence: probit {evidences[0]:.9f}, step and noise {evidences[1]:.9f}")
np.testing.assert_allclose(*evidences, rtol=1e-7)
apart = np.abs(free.predict_proba(X_new) - noisy.predict_proba(X_new)).max()
print(f"largest difference of the predictions: {apart:.1e}")
assert apart < 1e-6
