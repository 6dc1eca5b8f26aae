"""Attributes of a fitted classifier: kernel, likelihood, posterior, evidence, a summary."""

from abc import ABC
from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel
from sklearn.utils.validation import check_is_fitted

from gpclass.blocks import AbsentBlocks
from gpclass.estimator.calibration import temperature_of
from gpclass.estimator.draws import arviz_dataset, hyperparameter_draws
from gpclass.estimator.evidence import evidence_at
from gpclass.estimator.leave_one_out import loo_log_loss, loo_probabilities
from gpclass.estimator.model import Model
from gpclass.estimator.summary import summary_of
from gpclass.inference import Approximation
from gpclass.kernels import KernelList
from gpclass.likelihoods import Likelihood
from gpclass.linalg import Array


class FittedAttributes(ABC):
    """What is read from the ``models_`` that a fit has learnt."""

    models_: list[Model]
    log_marginal_likelihood_value_: float

    def summary(self) -> str:
        """Say in a few lines of text what was learnt: ``print(model.summary())``.

        The evidence, and what the frequencies of the classes alone would have; the kernel; of
        kernels with a length-scale a column, which columns matter; how sure the model is on (at
        most 1000 of) the training rows, which is surer than on new ones.
        """
        check_is_fitted(self, "models_")
        return summary_of(self)

    def to_arviz(self, problem: int = 0) -> Any:
        """Draws of the hyperparameters by ``learning="nuts"``, for ArviZ.

        ``arviz.summary(model.to_arviz())`` has means, intervals, split R-hat and effective draws;
        ``arviz.plot_trace`` and the others take it too.

        Parameters
        ----------
        problem : int, default=0
            Which binary problem, where there are several.

        Returns
        -------
        draws : xarray.Dataset
            A variable a hyperparameter, on its own scale, of all chains and draws.

        Raises
        ------
        ValueError
            Without draws, and for a problem that there is not.
        ImportError
            Without ArviZ (``pip install 'gpclass[arviz]'``).
        """
        check_is_fitted(self, "models_")
        return arviz_dataset(hyperparameter_draws(self, problem))

    def _of_models(self, read: Callable[[Model], Any]) -> Any:
        """What is read of the one model, or a list of it."""
        check_is_fitted(self, "models_")
        found = [read(model) for model in self.models_]
        return found[0] if len(found) == 1 else found

    @property
    def kernel_(self) -> Kernel:
        """Kernel with the hyperparameters that were learnt."""
        kernels = self._of_models(lambda model: model.problem.kernel)
        if isinstance(kernels, CompoundKernel):
            kernels = kernels.kernels
        return KernelList(kernels) if isinstance(kernels, list) else kernels

    @property
    def likelihood_(self) -> Likelihood | list[Likelihood]:
        """Likelihood with the hyperparameters that were learnt (a list for several problems)."""
        found: Likelihood | list[Likelihood] = self._of_models(lambda m: m.problem.likelihood)
        return found

    @property
    def approximation_(self) -> Approximation | list[Approximation] | Any:
        """Approximation of the problem (a list of them where there are several).

        There is none after a fit to a Dask collection was saved and loaded: its rows are not saved.
        """
        sources = [getattr(one.problem, "source", None) for one in getattr(self, "models_", [])]
        if any(isinstance(one, AbsentBlocks) for one in sources):
            raise AttributeError(
                "approximation_ needs the rows, which were a Dask collection and are not saved "
                "with the model"
            )
        return self._of_models(lambda model: model.approximation())

    @property
    def loo_proba_(self) -> Array:
        """Class probabilities of each training row given all others, shape (N, C)."""
        check_is_fitted(self, "models_")
        return loo_probabilities(self)

    @property
    def loo_log_loss_(self) -> float:
        """Mean of ``-log p(y_i | y_-i)`` by the weights of the fit, in nats."""
        check_is_fitted(self, "models_")
        return loo_log_loss(self)

    def log_marginal_likelihood(
        self, theta: ArrayLike | None = None, eval_gradient: bool = False, clone_kernel: bool = True
    ) -> float | tuple[float, Array | None]:
        """Evidence of hyperparameters, in nats: the mean over the binary problems.

        Parameters
        ----------
        theta : array-like of shape (p,) or (k * p,), default=None
            Logarithms of the hyperparameters: of all k binary problems, or of each in turn. The
            kernel's come first, then the likelihood's, which may be left out: they stay where
            they are. None: the value at those that were learnt.
        eval_gradient : bool, default=False
            Whether to return the gradient by theta too.
        clone_kernel : bool, default=True
            False also makes theta, the sites found there and the temperature those of the fitted
            model.

        Returns
        -------
        log_evidence, gradient : float, ndarray of the shape of theta
            The gradient only where eval_gradient is True.

        Raises
        ------
        ValueError
            For a theta of the wrong length, and for a gradient without theta.
        """
        check_is_fitted(self, "models_")
        if theta is None:
            if eval_gradient:
                raise ValueError("eval_gradient=True needs theta")
            return self.log_marginal_likelihood_value_
        found = evidence_at(self.models_, theta, eval_gradient)
        if not clone_kernel:
            self.models_ = found.models
            self.temperature_ = temperature_of(self)
        return (found.log_evidence, found.gradient) if eval_gradient else found.log_evidence
