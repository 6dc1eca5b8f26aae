"""What every Monte Carlo function is called with, checked and made ready to draw from."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpclass.inference.approximation import Approximation
from gpclass.inference.method import as_problem
from gpclass.inference.nested import NestedApproximation
from gpclass.inference.sites import Sites
from gpclass.inference.softmax import SoftmaxApproximation
from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.classes import ClassLikelihood
from gpclass.linalg import Array
from gpclass.montecarlo.gaussian import LatentGaussian, Proposal, SiteTerms
from gpclass.priors import Prior
from gpclass.priors.base import as_weights
from gpclass.priors.classes import ClassPrior, ClassSites

Covariance = Prior | ClassPrior | ArrayLike | Sequence[ArrayLike]
Start = Approximation | NestedApproximation | SoftmaxApproximation | Sites | ClassSites
RandomState = int | np.random.Generator | np.random.RandomState | None
Progress = bool | Callable[[int, int], object] | None


@final
@dataclass(frozen=True)
class LatentProblem:
    """A prior to draw from, labels, powers of their likelihood terms, and the sum of their logs.

    ``prior`` is ``covariance`` factorised. y of shape (n,) has -1 and +1, or codes of classes;
    ``n_functions`` is 1 for two classes, else their number C. ``log_likelihood`` takes f of shape
    (C n, R), about the prior's own mean, which it adds, to ``sum_i w_i log p(y_i | f_i)``, (R,).
    """

    covariance: Prior | ClassPrior
    prior: LatentGaussian
    y: NDArray[Any]
    weights: Array
    n_functions: int
    log_likelihood: Callable[[Array], Array]

    def by_function(self, f: Array) -> Array:
        """Stacked values (C n, ...) as (n, C, ...), or (n, ...) for one latent function."""
        if self.n_functions == 1:
            return f
        each = f.reshape(self.n_functions, -1, *f.shape[1:])
        return np.ascontiguousarray(np.moveaxis(each, 0, 1))

    def proposal(self, terms: SiteTerms | None, power: float = 1.0) -> Proposal:
        """The prior given terms; None: the prior itself."""
        if terms is None:
            return Proposal(self.prior, SiteTerms.none(len(self.y), self.n_functions), power)
        return Proposal(self.prior.given(terms), terms, power)


def make_problem(
    K: Any,
    y: ArrayLike,
    likelihood: Likelihood | ClassLikelihood,
    weights: ArrayLike | None,
) -> LatentProblem:
    """Check the arguments and factorise the prior; a `ClassLikelihood` makes it one of classes."""
    if isinstance(likelihood, ClassLikelihood):
        return _class_problem(as_class_prior(K, y), y, likelihood, weights)
    given, data = as_problem(K, y, likelihood, weights)
    labels, offset = data.y[:, None], data.offset[:, None]
    shifted = bool(offset.any())

    def log_likelihood(f: Array) -> Array:
        log_p = likelihood.log_prob(labels, f + offset if shifted else f)
        return np.asarray(np.einsum("i,ij->j", data.weights, log_p))

    prior = LatentGaussian.prior(given)
    return LatentProblem(given, prior, data.y, data.weights, 1, log_likelihood)


def as_class_prior(K: Any, codes: ArrayLike) -> ClassPrior:
    """Prior of the classes 0 to the largest code; a `ClassPrior` says their number itself."""
    if isinstance(K, ClassPrior):
        return K
    given = np.asarray(K, dtype=np.float64)
    if given.ndim == 2:
        n_classes = int(np.asarray(codes).max(initial=0)) + 1
        return ClassPrior(np.ascontiguousarray(given), n_classes)
    if given.ndim != 3:
        raise ValueError(
            f"K must be one (n, n) matrix or one a class, got an array of shape {given.shape}"
        )
    return ClassPrior([np.ascontiguousarray(k) for k in given], len(given))


def _class_problem(
    class_prior: ClassPrior, y: ArrayLike, likelihood: ClassLikelihood, weights: ArrayLike | None
) -> LatentProblem:
    n, C, labels = class_prior.n, class_prior.n_classes, np.asarray(y)
    if labels.shape != (n,) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"y must be {n} integers, the codes of the classes from 0, got shape {labels.shape} of "
            f"{labels.dtype}"
        )
    if n and not (labels.min() >= 0 and labels.max() < C):
        raise ValueError(f"y must lie in 0 to {C - 1}, got {labels.min()} to {labels.max()}")
    powers = as_weights(weights, n)

    def log_likelihood(f: Array) -> Array:
        log_p = likelihood.log_prob(labels, f.reshape(C, n, -1).transpose(2, 1, 0))
        return np.asarray(np.einsum("i,ri->r", powers, log_p))

    prior = LatentGaussian.prior(class_prior)
    return LatentProblem(class_prior, prior, labels, powers, C, log_likelihood)


def terms_of(start: Start | None, problem: LatentProblem, name: str) -> SiteTerms | None:
    """Terms of a Gaussian approximation's sites; ``name`` is the argument's, for messages."""
    sites = start
    if isinstance(start, NestedApproximation):
        sites = start.class_sites
    elif isinstance(start, (Approximation, SoftmaxApproximation)):
        sites = start.sites
    if sites is None:
        return None
    expected, wanted = (
        (Sites, "an Approximation or Sites")
        if problem.n_functions == 1
        else (ClassSites, "ClassSites or an approximation of nested_ep or SoftmaxLaplace")
    )
    if not isinstance(sites, expected):
        raise TypeError(f"{name} must be {wanted}, got {start!r} of type {type(start).__name__}")
    terms = SiteTerms.of(sites)
    shape = (len(problem.y), problem.n_functions)
    if terms.b.shape != shape:
        raise ValueError(
            f"{name} must have sites of {shape[0]} rows and {shape[1]} latent functions, got "
            f"{terms.b.shape}"
        )
    return terms


def generator(random_state: RandomState) -> np.random.Generator:
    """Numpy's generator of a seed or of scikit-learn's kind of state, which it advances."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=4, dtype=np.uint32))
    return np.random.default_rng(random_state)


def check_counts(**counts: int) -> None:
    """Refuse numbers that are not whole, or under 1 (under 0 for ``n_burn``)."""
    for name, value in counts.items():
        least = 0 if name == "n_burn" else 1
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


@final
@dataclass
class Reporter:
    """Report how far a run is: to a callable ``progress(done, total)``, or as a line on stderr."""

    progress: Progress
    total: int
    label: str
    done: int = 0

    def step(self) -> None:
        """Count one step; a line is renewed about a hundred times in all."""
        self.done += 1
        if callable(self.progress):
            self.progress(self.done, self.total)
        elif self.progress:
            last = self.done == self.total
            if last or self.done % max(1, self.total // 100) == 0:
                line = f"\r{self.label}: {100 * self.done // self.total} %"
                print(line, end="\n" if last else "", file=sys.stderr, flush=True)
