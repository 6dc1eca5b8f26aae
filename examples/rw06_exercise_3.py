"""RW06 exercise 3.10.3: the decision depends on the covariance of the latents, not only their mean.

Three classes, softmax, latents N(mean, covariance). The mean lies a little into the region of one
class; a large variance of the latent of any class makes that class the most probable on average.
So each of the three decisions can be had from each of the three means.
"""

import numpy as np
from scipy.special import softmax

rng = np.random.default_rng(0)
draws = rng.normal(size=(100_000, 3))
# half of the draws mirrored: they are symmetric about the mean
draws = np.concatenate([draws, -draws])


def average(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Class probabilities averaged over the latents."""
    root = np.linalg.cholesky(covariance)
    return softmax(mean + draws @ root.T, axis=1).mean(axis=0)


covariances = [np.diag(np.where(np.arange(3) == c, 25.0, 0.01)) for c in range(3)]
for region in range(3):
    mean = 0.05 * (np.arange(3) == region)
    decisions = [int(average(mean, covariance).argmax()) for covariance in covariances]
    print(f"mean in the region of class {region + 1}: decisions {[d + 1 for d in decisions]}")
    assert softmax(mean).argmax() == region
    assert decisions == [0, 1, 2]

# The same holds of z = T f, here (f_1 - f_3, f_2 - f_3) as T is printed: the softmax of f is that
# of (z, 0), so it takes the averages over N(T mean, T cov(f) T^T).
T = np.array([[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]])
for c, covariance in enumerate(covariances):
    root = np.linalg.cholesky(T @ covariance @ T.T)
    z = draws[:, :2] @ root.T
    proba = softmax(np.column_stack([z, np.zeros(len(z))]), axis=1).mean(axis=0)
    assert proba.argmax() == c
    np.testing.assert_allclose(proba, average(np.zeros(3), covariance), atol=4e-3)
print("and so do the decisions by z = T f")
