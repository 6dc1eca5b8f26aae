"""Three classes with normal noise: their probabilities in closed form."""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, owens_t

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.likelihoods.probabilities.contrasts import ROUNDING

Array = NDArray[np.float64]

# Each pair of classes, and the third.
PAIRS: Final = ((0, 1, 2), (0, 2, 1), (1, 2, 0))

# Noise that latents without any are given, and what the means of classes in a tie are apart: their
# probabilities are then those of any small noise.
LEAST: Final = 1e-100
APART: Final = 1e-150


def largest_of_three(mean: Array, cov: Array) -> Array:
    """``P(z_c is the largest)`` for z ~ N(mean, cov), shapes (m, 3) and (m, 3, 3), to 1e-15.

    In the plane of the contrasts a class wins in a wedge, between the lines where it is level with
    one of the others. Of the line of c and j let h be the mean's distance, positive on the side of
    c, and q the mean's place along it, from the tip and positive where the third class is behind,
    both in deviations. Then

        ``P_c = sum_j (Phi(h_cj) / 2 - T(h_cj, q_cj / h_cj)) - [h_cj and h_ck differ in sign] / 2``

    and j has the same T with the other sign.

    Raises
    ------
    NotPositiveDefiniteError
        Where the contrasts have a negative variance that is no rounding.

    References
    ----------
    Owen (1956), Tables for computing bivariate normal probabilities, Ann. Math. Stat. 27, eq. 2.1.

    Examples
    --------
    >>> import numpy as np
    >>> largest_of_three(np.zeros((1, 3)), np.diag([1.0, 1.0, 4.0])[None]).round(4)
    array([[0.3012, 0.3012, 0.3976]])
    """
    P, ahead = np.zeros_like(mean), np.zeros(mean.shape, dtype=np.intp)
    size = np.diagonal(cov, axis1=1, axis2=2).max(axis=1)
    for c, j, k in PAIRS:
        d = mean[:, c] - mean[:, j] + APART * (j - c)
        other = mean[:, c] - mean[:, k] + APART * (k - c)
        by_j, by_k = cov[:, c] - cov[:, j], cov[:, c] - cov[:, k]
        v, w, u = by_j[:, c] - by_j[:, j], by_j[:, c] - by_j[:, k], by_k[:, c] - by_k[:, k]
        det = v * u - w * w
        if (det < -10.0 * ROUNDING * size * (v + u)).any():
            raise NotPositiveDefiniteError(
                "cov must be positive semi-definite, but the differences of three classes have a "
                f"covariance of determinant {det.min():.3g}."
            )
        v, w, det = np.maximum(v, 0.0) + 2.0 * LEAST, w + LEAST, np.maximum(det, 3.0 * LEAST**2)
        h = d / np.sqrt(v)
        q = (other * v - w * d) / np.sqrt(v * det)
        t = owens_t(h, q / np.where(h == 0.0, APART, h))
        P[:, c] += 0.5 * ndtr(h) - t
        P[:, j] += 0.5 * ndtr(-h) + t
        ahead[:, c] += h >= 0.0
        ahead[:, j] += h < 0.0
    return np.asarray(np.maximum(P - 0.5 * (ahead == 1), 0.0))
