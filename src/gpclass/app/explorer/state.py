"""What the page shows at one setting of its sliders; nothing here knows of the page."""

import time
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gpclass.app.explorer.subjects import Subject
from gpclass.decision.costs import ErrorRejectCurve, error_reject_curve
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference import METHODS, Outcome
from gpclass.inference.cavities import Cavities
from gpclass.inference.sites import Sites
from gpclass.kernels import cross
from gpclass.learning import BinaryProblem
from gpclass.likelihoods import get_likelihood
from gpclass.linalg import Array

# Points along each side of the evidence surface, and of the plane of the posterior mean.
SURFACE_POINTS: Final = 9
PLANE_POINTS: Final = 25
# Sliders of the surface's x and y: log l and log sigma_f where these are all (RW06 Figure 3.7).
PLACES: Final = (1, 0)


class Setting(NamedTuple):
    """Where the sliders are, and which method and likelihood are chosen."""

    values: tuple[float, ...]
    method: str
    likelihood: str

    @property
    def family(self) -> tuple[str, str]:
        """What has to be alike for the sites of one setting to start another."""
        return self.method, self.likelihood


@final
@dataclass(frozen=True, eq=False)
class Shown:
    """The answer to one setting.

    Parameters
    ----------
    log_evidence : float
        In nats, without a prior over hyperparameters.
    outcome : Outcome
    positive : ndarray of shape (m,)
        P(+1) of the test rows, or of each row given the others.
    labels : ndarray of shape (m,)
        Their labels, -1 and +1.
    problem : BinaryProblem
        At this setting.
    new_weights : ndarray of shape (r,)
        The posterior mean at new inputs is the covariance with the problem's points times these.
    sites : Sites
    seconds : float
        Wall-clock time that it took.
    """

    log_evidence: float
    outcome: Outcome
    positive: Array
    labels: Array
    problem: BinaryProblem
    new_weights: Array
    sites: Sites
    seconds: float

    @cached_property
    def of_label(self) -> Array:
        """Probability of the label that was observed, (m,)."""
        return np.where(self.labels > 0, self.positive, 1.0 - self.positive)

    @property
    def log_loss(self) -> float:
        """Mean of ``-log p(label)``, in nats."""
        with np.errstate(divide="ignore"):
            return float(-np.log(self.of_label).mean())

    @property
    def errors(self) -> int:
        """Rows whose more probable class is wrong."""
        return int(np.sum((self.positive > 0.5) != (self.labels > 0)))

    @property
    def curve(self) -> ErrorRejectCurve:
        """Error rate as the least certain rows are rejected."""
        return error_reject_curve(self.labels, self.positive, labels=[-1.0, 1.0])

    def least_certain(self, count: int) -> NDArray[np.intp]:
        """Rows whose probabilities are nearest to one half."""
        return np.argsort(np.abs(self.positive - 0.5), kind="stable")[:count]

    def plane(self, a: int, b: int) -> tuple[Array, Array, Array]:
        """Values of columns a and b, (k,), and the posterior mean, (k, k), others at the median."""
        X = self.problem.inputs
        x, y = (np.linspace(X[:, j].min(), X[:, j].max(), PLANE_POINTS) for j in (a, b))
        rows = np.tile(np.median(X, axis=0), (PLANE_POINTS**2, 1))
        rows[:, a], rows[:, b] = np.tile(x, PLANE_POINTS), np.repeat(y, PLANE_POINTS)
        mean = self.new_weights @ cross(self.problem.kernel, self.problem.points, rows)
        return x, y, mean.reshape(PLANE_POINTS, PLANE_POINTS)


class Surface(NamedTuple):
    """The evidence over two sliders; NaN where it cannot be evaluated.

    ``values`` (k, m) is by the values ``y`` (k,) of the second slider and ``x`` (m,) of the first.
    """

    places: tuple[int, int]
    x: Array
    y: Array
    values: Array


@final
class Explorer:
    """Answers settings of one subject, each from the sites of the one before of its family.

    Where the likelihood is not log-concave each starts at the prior, since the end could depend
    on the way. The server's threads take turns.

    Examples
    --------
    >>> from gpclass.app.explorer.state import Explorer, Setting
    >>> from gpclass.app.explorer.subjects import subject
    >>> shown = Explorer(subject("iris")).at(Setting((1.0, 0.7), "laplace", "probit"))
    >>> shown.errors, round(shown.log_evidence, 1)
    (6, -24.2)
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._lock = Lock()
        self._sites: dict[tuple[str, str], Sites] = {}
        self._last: tuple[Setting, Shown] | None = None

    def at(self, setting: Setting) -> Shown:
        """The answer to a setting; the last one is kept.

        ValueError for a method that cannot use the likelihood; NotPositiveDefiniteError where the
        kernel overflows, or the posterior without one of the rows is not proper.
        """
        with self._lock:
            if self._last is None or self._last[0] != setting:
                shown = self._computed(setting)
                self._last = (setting, shown)
                self._sites[setting.family] = shown.sites
            return self._last[1]

    def _problem(self, setting: Setting) -> BinaryProblem:
        """The problem of a family: its likelihood as fitted where that is the one chosen."""
        given = self.subject.problem
        likelihood = get_likelihood(setting.likelihood)
        if isinstance(given.likelihood, type(likelihood)):
            likelihood = given.likelihood
        return replace(given, likelihood=likelihood, inference=METHODS[setting.method]())

    def _computed(self, setting: Setting) -> Shown:
        start = time.perf_counter()
        problem = self._problem(setting)
        theta = problem.hyperparameters.completed(self.subject.theta(setting.values))
        init = self._sites.get(setting.family) if problem.single_optimum else None
        evaluation = problem.evaluate(theta, gradient=False, init=init)
        found, there = evaluation.approximation, problem.at(theta)
        posterior, new = found.posterior, self.subject.X_new
        labels = problem.y if self.subject.y_new is None else self.subject.y_new
        if new is None:
            posterior = posterior.with_covariance()
            cavities = Cavities.of(posterior, np.ones(len(labels)))
            if not cavities.proper:
                raise NotPositiveDefiniteError(
                    "the posterior without one of the rows is not proper, so that no row can be "
                    "left out here"
                )
            mean, variance = cavities
        else:
            mean, variance = posterior.predict(*there.cross(new))
        return Shown(
            evaluation.log_evidence,
            found.outcome,
            there.likelihood.predict_proba(mean, variance),
            labels,
            there,
            posterior.new_weights,
            found.sites,
            time.perf_counter() - start,
        )

    def surface(self, setting: Setting, places: tuple[int, int] = PLACES) -> Surface:
        """The evidence over the whole length of two sliders, the others as they are.

        Rows are walked to and fro, so that each point starts from the sites of a neighbour.
        """
        problem, ranges = self._problem(setting), [self.subject.parameters[j] for j in places]
        x, y = (np.linspace(one.low, one.high, SURFACE_POINTS) for one in ranges)
        values, init = np.full((len(y), len(x)), np.nan), None
        for row in range(len(y)):
            for place in range(len(x))[:: 1 if row % 2 == 0 else -1]:
                there = list(setting.values)
                there[places[0]], there[places[1]] = float(x[place]), float(y[row])
                theta = problem.hyperparameters.completed(self.subject.theta(tuple(there)))
                try:
                    found = problem.evaluate(theta, gradient=False, init=init)
                except (NotPositiveDefiniteError, ArithmeticError):
                    continue
                values[row, place] = found.log_evidence
                init = found.approximation.sites if problem.single_optimum else None
        return Surface(places, x, y, values)
