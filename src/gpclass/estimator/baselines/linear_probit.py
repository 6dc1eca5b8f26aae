"""The linear probit model, as a Gaussian process whose posterior is one of d + 1 weights."""

import numbers
import warnings
from typing import Any, final

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Kernel

from gpclass.estimator.arguments import check_named
from gpclass.estimator.baselines.labels import Array, TwoClasses, new_rows, two_classes
from gpclass.exceptions import ConvergenceWarning
from gpclass.inference import METHODS, Outcome
from gpclass.learning import BinaryProblem, KeepFixed, MaximiseEvidence
from gpclass.likelihoods import Probit
from gpclass.priors.inducing import InducingFactor
from gpclass.priors.linear import Linear


@final
class LinearProbitClassifier(TwoClasses):
    r"""Linear probit model of two classes, with its prior's width learnt by the evidence.

    .. math:: P(y = +1 \mid x) = \Phi(w^\top x + w_0) , \quad w, w_0 \sim N(0, \theta^2)

    This is ``GaussianProcessClassifier(ConstantKernel(theta^2) * DotProduct(1, "fixed"))`` with the
    same inference, in O(n d^2) time and O(n d) memory for O(n^3) and O(n^2). Columns are taken as
    they are: scale them in a pipeline.

    Parameters
    ----------
    weight_variance : float, default=1.0
        The :math:`\theta^2` that learning starts from, between 1e-5 and 1e5.
    fit_intercept : bool, default=True
        Whether there is a :math:`w_0`.
    inference : {"laplace", "ep", "pl", "vi", "bound"} or InferenceMethod, default="laplace"
        RW06 take Laplace's method.
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        None keeps ``weight_variance``.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    kernel_ : Kernel
        The linear kernel, as learnt.
    coef_, intercept_ : ndarray of shape (1, d), (1,)
        Means of the weights.
    log_marginal_likelihood_value_ : float
        Evidence in nats.

    References
    ----------
    RW06 section 3.7.3, and section 2.1 of the same book for the weights.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpclass.estimator.baselines import LinearProbitClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearProbitClassifier().fit(X[50:], y[50:])
    >>> round(model.log_marginal_likelihood_value_, 2), model.coef_.round(2)
    (-18.42, array([[-1.78, -2.46,  3.46,  5.6 ]]))
    """

    kernel_: Kernel
    _weights: Array
    _factor: InducingFactor

    def __init__(
        self,
        weight_variance: float = 1.0,
        *,
        fit_intercept: bool = True,
        inference: Any = "laplace",
        optimizer: Any = "fmin_l_bfgs_b",
    ) -> None:
        self.weight_variance = weight_variance
        self.fit_intercept = fit_intercept
        self.inference = inference
        self.optimizer = optimizer

    def fit(self, X: Any, y: Any) -> "LinearProbitClassifier":
        """Learn the width of the prior, and the posterior of the weights.

        Raises
        ------
        ValueError
            For other than two classes, and for an argument that is wrong.
        """
        start = self.weight_variance
        if not (isinstance(start, numbers.Real) and 0.0 < start < np.inf):
            raise ValueError(f"weight_variance must be a positive number, got {start!r}")
        method = self.inference
        if isinstance(method, str):
            method = METHODS[check_named("inference", method, METHODS)]()
        learner = KeepFixed() if self.optimizer is None else MaximiseEvidence(self.optimizer)
        X, labels = two_classes(self, X, y)
        bias = 1.0 if self.fit_intercept else 0.0
        kernel = ConstantKernel(float(start)) * DotProduct(bias, "fixed")
        problem = BinaryProblem(kernel, X, labels, Probit(), method, prior_form=Linear())
        learned = learner.learn(problem, problem.theta[None])
        outcome = Outcome[learned.best.outcome_name]
        if not outcome.converged:
            warnings.warn(f"inference {outcome.value}", ConvergenceWarning, stacklevel=2)
        problem = problem.at(learned.theta)
        prior = Linear().make(problem.kernel, X, 0.0)
        sites = learned.best.sites
        self._factor = prior.factor(sites.tau)
        self._weights = self._factor.new_weights(self._factor.solve(sites.nu))
        self.kernel_ = problem.kernel
        unit = np.sqrt(self.kernel_.k1.constant_value)
        self.coef_ = unit * self._weights[None, :-1]
        self.intercept_ = bias * unit * self._weights[-1:]
        self.log_marginal_likelihood_value_ = learned.log_evidence
        return self

    def latent_mean_and_variance(self, X: Any) -> tuple[Array, Array]:
        """Mean and variance of ``w^T x + w_0``, each (m,), in O(d^2) a row."""
        return self._latent(new_rows(self, X))

    def _latent(self, X: Array) -> tuple[Array, Array]:
        U = Linear().columns(self.kernel_, X)
        # what is left of the variance of the weights, without a difference
        left = self._factor.precision.quadratic_in_place(np.array(U.T, order="C"))
        return U @ self._weights, left

    def _probability(self, X: Array) -> Array:
        return Probit().predict_proba(*self._latent(X))
