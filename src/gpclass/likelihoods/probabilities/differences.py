"""Classes from the latents of KG06's differences: probabilities, and two label-only schemes."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpclass.likelihoods import Likelihood, Logit, NoisyThreshold, Probit
from gpclass.likelihoods.probabilities.gaussian import argmax_probabilities, softmax_probabilities

# Why another likelihood has no class probabilities.
NO_CLASSES: Final = (
    "the terms of {!r} are not known to be pairwise probabilities of more than two classes: take "
    "the probit, the logit or the noisy threshold, or multi_class='one_vs_rest'"
)

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

# Variance of the noise of each class under which Phi(f_y - f_j) is the probability that class y
# is ahead of class j: the noise of a difference then has variance one.
PROBIT_NOISE: Final = 0.5


def labels_by_wins(mean: Array) -> Codes:
    """Class whose mean is above that of the most others (KG06 eq. 52 and 53).

    Parameters
    ----------
    mean : ndarray of shape (m, C)
        Latent means, as `DifferencePosterior` returns them.

    Returns
    -------
    ndarray of shape (m,)
        The first of those that tie.

    Notes
    -----
    Eq. 52 is a difference of means, so wins are transitive and the winner is the class of the
    largest mean: it wins against all others unless means are equal bit for bit. KG06's case that
    no class has J - 1 wins is that tie.

    Examples
    --------
    >>> import numpy as np
    >>> labels_by_wins(np.array([[0.1, 0.3, -0.2]]))
    array([1])
    """
    wins = (mean[:, :, None] > mean[:, None, :]).sum(axis=2)
    return np.asarray(np.argmax(wins, axis=1))


def labels_by_reference(mean: Array, reference: int = 0) -> Codes:
    """Class by its differences with one reference class alone (KG06 eq. 54).

    Parameters
    ----------
    mean : ndarray of shape (m, C)
        Latent means, as `DifferencePosterior` returns them.
    reference : int, default=0
        KG06's ``j*``.

    Returns
    -------
    ndarray of shape (m,)
        The reference where all its differences are positive, else the class of the least.

    Notes
    -----
    The same labels as `labels_by_wins` whatever the reference is, but for exact ties.

    Examples
    --------
    >>> import numpy as np
    >>> labels_by_reference(np.array([[0.1, 0.3, -0.2], [0.5, 0.3, -0.2]]))
    array([1, 0])
    """
    g = mean[:, [reference]] - mean
    g[:, reference] = np.inf
    least = np.argmin(g, axis=1)
    return np.where(g.min(axis=1) > 0.0, reference, least)


def difference_probabilities(mean: Array, covariance: Array, likelihood: Likelihood) -> Array:
    """Class probabilities under the Gaussian posterior of the latents (KG06 eq. 50 and 51).

    The product of terms that inference uses is no distribution over the classes: its sum over
    them is not one. Each term is the probability of one class against one other. The distribution
    over all classes is, for each likelihood, one that has these terms as its pairwise
    probabilities, and that is the binary prediction for two classes:

    - noisy threshold: the largest latent, read off without error or not,
      ``((1 - 2 eps) P(f_c largest) + eps) / (1 + (C - 2) eps)``. The numerator is KG06's term of a
      row; they leave out the denominator, which is its sum over the classes. With ``eps = 0`` it
      is their eq. 50, an orthant probability of the differences.
    - probit: ``P(f_c + u_c largest)`` with ``u ~ N(0, I / 2)``, since
      ``Phi(f_c - f_d) = P(f_c + u_c > f_d + u_d)``: eq. 50 with latent noise, which is how KG06
      have the probit (after their eq. 14).
    - logit: ``E[exp(f_c) / sum_d exp(f_d)]``, eq. 44, since ``sigma(f_c - f_d)`` is the
      probability of c given that it is c or d.

    Parameters
    ----------
    mean : ndarray of shape (m, C)
    covariance : ndarray of shape (m, C, C)
    likelihood : Likelihood
        Probit, logit or noisy threshold; for two classes any.

    Returns
    -------
    P : ndarray of shape (m, C)
        Rows sum to one.

    Raises
    ------
    TypeError
        For another likelihood and more than two classes: it has no such distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.likelihoods import Probit
    >>> difference_probabilities(np.zeros((1, 2)), np.eye(2)[None], Probit())
    array([[0.5, 0.5]])
    """
    n_classes = mean.shape[1]
    if n_classes == 2:
        variance = covariance[:, 0, 0] + covariance[:, 1, 1] - 2.0 * covariance[:, 1, 0]
        g, variance = mean[:, 1] - mean[:, 0], np.maximum(variance, 0.0)
        return np.stack(
            [likelihood.predict_proba(-g, variance), likelihood.predict_proba(g, variance)], axis=1
        )
    if isinstance(likelihood, Probit):
        return argmax_probabilities(mean, covariance, noise=PROBIT_NOISE)
    if isinstance(likelihood, Logit):
        return softmax_probabilities(mean, covariance)
    if isinstance(likelihood, NoisyThreshold):
        epsilon = likelihood.epsilon
        largest = argmax_probabilities(mean, covariance, noise=0.0)
        total = 1.0 + (n_classes - 2) * epsilon
        return np.asarray(((1.0 - 2.0 * epsilon) * largest + epsilon) / total)
    raise TypeError(NO_CLASSES.format(likelihood))
