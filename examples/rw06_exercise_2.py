"""RW06 exercise 3.10.2: the covariance of a multinomial variable, and the softmax's W.

cov(y) = diag(pi) - pi pi^T is positive semidefinite, as a covariance is, and not definite: the
vector of ones has eigenvalue zero. W = diag(pi) - Pi Pi^T of eq. 3.38 has such a block for each
row, so it is positive semidefinite too.
"""

import numpy as np
from scipy.special import softmax

rng = np.random.default_rng(0)
C, n = 4, 6

# the covariance of draws is the formula, within the error of the draws
pi = softmax(rng.normal(size=C))
draws = rng.multinomial(1, pi, size=200_000)
formula = np.diag(pi) - np.outer(pi, pi)
apart = np.abs(np.cov(draws.T) - formula).max()
print(f"covariance of draws and formula differ by {apart:.4f}")
assert apart < 4.0 / np.sqrt(len(draws))

# ones: an eigenvector of eigenvalue zero, and the others are positive
np.testing.assert_allclose(formula @ np.ones(C), 0.0, atol=1e-15)
assert np.linalg.eigvalsh(formula)[1] > 0.0

# W of n rows, ordered by class as in RW06: n zeros, the rest positive
P = softmax(rng.normal(size=(n, C)), axis=1)
Pi = np.concatenate([np.diag(P[:, c]) for c in range(C)])
W = np.diag(P.T.ravel()) - Pi @ Pi.T
eigenvalues = np.linalg.eigvalsh(W)
print(
    f"eigenvalues of W: {n} of at most {abs(eigenvalues[:n]).max():.0e}, then {eigenvalues[n]:.3f}"
)
assert abs(eigenvalues[:n]).max() < 1e-14 < eigenvalues[n]
