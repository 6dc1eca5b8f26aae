"""What every Monte Carlo function is called with, checked and made ready to draw from."""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpclass.inference.approximation import Approximation
from gpclass.inference.method import as_problem, initial_sites
from gpclass.inference.sites import Sites
from gpclass.likelihoods.base import Likelihood
from gpclass.montecarlo.class_gaussian import ClassGaussian, ClassTerms
from gpclass.montecarlo.gaussian import LatentGaussian
from gpclass.montecarlo.slice_step import LogLikelihood
from gpclass.priors import Prior

Array = NDArray[np.float64]

RandomState = int | np.random.Generator | np.random.RandomState | None
Progress = bool | Callable[[int, int], object] | None


class Problem(NamedTuple):
    """A prior to draw from, labels, powers of their likelihood terms, and their sum of logs.

    Latent values are about the prior's own mean, which ``log_likelihood`` adds. Those of many
    classes are stacked class by class, and y has the codes of the classes.
    """

    prior: LatentGaussian | ClassGaussian
    y: NDArray[Any]
    weights: Array
    log_likelihood: LogLikelihood

    @property
    def no_sites(self) -> Sites | ClassTerms:
        """Sites that say nothing."""
        if isinstance(self.prior, ClassGaussian):
            return ClassTerms(())
        return Sites(np.zeros(self.prior.n), np.zeros(self.prior.n))

    def beside(self, sites: Sites | ClassTerms) -> LatentGaussian:
        """Multiply the prior by sites of its kind; see there.

        Raises
        ------
        TypeError
            For sites of the other kind.
        """
        if isinstance(self.prior, ClassGaussian) and isinstance(sites, ClassTerms):
            return self.prior.beside(sites)
        if isinstance(self.prior, LatentGaussian) and isinstance(sites, Sites):
            return self.prior.beside(sites)
        raise TypeError(f"sites of type {type(sites).__name__} do not belong to this prior")


def make_problem(
    K: Prior | ArrayLike, y: ArrayLike, likelihood: Likelihood, weights: ArrayLike | None
) -> Problem:
    """Check the arguments and factorise the prior.

    Raises
    ------
    ValueError, TypeError, NotPositiveDefiniteError
        As in `as_problem` and `LatentGaussian.prior`.
    """
    checked = as_problem(K, y, weights)
    column, offset = checked.y[:, None], checked.offset[:, None]
    shifted = bool(offset.any())

    def log_likelihood(f: Array) -> Array:
        log_p = likelihood.log_prob(column, f + offset if shifted else f)
        return np.asarray(np.einsum("i,ij->j", checked.weights, log_p))

    return Problem(LatentGaussian.prior(checked.prior), checked.y, checked.weights, log_likelihood)


def sites_of(init: Approximation | Sites | None, n: int, name: str) -> Sites | None:
    """Sites of a Gaussian approximation.

    Raises
    ------
    TypeError
        For anything else, naming the argument.
    ValueError
        For another number of sites.
    """
    if init is not None and not isinstance(init, (Approximation, Sites)):
        raise TypeError(
            f"{name} must be an Approximation or Sites, got {init!r} of type {type(init).__name__}"
        )
    return initial_sites(init, n)


def generator(random_state: RandomState) -> np.random.Generator:
    """Make numpy's generator of a seed or of scikit-learn's kind of state.

    A `RandomState` gives the seed, so that calls after one another differ.
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=4, dtype=np.uint32))
    return np.random.default_rng(random_state)


def check_counts(**counts: int) -> None:
    """Refuse numbers that are not whole, or under 1 (under 0 for ``n_burn``).

    Raises
    ------
    ValueError
        Naming the argument.
    """
    for name, value in counts.items():
        least = 0 if name == "n_burn" else 1
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


class Reporter:
    """Tell how far a run is: to a callable ``progress(done, total)``, or as a line on stderr.

    Parameters
    ----------
    progress : bool, callable or None
        True: a line on stderr; False or None: nothing.
    total : int
        Steps in all.
    label : str
        What the line begins with.
    """

    def __init__(self, progress: Progress, total: int, label: str) -> None:
        self.progress = progress
        self.total = total
        self.label = label
        self.done = 0

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
