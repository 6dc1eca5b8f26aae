"""A variational Gaussian of the softmax, which starts at that of Laplace's method."""

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from gpclass import linalg
from gpclass.inference.solvers.softmax_mode import (
    SoftmaxDerivatives,
    SoftmaxMode,
    precision_product,
)
from gpclass.likelihoods.probabilities.contrasts import canonical_order
from gpclass.likelihoods.probabilities.points import normals
from gpclass.linalg import Array
from gpclass.priors.classes import ClassPosterior, ClassSites
from gpclass.priors.joint import Codes, JointPrior

# Elements of the (rows, C, points) arrays worked on together: 8 MB each.
CHUNK: Final = 1_000_000
# Least precision of a class, so that each has a site.
LEAST: Final = 1e-12
# Steps to the precisions, each of which halves what is left for a row that is not nearly certain.
MATCHING: Final = 30


@final
@dataclass(frozen=True)
class SoftmaxVariational:
    """A variational Gaussian of the softmax, from the Gaussian of Laplace's method.

    The Gaussian ``N(m, Sigma)`` that is nearest to the posterior in the Kullback-Leibler divergence
    KL(q || p) has ``K^-1 m = w (e_y - E[pi])`` and ``Sigma^-1 = K^-1 + W``, where Laplace's method
    has pi and W at the mode and this has their averages over a row's own marginal. Here m solves
    its equation, and W keeps the softmax's form ``W_i = diag(d_i) - d_i d_i^T / sum(d_i)``, whose
    factor is linear in C, with the diagonal of the average. Means (given the marginals'
    covariances) and covariances take turns.

    Laplace's Gaussian sits at the mode, and the posterior has most of its mass farther from zero,
    where W is smaller: on labels drawn from a model of signal deviation 1, 3 and 10 and three
    classes, the divergence of its class probabilities from the truth is .0005, .024 and .16, and
    that of these .0001, .0002 and .002.

    Parameters
    ----------
    max_turns : int, default=4
        Largest number of turns.
    tol : float, default=0.01
        Change of the marginal variances, in units of themselves, that ends the turns.
    damping : float, default=0.7
        Part of the way to the new covariances.
    n_points : int, default=256
        Points of the averages, a power of two.
    mode_tol : float, default=1e-5
        As `SoftmaxLaplace.tol`, of the equation of the means.
    max_iter : int, default=100
        Newton steps of a turn.

    References
    ----------
    Opper & Archambeau, *The variational Gaussian approximation revisited*, 2009, eq. 10 to 13.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.inference.softmax import SoftmaxLaplace
    >>> from gpclass.priors.classes import ClassPrior
    >>> prior, codes = ClassPrior(100.0 * np.eye(3), 3), np.array([0, 1, 2])
    >>> laplace = SoftmaxLaplace()(prior, codes).posterior
    >>> laplace.mean[0].round(1)
    array([ 2.8, -1.4, -1.4])
    >>> SoftmaxVariational()(prior, codes, np.ones(3), laplace).mean[0].round(1)
    array([ 8.6, -4.3, -4.3])
    """

    max_turns: int = 4
    tol: float = 0.01
    damping: float = 0.7
    n_points: int = 256
    mode_tol: float = 1e-5
    max_iter: int = 100

    def __call__(
        self, prior: JointPrior, codes: Codes, weights: Array, start: ClassPosterior
    ) -> ClassPosterior:
        """Take turns from the Gaussian ``start`` of the same prior, codes (n,) and weights (n,)."""
        found, S = start, start.factor.marginals()
        for _ in range(self.max_turns):
            found = self._means(prior, codes, weights, S, found)
            step = found.factor.marginals() - S
            variances = np.einsum("icc->ic", S)
            if np.all(np.abs(np.einsum("icc->ic", step)) <= self.tol * variances):
                break
            S = S + self.damping * step
        return found

    def _means(
        self, prior: JointPrior, codes: Codes, weights: Array, S: Array, nearby: ClassPosterior
    ) -> ClassPosterior:
        """Posterior whose means solve their equation at the marginals' covariances S (n, C, C)."""
        Z = normals(S.shape[1], 0, self.n_points)
        root = canonical_root(nearby.mean, S)

        def terms(F: Array) -> SoftmaxDerivatives:
            return averaged_terms(F, root, Z, codes, weights)

        mode = SoftmaxMode(prior, codes, weights, self.mode_tol, self.max_iter, terms)
        point, factor, *_ = mode.run(nearby.sites)
        b = precision_product(point.terms.d, point.F) + point.terms.first
        return ClassPosterior(ClassSites(b, point.terms.d), factor, point.A, point.F)


def canonical_root(mean: Array, S: Array) -> Array:
    """R with ``R R^T = S``, (n, C, C), whose columns do not depend on the order of the classes."""
    order, _ = canonical_order(mean, S)
    rows = np.arange(len(S))[:, None]
    ordered = S[rows[:, :, None], order[:, :, None], order[:, None, :]]
    root = np.empty_like(S)
    root[rows, order] = linalg.root_batch(ordered)
    return root


def averaged_terms(
    F: Array, root: Array, Z: Array, codes: Codes, weights: Array
) -> SoftmaxDerivatives:
    """`softmax_terms` averaged over latents ``N(f_i, R_i R_i^T)``, d as in `SoftmaxVariational`.

    ``root`` (n, C, C) has R, and the columns of ``Z`` (C, points) are normal points.
    """
    n, C = F.shape
    log_p, pi, squares = np.empty(n), np.empty((n, C)), np.empty((n, C))
    for part in linalg.blocks(n, max(1, CHUNK // (C * Z.shape[1]))):
        P = np.matmul(root[part], Z)
        P += F[part, :, None]
        P -= P.max(axis=1, keepdims=True)
        own = P[np.arange(len(P)), codes[part]].mean(axis=1)
        np.exp(P, out=P)
        norm = P.sum(axis=1)
        log_p[part] = own - np.log(norm).mean(axis=1)
        P /= norm[:, None]
        pi[part] = P.mean(axis=2)
        squares[part] = np.einsum("ics,ics->ic", P, P) / P.shape[2]
    rows = np.arange(n)
    first = -weights[:, None] * pi
    first[rows, codes] = 0.0
    first[rows, codes] = -first.sum(axis=1)
    d = softmax_form(np.maximum(pi - squares, LEAST))
    return SoftmaxDerivatives(float(weights @ log_p), first, weights[:, None] * d)


def softmax_form(v: Array) -> Array:
    """d, of the shape of v, with ``d_c (1 - d_c / sum(d)) = v_c``: `MATCHING` steps to there.

    Where v_c nears the sum of the other entries d_c grows without bound, and the steps stop first.
    """
    d = 2.0 * v
    for _ in range(MATCHING):
        left = 1.0 - d / d.sum(axis=1, keepdims=True)
        d = 0.5 * (d + v / np.maximum(left, LEAST))
    return d
