"""The fixed point that EP, PL and variational inference share, in the variances of the rows.

A parallel sweep computes all marginals from one factor, and then all sites. Most sweeps serve the
means, which need no new factor. Here, between two factorisations, the variances that the sites
depend on stay as they are and the means are solved for to the end, by the Newton iteration that
Laplace's method uses too. What is left is a fixed point in the variances, and it contracts fast.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference.acceleration import extrapolate
from gpclass.inference.approximation import Outcome, SitePosterior
from gpclass.inference.newton import EPS, TINY, Mode, NewtonSearch
from gpclass.inference.response import newton_steps
from gpclass.inference.rule import End, SiteRule, Sweep, noise_of_merit, rounding_of_sites
from gpclass.sites import Sites

Array = NDArray[np.float64]

NEWTON_STEPS: Final = 60
# Factorisations without progress after which rounding is taken for the reason, where it can be.
PATIENCE: Final = 6
# Least fraction of a step, in the logarithms of the variances.
SMALLEST_STEP: Final = 1.0 / 16.0
# Newton's method takes over below this residual.
NEWTON_FROM: Final = 0.1
# Renewals that an accelerated one combines, where Newton's method cannot be had.
MEMORY: Final = 8
# A coarse model leads below this residual: its features are chosen for sites near the end.
COARSE_FROM: Final = 0.3
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

    def variances(self, tau: Array) -> Array:
        """Marginal variances beside site precisions, both of shape (n,).

        Raises
        ------
        NotPositiveDefiniteError
            Where rounding drowns the model.
        """


@runtime_checkable
class CoarselyKnown(Protocol):
    """A prior with a coarse model of its variances."""

    def coarse(self, tau: Array) -> CoarseModel | None:
        """Model for site precisions near ``tau``; None where there is none worth its cost."""


class _Renewal(NamedTuple):
    """Variances to try, the mode that the search for them came upon, and what it took."""

    v: Array
    mode: Mode
    n_factorisations: int


@final
class _Guide:
    """A coarse model in the place of most factorisations, while it leads on.

    The model's changes are added to the variances that were found exactly, and the fixed point of
    that sum is sought. What the model misses of the response is left to the next exact sweep, so
    that every factor reduces the residual by as much as the model is accurate.
    """

    def __init__(self, rule: SiteRule) -> None:
        self._rule = rule
        self._model: CoarseModel | None = None
        self._trusted = isinstance(rule.prior, CoarselyKnown)
        self._before = np.inf
        # logarithms of variances that were tried, and what the model answers to their sites
        self._tried: list[Array] = []
        self._answers: list[Array] = []

    def renew(self, sweep: Sweep) -> _Renewal | None:
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

    def _solve(self, sweep: Sweep) -> _Renewal | None:
        rule = self._rule
        tau = sweep.posterior.sites.tau
        if self._model is None:
            assert isinstance(rule.prior, CoarselyKnown)
            self._model = rule.prior.coarse(tau)
        if self._model is None:
            return None
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
        return _Renewal(v, mode, made)

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
        variance = model.variances(tau)
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


@final
class _History:
    """Variances that were tried and found, for Anderson's acceleration of their renewal."""

    def __init__(self) -> None:
        self._tried: list[Array] = []
        self._found: list[Array] = []

    def following(self, sweep: Sweep, last: float, damping: float) -> Array:
        """Variances to try after a sweep; plainly renewed, and damped, where residuals grow.

        ``last`` is the residual of the sweep before.
        """
        found = np.log(np.maximum(sweep.v, TINY))
        if sweep.residual > last:
            # what was combined misled: begin anew, from the last variances
            self._found.clear()
            del self._tried[:-1]
            following = (
                found if not self._tried else found + (1 - damping) * (self._tried[-1] - found)
            )
            self._tried.clear()
        elif self._tried:
            self._found.append(found)
            following = extrapolate(self._tried[-MEMORY:], self._found[-MEMORY:])
        else:
            following = found
        self._tried.append(following)
        return np.asarray(np.exp(following))


@final
@dataclass(frozen=True)
class VarianceIteration:
    """Renewal of the variances until the sites match.

    Parameters
    ----------
    rule : SiteRule
    tol : float
        `Sweep.residual` at which the sites count as matched.
    max_iter : int
        Renewals.
    """

    rule: SiteRule
    tol: float
    max_iter: int

    def run(self, sites: Sites) -> End:
        """Iterate from sites."""
        rule = self.rule
        sweep = rule.sweep(SitePosterior.from_sites(rule.prior, sites))
        if not np.isfinite(sweep.residual):
            # rounding, under a covariance that these sites do not belong to
            nothing = Sites(np.zeros(rule.prior.n), np.zeros(rule.prior.n))
            sweep = rule.sweep(SitePosterior.from_sites(rule.prior, nothing))
        n_factorisations, n_iter, outcome = 1, 0, Outcome.MAX_ITER
        best, v, damping, since_best = sweep, sweep.v, 1.0, 0
        last = tried = np.inf
        history, guide = _History(), _Guide(rule)
        while True:
            n_iter += 1
            # Below tol one more factorisation is worth its price while it still gains a digit.
            stuck = sweep.residual > 0.1 * last or not sweep.posterior.factor.forms_covariance
            if sweep.residual <= 0.1 * self.tol or (sweep.residual <= self.tol and stuck):
                return End(sweep, Outcome.CONVERGED, n_iter, n_factorisations)
            rounding = rounding_of_sites(rule.prior, best.posterior.sites)
            if since_best > PATIENCE and best.residual <= rounding:
                outcome = Outcome.ROUNDING
                break
            if n_iter == self.max_iter:
                break
            if sweep.residual < min(NEWTON_FROM, 0.1 * tried):
                tried = sweep.residual
                sweep, made = newton_steps(rule, sweep, 0.1 * self.tol)
                n_factorisations += made
                if sweep.residual < tried:
                    best, last, v = sweep, tried, sweep.v
                    if sweep.residual <= self.tol:
                        continue
            if sweep.residual > last:
                damping = max(0.5 * damping, SMALLEST_STEP)
            elif sweep.residual < 0.9 * last:
                damping = min(2.0 * damping, 1.0)
            sweep.posterior.factor.release()
            try:
                near = None
                if sweep.posterior.factor.forms_covariance:
                    v = sweep.v if damping == 1.0 else v * (sweep.v / v) ** damping
                elif (guided := guide.renew(sweep)) is not None:
                    v, near, made = guided
                    n_factorisations += made
                else:
                    v = history.following(sweep, last, damping)
                posterior, made = self._solve_means(v, sweep, near)
                n_factorisations += made
                following = rule.sweep(posterior)
            except NotPositiveDefiniteError:
                # overflow, or sites of negative precision: the prior itself was factorised before
                outcome = Outcome.STALLED
                break
            noise = noise_of_merit(rule.prior, sweep)
            if not np.isfinite(following.residual) or following.merit < sweep.merit - noise:
                outcome = Outcome.STALLED
                break
            last, sweep = sweep.residual, following
            since_best = 0 if sweep.residual < 0.5 * best.residual else since_best + 1
            if sweep.residual < best.residual:
                best = sweep
            elif best.posterior.factor is not sweep.posterior.factor:
                best.posterior.factor.release()
        if best.residual <= self.tol:
            outcome = Outcome.CONVERGED
        return End(best, outcome, n_iter, n_factorisations)

    def _solve_means(self, v: Array, sweep: Sweep, near: Mode | None) -> tuple[SitePosterior, int]:
        """Posterior whose means belong to the variances v, and the factorisations made."""
        rule = self.rule
        # what the variances are still off by need not be undercut by far
        goal = max(1e-2 * self.tol, min(1e-3, 1e-2 * sweep.residual))
        mode = means_of(rule, v, sweep, goal, near)
        # conditioning on the new sites is one more Newton step, by a factor that is needed anyway
        posterior = SitePosterior.from_sites(rule.prior, rule.sites(mode.state))
        return posterior, mode.n_factorisations + 1
