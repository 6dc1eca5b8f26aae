"""Class probabilities of KG06's latent differences."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpclass.likelihoods import Likelihood, Logit, NoisyThreshold, Probit
from gpclass.likelihoods.probabilities.flows import Flows, argmax_flows, softmax_flows
from gpclass.likelihoods.probabilities.gaussian import argmax_probabilities, softmax_probabilities

Array = NDArray[np.float64]

# Why another likelihood has no class probabilities.
NO_CLASSES: Final = (
    "{!r} has no probabilities of more than two classes: they must have its terms as their "
    "pairwise probabilities; take the probit, the logit or the noisy threshold, of which such are "
    "known, or multi_class='one_vs_rest', which works with any likelihood"
)

# Variance of the noise of each class under which Phi(f_y - f_j) is the probability that class y
# is ahead of class j: the noise of a difference then has variance one.
PROBIT_NOISE: Final = 0.5


def difference_probabilities(mean: Array, covariance: Array, likelihood: Likelihood) -> Array:
    """Class probabilities under the Gaussian posterior of the latents (KG06 eq. 50).

    The terms of inference say how one class compares with one other. Their product, summed over
    the classes that a row may have, is not one. The class probabilities here sum to one, have
    these terms as their pairwise probabilities, and are the binary prediction for two classes:

    - noisy threshold: the largest latent, read off without error or not,
      ``((1 - 2 eps) P(f_c largest) + eps) / (1 + (C - 2) eps)``. The numerator is KG06's term of
      a row; the denominator is its sum over the classes. With ``eps = 0`` it is their eq. 50, the
      probability that all differences of a class are positive under the Gaussian of eq. 51.
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
        For another likelihood and more than two classes.

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


def difference_flows(mean: Array, covariance: Array, likelihood: Likelihood) -> Flows:
    """Flows of `difference_probabilities` of more than two classes; raises as it does."""
    if isinstance(likelihood, Probit):
        return argmax_flows(mean, covariance, noise=PROBIT_NOISE)
    if isinstance(likelihood, Logit):
        return softmax_flows(mean, covariance)
    if isinstance(likelihood, NoisyThreshold):
        epsilon, n_classes = likelihood.epsilon, mean.shape[1]
        factor = (1.0 - 2.0 * epsilon) / (1.0 + (n_classes - 2) * epsilon)
        return argmax_flows(mean, covariance, noise=0.0).times(factor)
    raise TypeError(NO_CLASSES.format(likelihood))
