"""Problems of many classes for Monte Carlo: checked, and Gaussians near their posteriors."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpclass.inference.ep import EP
from gpclass.inference.nested import NestedApproximation, nested_ep
from gpclass.inference.sites import Sites
from gpclass.inference.softmax import SoftmaxApproximation
from gpclass.likelihoods.classes import ClassLikelihood
from gpclass.montecarlo.class_gaussian import ClassGaussian, ClassTerms, unstacked
from gpclass.montecarlo.problem import Problem
from gpclass.priors.classes import ClassPrior, ClassSites

Array = NDArray[np.float64]

ClassStart = ClassSites | NestedApproximation | SoftmaxApproximation
ClassCovariance = ClassPrior | ArrayLike | Sequence[ArrayLike]


def as_class_prior(K: ClassCovariance, codes: ArrayLike) -> ClassPrior:
    """Prior of the classes 0 to the largest code; a `ClassPrior` says their number itself.

    Raises
    ------
    ValueError
        For shapes that are not those of one matrix or one a class.
    """
    if isinstance(K, ClassPrior):
        return K
    labels = np.asarray(codes)
    n_classes = int(labels.max(initial=0)) + 1
    given = np.asarray(K, dtype=np.float64)
    if given.ndim == 2:
        return ClassPrior(np.ascontiguousarray(given), n_classes)
    if given.ndim != 3:
        raise ValueError(
            f"K must be one (n, n) matrix or one a class, got an array of shape {given.shape}"
        )
    return ClassPrior([np.ascontiguousarray(k) for k in given], len(given))


def make_class_problem(
    class_prior: ClassPrior,
    codes: ArrayLike,
    likelihood: ClassLikelihood,
    weights: ArrayLike | None,
) -> Problem:
    """Check the arguments and factorise the prior; latent values are stacked class by class.

    Raises
    ------
    ValueError
        For codes or weights that do not belong to the prior.
    NotPositiveDefiniteError
        Where a covariance is not positive semi-definite.
    """
    n, C = class_prior.n, class_prior.n_classes
    labels = np.asarray(codes)
    if labels.shape != (n,) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"y must be {n} integers, the codes of the classes from 0, got shape {labels.shape} of "
            f"{labels.dtype}"
        )
    if n and not (labels.min() >= 0 and labels.max() < C):
        raise ValueError(f"y must lie in 0 to {C - 1}, got {labels.min()} to {labels.max()}")
    powers = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if powers.shape != (n,) or not np.isfinite(powers).all() or (powers < 0.0).any():
        raise ValueError(
            f"weights must be {n} finite non-negative numbers, got shape {powers.shape}"
        )

    def log_likelihood(f: Array) -> Array:
        log_p = likelihood.log_prob(labels, unstacked(f, C).transpose(2, 0, 1))
        return np.asarray(np.einsum("i,ri->r", powers, log_p))

    return Problem(ClassGaussian.prior(class_prior), labels, powers, log_likelihood)


def class_terms_of(
    start: ClassStart | None, class_prior: ClassPrior, name: str
) -> ClassTerms | None:
    """Sites of a Gaussian approximation of many classes.

    Raises
    ------
    TypeError
        For anything else, naming the argument.
    ValueError
        For another number of rows or classes.
    """
    if isinstance(start, NestedApproximation):
        start = start.class_sites
    elif isinstance(start, SoftmaxApproximation):
        start = start.sites
    if start is None:
        return None
    if not isinstance(start, ClassSites):
        raise TypeError(
            f"{name} must be ClassSites or an approximation of nested_ep or SoftmaxLaplace, got "
            f"{start!r} of type {type(start).__name__}"
        )
    expected = (class_prior.n, class_prior.n_classes)
    if start.b.shape != expected:
        raise ValueError(f"{name} must have sites of shape {expected}, got {start.b.shape}")
    return ClassTerms.of(start)


def nested_ep_sites(
    K: ClassCovariance,
    y: ArrayLike,
    likelihood: ClassLikelihood,
    *,
    weights: ArrayLike | None = None,
) -> ClassSites:
    """Sites of nested EP for a likelihood of many classes: a good Gaussian to begin Monte Carlo at.

    Any likelihood is taken for the multinomial probit at ``f / likelihood.probit_scale``; where it
    is another the Gaussian is near the posterior all the same, nearer than Laplace's.

    Parameters
    ----------
    K : ClassPrior, array-like of shape (n, n), or sequence of C such arrays
        Prior covariance, of all classes or of each.
    y : array-like of shape (n,)
        Codes of the classes, from 0.
    likelihood : ClassLikelihood
    weights : array-like of shape (n,), default=None
        Powers of the rows' terms, in the sense of `nested_ep`.

    Returns
    -------
    ClassSites

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.likelihoods.classes import SoftmaxLikelihood
    >>> nested_ep_sites(np.eye(2), [0, 2], SoftmaxLikelihood()).b.shape
    (2, 3)
    """
    class_prior = as_class_prior(K, y)
    found = nested_ep(_scaled(class_prior, likelihood), y, weights=weights)
    return _rescaled(found, likelihood)


def tempered_class_sites(
    class_prior: ClassPrior,
    problem: Problem,
    likelihood: ClassLikelihood,
    powers: Array,
    tol: float,
) -> list[tuple[float, ClassTerms]]:
    """Sites for the likelihood at inverse temperatures; those of nested EP suffice for moves."""
    scaled, method = _scaled(class_prior, likelihood), EP(tol=tol)
    init: Sites | None = None
    found = []
    for power in powers:
        near = nested_ep(
            scaled, problem.y, method, weights=float(power) * problem.weights, init=init
        )
        init = near.sites
        found.append((float(power), ClassTerms.of(_rescaled(near, likelihood))))
    return found


def _scaled(class_prior: ClassPrior, likelihood: ClassLikelihood) -> ClassPrior:
    """Prior of ``f / s``."""
    factor = likelihood.probit_scale**-2
    if factor == 1.0:
        return class_prior
    if class_prior.shared:
        K: Array | list[Array] = factor * class_prior.covariances[0]
    else:
        K = [factor * k for k in class_prior.covariances]
    return ClassPrior(K, class_prior.n_classes, class_prior.description)


def _rescaled(found: NestedApproximation, likelihood: ClassLikelihood) -> ClassSites:
    """Sites in f of sites in ``f / s``."""
    s = likelihood.probit_scale
    return ClassSites(found.class_sites.b / s, found.class_sites.d / s**2)
