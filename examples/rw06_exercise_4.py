"""RW06 exercise 3.10.4: points that the model explains well drop out of Laplace's Newton step.

Where t_i ~ pi_i and W_ii ~ 0, the step (3.18) for the other points is what it would be without
these points, and the latents of the well-explained ones follow by the prior alone (3.89).
So Laplace's posterior is uncertain there: `gpclass reproduce rw06-3.6` shows what follows.
"""

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass.likelihoods import Logit

rng = np.random.default_rng(0)
n1, n2 = 8, 5
X = np.concatenate([rng.normal(0.0, 1.0, n1), rng.normal(4.0, 0.5, n2)])[:, None]
y = np.concatenate([np.sign(rng.normal(size=n1)), np.ones(n2)])
K = (ConstantKernel(30.0) * RBF(1.5))(X)
# latents at which the second group is explained to seven digits
f = np.concatenate([rng.normal(size=n1), np.full(n2, 17.0)])
slope, curvature, _ = Logit().derivatives(y, f)
W = np.diag(-curvature)
assert W.diagonal()[n1:].max() < 1e-7
assert abs(slope[n1:]).max() < 1e-7

# (3.18), whole
whole = K @ np.linalg.solve(np.eye(n1 + n2) + W @ K, W @ f + slope)
# (3.89), in two parts
K11, K21, W11 = K[:n1, :n1], K[n1:, :n1], W[:n1, :n1]
f1 = K11 @ np.linalg.solve(np.eye(n1) + W11 @ K11, W11 @ f[:n1] + slope[:n1])
f2 = K21 @ np.linalg.solve(K11 + 1e-12 * np.eye(n1), f1)
print(f"largest difference: {abs(whole[:n1] - f1).max():.1e} and {abs(whole[n1:] - f2).max():.1e}")
np.testing.assert_allclose(whole[:n1], f1, atol=1e-4)
np.testing.assert_allclose(whole[n1:], f2, atol=1e-4)
