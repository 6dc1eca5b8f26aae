"""Latent differences: many classes as one binary problem in ``f_y - f_j`` (KG06 section 4)."""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from gpclass import linalg
from gpclass.inference import Approximation, InferenceMethod, SitePosterior
from gpclass.inference.approximation import FromBinary, described
from gpclass.inference.cavities import ROUNDING
from gpclass.inference.sites import Sites
from gpclass.likelihoods import Likelihood
from gpclass.linalg import Array
from gpclass.priors import DensePrior
from gpclass.priors.base import as_weights
from gpclass.priors.dense import DenseFactor
from gpclass.priors.differences import Covariances, Differences, one_a_class
from gpclass.priors.joint import Codes
from gpclass.priors.rows import without_own_sites


@final
@dataclass(frozen=True)
class DifferencePosterior:
    """Posterior of the latents of all classes, given a Gaussian posterior of their N differences.

    The differences say nothing about what all classes have in common; there the prior stays.
    ``shared`` says whether the classes have one K.

    Examples
    --------
    >>> import numpy as np
    >>> K, codes = np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([0, 2])
    >>> sites = Sites(np.ones(4), np.ones(4))
    >>> posterior = DifferencePosterior.from_sites(K, codes, 3, sites)
    >>> mean, covariance = posterior.predict(K, np.ones(2))
    >>> mean.round(3)
    array([[ 0.444, -0.333, -0.111],
           [-0.111, -0.333,  0.444]])
    """

    differences: Differences
    posterior: SitePosterior
    shared: bool = True

    @classmethod
    def from_sites(
        cls,
        K: Covariances,
        codes: Codes,
        n_classes: int,
        sites: Sites,
        *,
        description: object = "K",
    ) -> "DifferencePosterior":
        """Condition the prior of the differences on N sites, of precisions of any sign.

        Raises ValueError for wrong shapes, NotPositiveDefiniteError for an improper posterior.
        """
        differences = Differences(codes, n_classes)
        if len(sites) != differences.size:
            raise ValueError(f"{differences.size} sites are needed, got {len(sites)}")
        prior = DensePrior(differences.covariance(K), description)
        shared = isinstance(K, np.ndarray) and K.ndim == 2
        return cls(differences, SitePosterior.from_sites(prior, sites), shared)

    def log_partition(self) -> float:
        """Log partition function of the differences' posterior."""
        return self.posterior.log_partition()

    def pullback(self) -> Array:
        """Cotangent of `log_partition` by K: (n, n) where the classes share K, else (C, n, n)."""
        return self.differences.pullback(self.posterior.pullback(), shared=self.shared)

    @property
    def sites(self) -> Sites:
        """The Gaussian sites of the differences."""
        return self.posterior.sites

    @cached_property
    def mean_weights(self) -> Array:
        """``a`` of shape (n, C): the mean of ``f_c`` at new inputs is ``K_cross_c^T a_c``.

        KG06's ``g^{m,l}`` (eq. 52) is the mean of class m less that of class l. So most wins (eq.
        53) and one reference class (eq. 54) both choose the largest mean's class, but for ties.
        """
        return self.differences.adjoint(self.posterior.mean_weights)

    def leave_one_out(self, count: Array) -> tuple[Array, Array]:
        """Means (n, C) and covariances (n, C, C) of each row's latents without its own sites.

        A row's sites are those of ``count`` copies (n,), of which one goes. Of the differences
        alone, with the latent of the row's own class in the place of zero. NaN for a row without
        which the posterior is not proper.
        """
        posterior, others = self.posterior, self.differences.others
        n, k = others.shape
        sequential = posterior.factor.sequential_covariance()
        parts = (slice(i * k, (i + 1) * k) for i in range(n))
        blocks = np.stack([sequential.rows(part)[:, part] for part in parts])
        nu, tau = (
            a.reshape(n, k) / count[:, None] for a in (posterior.sites.nu, posterior.sites.tau)
        )
        slack = np.inf if (tau >= 0.0).all() else ROUNDING
        g, spread = without_own_sites(
            posterior.mean.reshape(n, k), blocks, nu, tau[:, :, None] * np.eye(k), slack
        )
        mean, covariance = np.zeros((n, k + 1)), np.zeros((n, k + 1, k + 1))
        rows = np.arange(n)[:, None]
        mean[rows, others] = -g
        covariance[rows[:, :, None], others[:, :, None], others[:, None, :]] = spread
        return mean, covariance

    def predict(self, K_cross: Covariances, k_diag: Array) -> tuple[Array, Array]:
        """Latent means, shape (m, C), and covariances, shape (m, C, C), at m new inputs.

        ``K_cross`` is the prior covariance of training and new inputs, shape (n, m), or C of them;
        ``k_diag`` has the prior variances of the new inputs, shape (m,) or (m, C). A row's bits do
        not depend on the other rows. A variance that rounding made negative is 0.

        Raises ValueError for wrong shapes.

        References
        ----------
        KG06 eq. 51, with the latents in the place of their differences:
        ``Cov(f_*) = k_** - V^T R V`` with the (N, C) cross covariances V of a row.
        """
        C = self.differences.n_classes
        blocks = one_a_class(K_cross, C, self.differences.n)
        m = blocks[0].shape[1]
        if k_diag.shape not in ((m,), (m, C)):
            raise ValueError(f"k_diag must have shape {(m,)} or {(m, C)}, got {k_diag.shape}")
        mean, covariance = np.empty((m, C)), np.zeros((m, C, C))
        diagonal = np.arange(C)
        covariance[:, diagonal, diagonal] = k_diag if k_diag.ndim == 2 else k_diag[:, None]
        # as much memory as the factor, at most
        width = max(linalg.TILE, self.differences.size // C // linalg.TILE * linalg.TILE)
        for start in range(0, m, width):
            part = slice(start, min(start + width, m))
            self._predict_chunk([K[:, part] for K in blocks], mean[part], covariance[part])
        covariance[:, diagonal, diagonal] = np.maximum(covariance[:, diagonal, diagonal], 0.0)
        return mean, covariance

    def _predict_chunk(self, blocks: list[Array], mean: Array, covariance: Array) -> None:
        m, C = len(mean), len(blocks)
        # whole tiles: see linalg.TILE
        width = m + -m % linalg.TILE
        V = np.empty((self.differences.size, C * width))
        weights = self.mean_weights
        for c, K in enumerate(blocks):
            padded = np.zeros((len(K), width))
            padded[:, :m] = K
            # einsum without optimisation sums in one order whatever m is
            mean[:, c] = np.einsum("ij,i->j", padded, weights[:, c])[:m]
            self.differences.cross_covariance(padded, c, V[:, c * width : (c + 1) * width])
        n_positive = self._half_solve(V)
        for c in range(C):
            left = V[:, c * width : (c + 1) * width]
            for d in range(c + 1):
                right = V[:, d * width : (d + 1) * width]
                taken = np.einsum("ij,ij->j", left[:n_positive], right[:n_positive])
                taken -= np.einsum("ij,ij->j", left[n_positive:], right[n_positive:])
                covariance[:, c, d] -= taken[:m]
                if d < c:
                    covariance[:, d, c] -= taken[:m]

    def joint(self, K_cross: Covariances, K_new: Covariances) -> tuple[Array, Array]:
        """Latent means (m, C), and covariances (m, C, m, C) of all values at m new inputs."""
        C = self.differences.n_classes
        blocks = one_a_class(K_cross, C, self.differences.n)
        m = blocks[0].shape[1]
        V = np.empty((self.differences.size, m, C))
        covariance = np.zeros((m, C, m, C))
        for c, (K, new) in enumerate(zip(blocks, one_a_class(K_new, C, m), strict=True)):
            self.differences.cross_covariance(K, c, V[:, :, c])
            covariance[:, c, :, c] = new
        total = self.posterior.factor.conditional_covariance(
            V.reshape(len(V), m * C), covariance.reshape(m * C, m * C)
        )
        weights = self.mean_weights
        mean = np.stack([weights[:, c] @ K for c, K in enumerate(blocks)], axis=1)
        return mean, total.reshape(m, C, m, C)

    def _half_solve(self, V: Array) -> int:
        """Overwrite V by W with ``V^T R V = W_+^T W_+ - W_-^T W_-``; return the rows of W_+."""
        factor = self.posterior.factor
        if not isinstance(factor, DenseFactor):
            raise TypeError(f"the differences need a DensePrior, got a {type(factor).__name__}")
        V *= np.sqrt(np.abs(factor.tau))[:, None]
        return factor.scaled.half_solve_in_place(V)


@final
@dataclass(frozen=True)
class DifferenceApproximation(FromBinary):
    """A binary method's approximation of the N differences, all of label +1.

    ``log_evidence`` approximates ``log E[prod_i prod_{j != y_i} t(g_ij)]`` under the prior. For
    more than two classes a row's product, summed over the classes that it might have, is not one:
    this compares hyperparameters of the kernel, but not this model with others.

    Parameters
    ----------
    binary : Approximation
        Of the differences ``f_y - f_j``, N = n (C - 1) of them (KG06 eq. 41 to 43).
    differences : Differences
        How they are made of the latents of the classes.
    shared : bool
        Whether the classes share one covariance.
    """

    __repr__ = described

    binary: Approximation
    differences: Differences
    shared: bool

    @cached_property
    def posterior(self) -> DifferencePosterior:
        """Posterior of the latents of the classes."""
        return DifferencePosterior(self.differences, self.binary.posterior, self.shared)

    def evidence_pullback(self) -> Array:
        """``d log_evidence / dK``, shape (n, n) for one K, else (C, n, n)."""
        G = self.binary.evidence_pullback()
        return self.differences.pullback(G, shared=self.shared)


def latent_differences(
    K: Covariances,
    codes: Codes,
    n_classes: int,
    method: InferenceMethod,
    likelihood: Likelihood,
    *,
    weights: ArrayLike | None = None,
    init: DifferenceApproximation | Sites | None = None,
    description: object = "K",
) -> DifferenceApproximation:
    """Run a binary method on the latent differences of many classes.

    Each difference ``g_ij = f_{y_i}(x_i) - f_j(x_i)`` has the term ``p(+1 | g_ij)``. The cost is
    that of the method with ``N = n (C - 1)`` rows: N^3 time and N^2 memory.

    ``K`` is one (n, n) covariance for all classes, or C of them; ``codes`` has the classes of the
    rows, shape (n,). A row's weight is that of all its C - 1 terms: 2 is the row given twice.
    ``description`` names K in error messages.

    Raises
    ------
    ValueError
        For codes, covariances, weights or sites of wrong shapes.
    NotPositiveDefiniteError
        Where a K is not positive semi-definite.

    References
    ----------
    KG06 eq. 47 to 49. Their noisy term of a row, ``(1 - 2 eps) prod_j H(g_ij) + eps``, is no
    product over j; here each factor has its own noise.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.inference import EP
    >>> from gpclass.likelihoods import Probit
    >>> q = latent_differences(np.eye(3), np.array([0, 1, 2]), 3, EP(), Probit())
    >>> q.evidence_pullback().shape, q.converged
    ((3, 3), True)
    """
    differences = Differences(codes, n_classes)
    prior = DensePrior(differences.covariance(K), description)
    if weights is not None:
        weights = np.repeat(as_weights(weights, differences.n), n_classes - 1)
    start = init.sites if isinstance(init, DifferenceApproximation) else init
    y = np.ones(differences.size)
    approximation = method(prior, y, likelihood, weights=weights, init=start)
    shared = isinstance(K, np.ndarray) and K.ndim == 2
    return DifferenceApproximation(approximation, differences, shared)
