"""What a fitted classifier answers beside probabilities: MAP, entropies, slopes."""

import numbers
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpclass.estimator.acquisition import entropy, information_about_latent
from gpclass.estimator.prediction import (
    class_log_probabilities,
    class_probabilities,
    map_probabilities,
    tempered_slopes,
)
from gpclass.estimator.slopes import in_units_of_the_table, probability_slopes

Array = NDArray[np.float64]


class PosteriorQueries(ABC):
    """What is read from the latents of new rows."""

    _inputs: Any
    temperature_: float

    @abstractmethod
    def _at(self, X: Any) -> tuple[Any, Any, int, Any]:
        """What was learnt, and new rows as the kernels take them."""

    def predict_map(self, X: Any) -> Array:
        """Class probabilities at the latents' means, which leave their variances out.

        RW06 call this the MAP prediction. For two classes and a symmetric likelihood its most
        probable class is that of `predict_proba`, and its probabilities are too sure. For more
        classes, or another threshold than one half, the decisions differ as well.

        Returns
        -------
        P : ndarray of shape (m, C)

        References
        ----------
        RW06 section 3.4.2, Figure 3.9, section 3.5.2 and exercise 3.10.3.

        Examples
        --------
        >>> from sklearn.gaussian_process.kernels import RBF
        >>> from gpclass import GaussianProcessClassifier
        >>> model = GaussianProcessClassifier(9.0 * RBF(1.0), optimizer=None)
        >>> model = model.fit([[0.0], [1.0]], [0, 1])
        >>> model.predict_map([[1.5]]).round(2), model.predict_proba([[1.5]]).round(2)
        (array([[0.02, 0.98]]), array([[0.19, 0.81]]))
        """
        return map_probabilities(*self._at(X))

    def predictive_entropy(self, X: Any) -> Array:
        """Entropy of the class of each row in nats, shape (m,): large where the class is in doubt.

        It is large between classes, however much is known there: see `bald`.
        """
        return entropy(class_probabilities(*self._at(X), self.temperature_))

    def bald(self, X: Any, n_draws: int = 128) -> Array:
        """Information that the label of each row has about the latents, in nats, shape (m,).

        The predictive entropy less what remains where the latents are known,
        ``H(E[p(y | f)]) - E[H(p(y | f))]``: large where the model does not know, and not where
        classes overlap. Label the row of the largest value next. Where the hyperparameters are
        averaged over, it counts what the label says of them too. Of several binary models the
        latents are independent, and p(y | f) is what the decomposition makes of their labels'
        probabilities given the latents; averages over hyperparameters are then one Gaussian
        each. The temperature is not part of it.

        Parameters
        ----------
        X : as for `predict_proba`
        n_draws : int, default=128
            Points of a Sobol sequence that latents of more than two classes are averaged over, a
            power of two from 2 on. Two classes are integrated to 1e-9.

        Raises
        ------
        ValueError
            For Monte Carlo, and another number of draws.

        References
        ----------
        N. Houlsby, F. Huszár, Z. Ghahramani & M. Lengyel, *Bayesian active learning for
        classification and preference learning*, 2011.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.gaussian_process.kernels import RBF
        >>> from gpclass import GaussianProcessClassifier
        >>> X = np.array([[0.0], [0.1], [0.2], [0.3]])
        >>> model = GaussianProcessClassifier(4.0 * RBF(1.0), optimizer=None)
        >>> model = model.fit(X, [0, 1, 0, 1])
        >>> model.predictive_entropy([[0.15], [5.0]]).round(2)
        array([0.69, 0.69])
        >>> model.bald([[0.15], [5.0]]).round(2)
        array([0.1 , 0.37])
        """
        whole = isinstance(n_draws, numbers.Integral) and not isinstance(n_draws, bool)
        if not whole or n_draws < 2 or n_draws & (n_draws - 1):
            raise ValueError(f"n_draws must be a power of two from 2 on, got {n_draws!r}")
        return information_about_latent(*self._at(X), int(n_draws))

    def predict_proba_gradient(self, X: Any) -> Array:
        """Derivatives of the class probabilities by the columns of X.

        Returns
        -------
        gradient : ndarray of shape (m, C, d)
            In the units of X; they sum to zero over the classes.

        Raises
        ------
        ValueError
            For Monte Carlo, for columns that are not of numbers, and for a kernel other than those
            of `gpclass.kernels.input_pullback`.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.gaussian_process.kernels import RBF
        >>> from gpclass import GaussianProcessClassifier
        >>> model = GaussianProcessClassifier(4.0 * RBF(1.0), optimizer=None)
        >>> model = model.fit([[0.0], [1.0]], [0, 1])
        >>> model.predict_proba_gradient([[0.5]]).round(3)
        array([[[-0.495],
                [ 0.495]]])
        """
        at = self._at(X)
        slopes = probability_slopes(*at)
        if self.temperature_ != 1.0:
            log_p = class_log_probabilities(*at, 1.0)
            slopes = tempered_slopes(log_p, slopes, self.temperature_)
        return in_units_of_the_table(self._inputs, slopes)
