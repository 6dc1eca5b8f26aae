"""Gaussian posteriors of the latents of each row without the row's own site."""

import numpy as np

from gpclass.linalg import EPS, Array, eigen_batch, root_batch


def without_own_sites(
    mean: Array, covariance: Array, b: Array, W: Array, slack: float = np.inf
) -> tuple[Array, Array]:
    """Divide each row's Gaussian by its own site ``exp(b^T f - f^T W f / 2)``.

    With ``Sigma = H H^T`` the covariance is ``H (I - H^T W H)^-1 H^T``.

    Parameters
    ----------
    mean, b : ndarray of shape (n, k)
    covariance, W : ndarray of shape (n, k, k)
    slack : float, default=inf
        How far rounding may bring an eigenvalue of ``I - H^T W H`` below zero.

    Returns
    -------
    mean, covariance : ndarray of shape (n, k) and (n, k, k)
        NaN for a row without which the posterior is not proper.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.ones((1, 1))
    >>> mean, variance = without_own_sites(0.5 * one, 0.5 * one[None], one, one[None])
    >>> mean.round(9) + 0.0, variance
    (array([[0.]]), array([[[1.]]]))
    """
    H = root_batch(covariance)
    values, vectors = eigen_batch(H.transpose(0, 2, 1) @ W @ H)
    left = 1.0 - values
    left = np.where((left <= 0.0) & (left > -slack), EPS, left)
    left = np.where(left > 0.0, left, np.nan)
    H = H @ vectors
    wide = (H / left[:, None, :]) @ H.transpose(0, 2, 1)
    push = b - np.einsum("icd,id->ic", W, mean)
    return mean - np.einsum("icd,id->ic", wide, push), wide
