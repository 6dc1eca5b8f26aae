"""The dense prior of many classes' latent functions, and the posterior given coupled sites."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from gpclass import linalg
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.kernels import KernelList, cross, diagonal, pullback
from gpclass.linalg import Array
from gpclass.priors.base import Preconditioner
from gpclass.priors.coupled import CoupledFactor, as_crosses
from gpclass.priors.dense import DensePrior, jittered
from gpclass.priors.joint import JointFactor, JointPrior, JointPriorForm
from gpclass.priors.rows import without_own_sites


@final
@dataclass(frozen=True)
class ClassPrior(JointPrior):
    """Independent zero-mean Gaussian processes, one a class, as in RW06 section 3.5.

    Parameters
    ----------
    K : ndarray of shape (n, n), or sequence of n_classes such arrays
        Covariance that all classes share and that is held once, or the covariance of each.
    n_classes : int
        Number of classes C.
    description : object, default="K"
        What K came from, printed in error messages: the kernel, as the user wrote it.

    Examples
    --------
    >>> import numpy as np
    >>> prior = ClassPrior(np.array([[2.0, 1.0], [1.0, 2.0]]), 3)
    >>> prior.multiply(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]))
    array([[2., 1., 3.],
           [1., 2., 3.]])
    """

    K: Array | Sequence[Array]
    n_classes: int
    description: object = field(default="K", compare=False)

    def __post_init__(self) -> None:
        if self.n_classes < 2:
            raise ValueError(f"n_classes must be at least 2, got {self.n_classes}")
        if not self.shared and len(self.K) != self.n_classes:
            raise ValueError(
                f"K must be one matrix, or one for each of the {self.n_classes} classes, got "
                f"{len(self.K)}"
            )
        sizes = {p.n for p in self.priors}
        if len(sizes) != 1:
            raise ValueError(f"the classes' matrices must have one size, got {sorted(sizes)}")

    @property
    def shared(self) -> bool:
        """Whether all classes have the same covariance."""
        return isinstance(self.K, np.ndarray) and self.K.ndim == 2

    @cached_property
    def priors(self) -> tuple[DensePrior, ...]:
        """The prior of each class; one object repeated where it is shared."""
        if self.shared:
            K = np.ascontiguousarray(self.K, dtype=np.float64)
            return (DensePrior(K, self.description),) * self.n_classes
        return tuple(
            DensePrior(np.ascontiguousarray(K, dtype=np.float64), f"{self.description}, class {c}")
            for c, K in enumerate(self.K)
        )

    @cached_property
    def covariances(self) -> tuple[Array, ...]:
        """Covariance matrix of each class; one array repeated where it is shared."""
        return tuple(p.K for p in self.priors)

    @property
    def held(self) -> Array | tuple[Array, ...]:
        """The one covariance that all classes share, else that of each."""
        return self.covariances[0] if self.shared else self.covariances

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.priors[0].n

    @cached_property
    def diagonal(self) -> Array:
        """Prior variances, shape (n, C)."""
        return np.stack([p.diagonal for p in self.priors], axis=1)

    def check(self) -> None:
        """Refuse covariances that are indefinite beyond rounding; see `DensePrior.check`."""
        for prior in self.priors[:1] if self.shared else self.priors:
            prior.check()

    def multiply(self, F: Array) -> Array:
        """``K_c f_c`` for every column f_c of F, shape (n, C)."""
        if self.shared:
            return linalg.product(self.covariances[0], np.ascontiguousarray(F))
        columns = [
            linalg.symmetric_product(K, f) for K, f in zip(self.covariances, F.T, strict=True)
        ]
        return np.stack(columns, axis=1)

    def factor(self, d: Array) -> CoupledFactor:
        """Factorise, given sites of precision ``diag(d_i) - d_i d_i^T / sum(d_i)``."""
        if d.shape != (self.n, self.n_classes):
            raise ValueError(f"d must have shape {(self.n, self.n_classes)}, got {d.shape}")
        if not (np.isfinite(d).all() and (d >= 0).all()):
            raise ValueError("d must be finite and not negative")
        try:
            return CoupledFactor.of(self.covariances, d)
        except NotPositiveDefiniteError as error:
            self.check()
            raise NotPositiveDefiniteError(
                f"the kernel {self.description} is too badly conditioned with these sites "
                f"({error}); add a WhiteKernel to it, or bound its variance"
            ) from error

    def preconditioner(self, omega: Array) -> Preconditioner | None:
        """``(K^-1 + diag(omega))^-1`` where the classes share K: one factor, not C + 1.

        With ``B = I + S K S``, ``S = diag(omega)^1/2``: ``Z = (I + S^2 K)^-1 R`` and
        ``K Z = (R - Z) / omega``.
        """
        if not self.shared:
            return None
        root = np.sqrt(omega)
        B = linalg.scale_rows_and_columns(self.covariances[0], root)
        B.flat[:: self.n + 1] += 1.0
        inverse = linalg.invert_factored_in_place(linalg.cholesky(B, "I + S K S"))
        linalg.mirror_lower(inverse)

        def apply(R: Array) -> tuple[Array, Array]:
            Z = root[:, None] * linalg.product(inverse, R / root[:, None])
            return Z, (R - Z) / omega[:, None]

        return apply


@final
@dataclass(frozen=True)
class ClassSites:
    """Sites ``exp(b_i^T f_i - f_i^T W_i f_i / 2)``, one a row, in the C latents of that row.

    Parameters
    ----------
    b : ndarray of shape (n, C)
        First natural parameter; every row sums to zero.
    d : ndarray of shape (n, C)
        ``W_i = diag(d_i) - d_i d_i^T / sum(d_i)``, not negative; for the softmax d are the
        probabilities (RW06 eq. 3.38).
    """

    b: Array
    d: Array

    def __post_init__(self) -> None:
        if self.b.shape != self.d.shape or self.b.ndim != 2:
            raise ValueError(
                f"b and d must be matrices of one shape, got {self.b.shape} and {self.d.shape}"
            )

    def __len__(self) -> int:
        return len(self.b)


@final
@dataclass(frozen=True)
class ClassPosterior:
    """The Gaussian ``q(f) ∝ p(f) prod_i site_i`` over the latents of all classes.

    ``factor`` is that of the prior given the sites' precisions. ``mean_weights`` and ``mean`` of
    shape (n, C) are ``a_c = K_c^-1 m_c`` and m_c: the mean at new inputs is ``k_c^T a_c``.

    Examples
    --------
    >>> import numpy as np
    >>> sites = ClassSites(np.array([[2.0, -1.0, -1.0], [0.0, 0.0, 0.0]]), np.ones((2, 3)))
    >>> ClassPosterior.from_sites(ClassPrior(np.eye(2), 3), sites).mean
    array([[ 1. , -0.5, -0.5],
           [ 0. ,  0. ,  0. ]])
    """

    sites: ClassSites
    factor: JointFactor
    mean_weights: Array
    mean: Array

    @classmethod
    def from_sites(cls, prior: JointPrior, sites: ClassSites) -> "ClassPosterior":
        """Condition the prior on the sites: ``a = (I + W K)^-1 b``."""
        factor = prior.factor(sites.d)
        a = factor.solve(sites.b)
        return cls(sites, factor, a, prior.multiply(a))

    def log_partition(self) -> float:
        """``log int p(f) prod_i site_i df = (sum b . m - log |I + W K|) / 2``."""
        return 0.5 * (float((self.sites.b * self.mean).sum()) - self.factor.log_det)

    def pullback(self) -> Any:
        """Cotangent of `log_partition`, as the prior's form takes it."""
        return self.factor.pullback(self.mean_weights)

    def leave_one_out(self, count: Array) -> tuple[Array, Array]:
        """Means (n, C) and covariances (n, C, C) of each row's latents without its own site.

        A row's site is that of ``count`` copies (n,), of which one goes.
        """
        d = self.sites.d
        total = np.where(d.any(axis=1), d.sum(axis=1), 1.0)
        W = d[:, :, None] * (np.eye(d.shape[1]) - (d / total[:, None])[:, None, :])
        b, W = self.sites.b / count[:, None], W / count[:, None, None]
        return without_own_sites(self.mean, self.factor.marginals(), b, W)

    def predict(self, K_cross: Array | Sequence[Array], k_diag: Array) -> tuple[Array, Array]:
        """Latent mean, (m, C), and covariance, (m, C, C), of the classes at m new inputs.

        RW06 Algorithm 3.4; see `JointFactor.predict`. A row's bits depend on that row alone.
        """
        crosses = as_crosses(K_cross, self.mean.shape[1])
        return self._mean(crosses)[: len(k_diag)], self.factor.predict(crosses, k_diag)

    def joint(
        self, K_cross: Array | Sequence[Array], K_new: Array | Sequence[Array]
    ) -> tuple[Array, Array]:
        """Latent mean, (m, C), and covariance, (m, C, m, C), of all values; see `JointFactor`."""
        covariance = self.factor.joint(K_cross, K_new)
        crosses = as_crosses(K_cross, self.mean.shape[1])
        return self._mean(crosses)[: len(covariance)], covariance

    def _mean(self, crosses: Sequence[Array]) -> Array:
        # einsum sums in one order whatever m is; see SitePosterior.predict
        means = [
            np.einsum("ij,i->j", cross, a)
            for cross, a in zip(crosses, self.mean_weights.T, strict=True)
        ]
        return np.stack(means, axis=1)


@final
@dataclass(frozen=True)
class DenseClasses(JointPriorForm):
    """Whole covariance matrices in memory: one that the classes share, or one a class."""

    def make(
        self, kernels: Sequence[Kernel], n_classes: int, X: Any, jitters: Sequence[float]
    ) -> ClassPrior:
        """`ClassPrior` of the kernels at the inputs X."""
        covariances = [jittered(k, X, jitter) for k, jitter in zip(kernels, jitters, strict=True)]
        if len(kernels) == 1:
            return ClassPrior(covariances[0], n_classes, kernels[0])
        return ClassPrior(covariances, n_classes, KernelList(kernels))

    def pull(self, kernels: Sequence[Kernel], X: Any, prior: ClassPrior, G: Array) -> Array:
        """Gradient by the theta of each kernel in turn."""
        each = G[None] if G.ndim == 2 else G
        known = prior.covariances[: len(each)]
        parts = [
            pullback(kernel, X, cotangent, K=K)
            for kernel, cotangent, K in zip(kernels, each, known, strict=True)
        ]
        return np.concatenate(parts)

    def cross(self, kernels: Sequence[Kernel], X: Any, X_new: Any) -> tuple[Any, Array]:
        """Covariances with the training inputs and variances: of all classes, or of each."""
        crosses = [cross(kernel, X, X_new) for kernel in kernels]
        variances = [diagonal(kernel, X_new, X) for kernel in kernels]
        if len(crosses) == 1:
            return crosses[0], variances[0]
        return crosses, np.stack(variances, axis=1)
