"""Gaussian process regression on the labels, and what its outputs say of the class."""

from typing import Any, Final, NamedTuple, final

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr, ndtr
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, Kernel, WhiteKernel

from gpclass import linalg
from gpclass.estimator.baselines.labels import Array, TwoClasses, two_classes
from gpclass.kernels import cross, diagonal, evaluate, median_distance, pullback

OBJECTIVES: Final = ("loo", "evidence")


class LeaveOneOut(NamedTuple):
    """Regression on targets t: factor and inverse of K, ``K^-1 t``, LOO means and variances."""

    factor: linalg.Definite
    inverse: Array
    a: Array
    mean: Array
    variance: Array
    log_evidence: float

    @classmethod
    def of(cls, K: Array, t: Array) -> "LeaveOneOut":
        """RW06 eq. 5.12; K, with its noise, is overwritten."""
        factor = linalg.Definite.of(K, "the kernel with its noise")
        inverse = factor.inverse()
        linalg.mirror_lower(inverse)
        a, c = factor.solve(t), inverse.diagonal()
        evidence = -0.5 * (float(t @ a) + factor.log_det + len(t) * np.log(2.0 * np.pi))
        return cls(factor, inverse, a, t - a / c, 1.0 / c, evidence)

    def cotangent(self, by_mean: Array, by_variance: Array) -> Array:
        """Cotangent by K of a function of the LOO means and variances (RW06 eq. 5.13).

        ``sym(b a^T) - K^-1 diag(h) K^-1``, ``c = diag(K^-1)``, ``b = K^-1 (by_mean / c)`` and
        ``h = (by_mean a - by_variance) / c^2``.
        """
        v = self.variance
        b = self.inverse @ (by_mean * v)
        h = (by_mean * self.a - by_variance) * v * v
        G = 0.5 * (np.outer(b, self.a) + np.outer(self.a, b))
        return np.asarray(G - linalg.gram(self.inverse, h))


@final
class GaussianProcessLeastSquaresClassifier(TwoClasses):
    r"""Gaussian process least-squares classifier (LSC), with Platt's scaling of its outputs.

    The labels -1 and +1 are regressed as if they were numbers with Gaussian noise. Leave-one-out
    means :math:`\mu_i` and variances :math:`\sigma_i^2` of the labels, in closed form, show what
    an output says of the class:

    .. math:: P(y_i = +1) = \Phi\left(\frac{\alpha \mu_i + \beta}{\sqrt{1 + \alpha^2 \sigma_i^2}}
        \right) .

    Parameters
    ----------
    kernel : Kernel, default=None
        With a `WhiteKernel`, the noise. None: ``1.0 * RBF(l) + WhiteKernel(1.0)``, l the
        median distance of rows.
    objective : {"loo", "evidence"}, default="loo"
        What the hyperparameters maximise: the leave-one-out log probability of the classes,
        together with :math:`\alpha` and :math:`\beta`, as in RW06; or the evidence of the
        regression, after which :math:`\alpha` and :math:`\beta` are found alone.
    use_variance : bool, default=True
        False leaves the variances out, as in RW06's Figure 3.10.
    optimizer : "fmin_l_bfgs_b" or None, default="fmin_l_bfgs_b"
        None keeps the kernel, and finds :math:`\alpha` and :math:`\beta`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    kernel_ : Kernel
    alpha_, beta_ : float
    loo_proba_ : ndarray of shape (n, 2)
        Leave-one-out probabilities of the training rows; kernel, alpha and beta have seen them.
    X_train_ : ndarray of shape (n, d)

    Notes
    -----
    As in Platt's method the targets are not 0 and 1 but ``1 / (n_- + 2)`` and
    ``(n_+ + 1) / (n_+ + 2)``; else :math:`\alpha` grows without end where no row is wrong.

    References
    ----------
    RW06 section 3.7.3, and sections 5.4.2 and 6.5 of the same book (eq. 5.10 to 5.13, 6.42, 6.43);
    J. Platt, *Probabilities for SV machines*, 2000.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpclass.estimator.baselines import GaussianProcessLeastSquaresClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GaussianProcessLeastSquaresClassifier().fit(X[50:], y[50:])
    >>> model.predict_proba(X[[50, 106]]).round(2)
    array([[0.98, 0.02],
           [0.25, 0.75]])
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        objective: str = "loo",
        use_variance: bool = True,
        optimizer: str | None = "fmin_l_bfgs_b",
    ) -> None:
        self.kernel = kernel
        self.objective = objective
        self.use_variance = use_variance
        self.optimizer = optimizer

    def fit(self, X: Any, y: Any) -> "GaussianProcessLeastSquaresClassifier":
        """Learn the kernel's hyperparameters, alpha and beta.

        Raises
        ------
        ValueError
            For other than two classes, for an argument that is wrong, and (as
            NotPositiveDefiniteError) for a kernel whose matrix has no inverse: add a WhiteKernel.
        """
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective must be one of {OBJECTIVES}, got {self.objective!r}")
        if self.optimizer not in ("fmin_l_bfgs_b", None):
            raise ValueError(f"optimizer must be 'fmin_l_bfgs_b' or None, got {self.optimizer!r}")
        X, t = two_classes(self, X, y)
        kernel = self.kernel
        if kernel is None:
            kernel = 1.0 * RBF(median_distance(X)) + WhiteKernel(1.0)
        kernel = clone(kernel)
        if self.optimizer is not None and self.objective == "evidence":
            kernel = kernel.clone_with_theta(_maximised(_by_evidence, kernel, X, t))
        free = kernel.n_dims if self.optimizer is not None and self.objective == "loo" else 0
        found = _maximised(_by_loo, kernel, X, t, self.use_variance, free)
        self.kernel_ = kernel.clone_with_theta(found[:-2]) if free else kernel
        self.alpha_, self.beta_ = (float(value) for value in found[-2:])
        self.X_train_ = X
        loo = LeaveOneOut.of(evaluate(self.kernel_, X), t)
        self._a, self._factor = loo.a, loo.factor
        positive = self._squashed(loo.mean, loo.variance)
        self.loo_proba_ = np.column_stack([1.0 - positive, positive])
        return self

    def _squashed(self, mean: Array, variance: Array) -> Array:
        spread = self.alpha_**2 * variance if self.use_variance else 0.0
        return np.asarray(ndtr((self.alpha_ * mean + self.beta_) / np.sqrt(1.0 + spread)))

    def _probability(self, X: Array) -> Array:
        K_cross = cross(self.kernel_, self.X_train_, X)
        mean = K_cross.T @ self._a
        variance = diagonal(self.kernel_, X) - self._factor.quadratic_in_place(K_cross)
        return self._squashed(mean, np.maximum(variance, 0.0))


def _maximised(objective: Any, kernel: Kernel, X: Array, t: Array, *settings: Any) -> Array:
    """Where L-BFGS-B from the kernel's theta, then alpha = 1 and beta = 0, finds the maximum."""
    free = kernel.n_dims if not settings else settings[-1]
    start, bounds = kernel.theta[:free], kernel.bounds[:free]
    if settings:
        start = np.append(start, [1.0, 0.0])
        bounds = np.vstack([bounds.reshape(-1, 2), [[0.0, 1e6], [-1e6, 1e6]]])
    found = minimize(
        objective, start, (kernel, X, t, *settings), "L-BFGS-B", jac=True, bounds=bounds
    )
    return np.asarray(found.x)


def _by_evidence(theta: Array, kernel: Kernel, X: Array, t: Array) -> tuple[float, Array]:
    """Minus the evidence of the regression and minus its gradient by theta (RW06 eq. 5.9)."""
    kernel = kernel.clone_with_theta(theta)
    loo = LeaveOneOut.of(evaluate(kernel, X), t)
    G = 0.5 * (np.outer(loo.a, loo.a) - loo.inverse)
    return -loo.log_evidence, -pullback(kernel, X, G)


def _by_loo(
    params: Array, kernel: Kernel, X: Array, t: Array, use_variance: bool, free: int
) -> tuple[float, Array]:
    """Minus the leave-one-out log probability of the classes, and minus its gradient.

    By the first ``free`` parameters, theta, and by alpha and beta (RW06 eq. 6.42, 6.43).
    """
    alpha, beta = params[-2:]
    if free:
        kernel = kernel.clone_with_theta(params[:free])
    loo = LeaveOneOut.of(evaluate(kernel, X), t)
    variance = loo.variance if use_variance else np.zeros(len(t))
    line, s = alpha * loo.mean + beta, np.sqrt(1.0 + alpha**2 * variance)
    r = line / s
    n_positive = int((t > 0).sum())
    high, low = (n_positive + 1) / (n_positive + 2), 1 / (len(t) - n_positive + 2)
    q = np.where(t > 0, high, low)
    right, wrong = log_ndtr(r), log_ndtr(-r)
    log_density = -0.5 * (r * r + np.log(2.0 * np.pi))
    by_r = q * np.exp(log_density - right) - (1.0 - q) * np.exp(log_density - wrong)
    by_alpha = by_r @ (loo.mean / s - line * alpha * variance / s**3)
    gradient = np.array([by_alpha, by_r @ (1.0 / s)])
    if free:
        by_variance = -0.5 * by_r * line * alpha**2 / s**3 if use_variance else np.zeros(len(t))
        G = loo.cotangent(by_r * alpha / s, by_variance)
        gradient = np.concatenate([pullback(kernel, X, G), gradient])
    return -float(q @ right + (1.0 - q) @ wrong), -gradient
