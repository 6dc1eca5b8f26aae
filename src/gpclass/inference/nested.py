"""The multinomial probit by nested EP: binary EP on the differences of a row's latents."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, final

import numpy as np
from numpy.typing import ArrayLike

from gpclass.inference import EP
from gpclass.inference.approximation import FromBinary, described
from gpclass.inference.cavities import copies_of
from gpclass.inference.ep import EPApproximation
from gpclass.inference.sites import Sites
from gpclass.likelihoods import Probit
from gpclass.linalg import Array
from gpclass.priors import DensePrior, Prior
from gpclass.priors.base import as_weights
from gpclass.priors.classes import ClassPosterior, ClassPrior, ClassSites
from gpclass.priors.differences import Differences
from gpclass.priors.joint import Codes, JointPrior, as_codes
from gpclass.priors.nested import NestedFactor, NestedPrior

# Latents up to which their one N x N covariance is quicker than C + 1 of n x n, and of up to three
# classes. EP then has Newton's method in all sites, and needs half of the sweeps.
FEW_LATENTS: Final = 300
FEW_OF_THREE: Final = 1000


@final
@dataclass(frozen=True)
class NestedApproximation(FromBinary):
    """Posterior of the multinomial probit by nested EP.

    Parameters
    ----------
    prior : NestedPrior
        Of the N = n (C - 1) latents ``f_y - f_j + u`` with the rows' shared noise u.
    binary : EPApproximation
        EP of these N latents, all of label +1.
    """

    __repr__ = described

    prior: NestedPrior
    binary: EPApproximation

    @cached_property
    def class_sites(self) -> ClassSites:
        """Sites in the classes' latents."""
        return self.prior.class_sites(self.sites.nu, self.sites.tau)

    @cached_property
    def posterior(self) -> ClassPosterior:
        """Posterior of the classes' latents; the factor is that of the binary posterior."""
        found, classes = self.binary.posterior, self.prior.class_prior
        if isinstance(found.factor, NestedFactor):
            factor = found.factor.of_classes()
        else:
            factor = classes.factor(self.class_sites.d)
        a = self.prior.gather(found.mean_weights)
        return ClassPosterior(self.class_sites, factor, a, classes.multiply(a))

    def evidence_pullback(self) -> Any:
        """``d log_evidence / dK``: (n, n) where the classes share K, else (C, n, n)."""
        G, classes = self.binary.evidence_pullback(), self.prior.class_prior
        if isinstance(self.binary.posterior.factor, NestedFactor):
            return G
        assert isinstance(classes, ClassPrior)
        return Differences(self.prior.codes, classes.n_classes).pullback(G, shared=classes.shared)


def nested_ep(
    prior: JointPrior,
    codes: ArrayLike,
    method: EP | None = None,
    weights: ArrayLike | None = None,
    init: NestedApproximation | Sites | None = None,
) -> NestedApproximation:
    """Multinomial probit by nested EP (Riihimäki, Jylänki & Vehtari, 2013).

    ``codes``, shape (n,), has the rows' classes from 0; ``method`` the settings of the binary EP. A
    weight w from one on is w copies of the row. One below acts as a power on each probit term
    under u: ``int N(u) prod_j Phi(u + f_y - f_j)^w du``, which is not the power of the likelihood.

    Raises
    ------
    ValueError
        For bad codes or weights, or sites of another length.
    NotPositiveDefiniteError
        Where K is not positive semi-definite.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.priors.classes import ClassPrior
    >>> q = nested_ep(ClassPrior(1e-12 * np.eye(2), 3), [0, 2])
    >>> q.converged, bool(abs(q.log_evidence - 2 * np.log(1 / 3)) < 0.01)
    (True, True)
    """
    counts = powers = None
    if weights is not None:
        given = as_weights(weights, prior.n)
        counts = copies_of(given)
        powers = np.repeat(given, prior.n_classes - 1)
    nested = NestedPrior(prior, as_codes(codes, prior.n, prior.n_classes), counts)
    method = EP() if method is None else method
    start = init.sites if isinstance(init, NestedApproximation) else init
    found = method(_quickest(nested), np.ones(nested.n), Probit(), weights=powers, init=start)
    return NestedApproximation(nested, found)


def _quickest(nested: NestedPrior) -> Prior:
    """The prior as one matrix where the latents are few and each row is given once."""
    classes = nested.class_prior
    once = nested.counts is None or bool((nested.counts == 1.0).all())
    few = FEW_LATENTS if classes.n_classes > 3 else FEW_OF_THREE
    if nested.n > few or not once or not isinstance(classes, ClassPrior):
        return nested
    return DensePrior(noisy_covariance(classes, nested.codes), classes.description)


def noisy_covariance(classes: ClassPrior, codes: Codes) -> Array:
    """Prior covariance of the latents ``f_y - f_j + u`` of rows that are given once, (N, N)."""
    K = Differences(codes, classes.n_classes).covariance(classes.held)
    others = classes.n_classes - 1
    rows = K.reshape(classes.n, others, classes.n, others)
    every = np.arange(classes.n)
    rows[every, :, every, :] += 1.0  # u, which a row's latents share
    return K
