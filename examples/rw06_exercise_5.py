"""RW06 exercise 3.10.5: the cavity of a case does not depend on its own site.

The formulas (3.56) take the site out of the marginal, so that both appear in them; but whatever
the site is, the marginal has it as a factor, and what is left is the prior and the other sites.
"""

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass.inference import EP
from gpclass.likelihoods import Probit

rng = np.random.default_rng(0)
X = rng.normal(size=(12, 2))
y = np.where(X[:, 0] + 0.3 * rng.normal(size=12) > 0.0, 1.0, -1.0)
K = (ConstantKernel(4.0) * RBF(1.0))(X)
sites = EP()(K, y, Probit()).sites


def cavity(tau: np.ndarray, nu: np.ndarray, i: int) -> tuple[float, float]:
    """Mean and variance by (3.56), from the posterior by (3.53)."""
    Sigma = K @ np.linalg.inv(np.eye(len(K)) + tau[:, None] * K)
    mean = Sigma @ nu
    variance = 1.0 / (1.0 / Sigma[i, i] - tau[i])
    return variance * (mean[i] / Sigma[i, i] - nu[i]), variance


i = 3
before = cavity(sites.tau, sites.nu, i)
for _ in range(5):
    tau, nu = sites.tau.copy(), sites.nu.copy()
    tau[i], nu[i] = rng.gamma(2.0), 3.0 * rng.normal()
    after = cavity(tau, nu, i)
    print(f"site ({tau[i]:.2f}, {nu[i]:+.2f}): cavity N({after[0]:.9f}, {after[1]:.9f})")
    np.testing.assert_allclose(after, before, rtol=1e-9)

# another site changes it
tau = sites.tau.copy()
tau[i - 1] *= 2.0
assert abs(cavity(tau, sites.nu, i)[1] - before[1]) > 1e-4
