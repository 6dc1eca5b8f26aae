"""A coarse model of the variances, which leads an iteration on between its factorisations."""

from typing import Final, NamedTuple, Protocol, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.solvers.acceleration import extrapolate
from gpclass.inference.solvers.newton import EPS, Mode, NewtonSearch
from gpclass.inference.solvers.rule import SiteRule, Sweep

Array = NDArray[np.float64]

NEWTON_STEPS: Final = 60
# Points that an extrapolation combines.
MEMORY: Final = 8
# A coarse model leads below this residual: its features are chosen for sites near the end.
COARSE_FROM: Final = 0.3
# Above this one a coarse model may answer with few digits.
FEW_DIGITS_FROM: Final = 5e-5
# Part of the residual that a renewal by a coarse model must undercut.
COARSE_LEAVES: Final = 0.25
COARSE_STEPS: Final = 6
# Part of the first step, in the logarithms of the variances, at which a coarse model is solved.
COARSE_GOAL: Final = 0.03
# A model that misses a variance by more than this, in logarithms, misses its changes too.
COARSE_MISSES: Final = 0.9
# Largest factor by which a coarse model may move a variance.
LARGEST_MOVE: Final = 10.0


class CoarseModel(Protocol):
    """Marginal variances by a cheap model, whose changes with the sites are nearly right."""

    def variances(self, tau: Array, *, few_digits: bool) -> Array:
        """Marginal variances beside site precisions, both of shape (n,).

        Of few digits, where these are enough and cost less.

        Raises
        ------
        NotPositiveDefiniteError
            Where rounding drowns the model.
        """


@runtime_checkable
class CoarselyKnown(Protocol):
    """A factor with a coarse model of its variances."""

    def coarse(self) -> CoarseModel | None:
        """Model for site precisions near the factor's; None where there is none worth its cost."""


class Renewal(NamedTuple):
    """Variances to try, the mode that the search for them came upon, and what it took."""

    v: Array
    mode: Mode
    n_factorisations: int


@final
class Guide:
    """A coarse model in the place of most factorisations, while it leads on.

    The model's changes are added to the variances that were found exactly, and the fixed point of
    that sum is sought. What the model misses of the response is left to the next exact sweep, so
    that every factor reduces the residual by as much as the model is accurate.
    """

    def __init__(self, rule: SiteRule) -> None:
        self._rule = rule
        self._model: CoarseModel | None = None
        self._trusted = True
        self._few = True
        self._before = np.inf
        # logarithms of variances that were tried, and what the model answers to their sites
        self._tried: list[Array] = []
        self._answers: list[Array] = []

    def renew(self, sweep: Sweep) -> Renewal | None:
        """Variances that the model asks for; None where it does not lead on."""
        if not self._trusted or sweep.residual > COARSE_FROM:
            return None
        if sweep.residual > COARSE_LEAVES * self._before:
            self._trusted = False
            return None
        self._before = sweep.residual
        try:
            found = self._solve(sweep)
        except NotPositiveDefiniteError:
            found = None
        self._trusted = found is not None
        return found

    def _solve(self, sweep: Sweep) -> Renewal | None:
        rule = self._rule
        tau = sweep.posterior.sites.tau
        if self._model is None and isinstance(sweep.posterior.factor, CoarselyKnown):
            self._model = sweep.posterior.factor.coarse()
        if self._model is None:
            return None
        few = sweep.residual > FEW_DIGITS_FROM
        if not few and self._few:
            # what few digits answered is no base for more
            self._tried.clear()
            self._answers.clear()
        self._few = few
        base = self._variances(self._model, tau)
        if not np.abs(np.log(base / sweep.v)).max(initial=0.0) <= COARSE_MISSES:
            return None
        v, first, last = sweep.v, 0.0, np.inf
        if self._tried:
            # the exact sweep is one more point; those before hold about its variances too
            self._answers.append(base)
            first = last = self._gap(sweep, base)
            v = self._extrapolated(sweep, base)
        mode, made = None, 0
        for _ in range(COARSE_STEPS):
            mode = means_of(rule, v, sweep, sweep.residual, mode)
            made += mode.n_factorisations
            self._tried.append(np.log(v))
            self._answers.append(self._variances(self._model, rule.sites(mode.state).tau))
            gap = self._gap(sweep, base)
            if not gap < last:
                return None
            v = self._extrapolated(sweep, base)
            # the next gap will be less than this one by about the same factor again
            rate = gap / last if np.isfinite(last) else 1.0
            first, last = max(first, gap), gap
            if rate * gap <= COARSE_GOAL * first:
                break
        assert mode is not None
        del self._tried[: 1 - MEMORY], self._answers[: 1 - MEMORY]
        self._tried.append(np.log(v))
        return Renewal(v, mode, made)

    def _found(self, sweep: Sweep, base: Array, answer: Array) -> Array:
        """Logarithms of the sweep's variances, moved by what the model says."""
        moved = sweep.v + answer - base
        return np.log(np.clip(moved, sweep.v / LARGEST_MOVE, sweep.v * LARGEST_MOVE))

    def _gap(self, sweep: Sweep, base: Array) -> float:
        found = self._found(sweep, base, self._answers[-1])
        return float(np.abs(found - self._tried[-1]).max(initial=0.0))

    def _extrapolated(self, sweep: Sweep, base: Array) -> Array:
        found = [self._found(sweep, base, answer) for answer in self._answers[-MEMORY:]]
        return np.asarray(np.exp(extrapolate(self._tried[-MEMORY:], found)))

    def _variances(self, model: CoarseModel, tau: Array) -> Array:
        """Variances of the model that sites depend on: see `Sweep.v`."""
        variance = model.variances(tau, few_digits=self._few)
        count = self._rule.copies_taken_out
        if count is None:
            return variance
        return np.asarray(variance / np.maximum(1.0 - tau / count * variance, EPS))


def means_of(rule: SiteRule, v: Array, sweep: Sweep, tol: float, near: Mode | None) -> Mode:
    """Means that belong to variances v, from those of a mode nearby, or else of a sweep."""
    search = NewtonSearch(rule.prior, rule.terms(v), tol, NEWTON_STEPS)
    posterior = sweep.posterior
    if near is not None:
        return search.run(search.at(near.state.a, near.state.f), near.factor)
    if np.any(posterior.sites.tau):
        start = search.at(posterior.mean_weights, posterior.mean, rule.hint(sweep, v))
        return search.run(start, posterior.factor)
    zero = np.zeros(rule.prior.n)
    return search.run(search.at(zero, zero), None)
