"""Linear logistic regression of many classes, by Laplace's method (RW06 section 3.7.4)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression

from gpclass import linalg
from gpclass.likelihoods.probabilities.gaussian import softmax_probabilities
from gpclass.linalg import Array


class LinearSoftmax(NamedTuple):
    """Laplace's approximation of ``f_c = w_c^T (x, 1)``, ``w_c ~ N(0, theta^2 I)``.

    ``weights`` (C, d + 1) are the mode's, ``precision`` is the factor of theirs, class by class:
    (C (d + 1), C (d + 1)). ``log_evidence`` is RW06 eq. 3.44, where ``|I + K W|`` is
    ``|I + theta^2 H|`` with the Hessian H of the weights.
    """

    weights: Array
    precision: linalg.Definite
    log_evidence: float

    @classmethod
    def at(cls, theta: float, X: Array, codes: NDArray[np.intp]) -> "LinearSoftmax":
        """Approximate the posterior of the weights for rows X (n, d), codes 0 to C - 1."""
        U = with_bias(X)
        # the penalty of C = theta^2 is minus the log prior, times theta^2
        model = LogisticRegression(
            C=theta**2, fit_intercept=False, solver="newton-cg", tol=1e-6, max_iter=1000
        ).fit(U, codes)
        W = model.coef_
        F = linalg.product(U, np.ascontiguousarray(W.T))
        log_p = F - logsumexp(F, axis=1, keepdims=True)
        prior = -0.5 * float((W * W).sum()) / theta**2
        precision = hessian(U, np.exp(log_p))
        precision.flat[:: len(precision) + 1] += theta**-2
        factor = linalg.Definite.of(precision, "the posterior precision of the weights")
        log_det = factor.log_det + 2.0 * W.size * np.log(theta)
        fit = float(log_p[np.arange(len(codes)), codes].sum())
        return cls(W, factor, fit + prior - 0.5 * log_det)

    @classmethod
    def learnt(cls, X: Array, codes: NDArray[np.intp]) -> tuple[float, "LinearSoftmax"]:
        """The theta of the largest evidence, between 0.1 and 10, and the model there."""

        def loss(log_theta: float) -> float:
            return -cls.at(float(np.exp(log_theta)), X, codes).log_evidence

        found = minimize_scalar(loss, bounds=(-2.3, 2.3), method="bounded", options={"xatol": 0.01})
        theta = float(np.exp(found.x))
        return theta, cls.at(theta, X, codes)

    def probabilities(self, X: Array) -> Array:
        """Averages of the softmax over the latents of rows X, (m, C)."""
        U = with_bias(X)
        C, d = self.weights.shape
        covariance = self.precision.inverse()
        linalg.mirror_lower(covariance)
        blocks = covariance.reshape(C, d, C, d)
        S = np.empty((len(U), C, C))
        for b in range(C):
            for c in range(b, C):
                block = np.ascontiguousarray(blocks[b, :, c])
                S[:, b, c] = S[:, c, b] = np.einsum("ij,ij->i", linalg.product(U, block), U)
        return softmax_probabilities(U @ self.weights.T, S)


def with_bias(X: Any) -> Array:
    """Rows with a one at their end."""
    return np.hstack([X, np.ones((len(X), 1))])


def hessian(U: Array, P: Array) -> Array:
    """Minus the Hessian of the log likelihood by the weights, from probabilities P (n, C)."""
    d, C = U.shape[1], P.shape[1]
    H = np.empty((C, d, C, d))
    for b in range(C):
        for c in range(b, C):
            s = P[:, b] * ((b == c) - P[:, c])
            H[b, :, c] = linalg.gram(U, s)
            H[c, :, b] = H[b, :, c].T
    return H.reshape(C * d, C * d)
