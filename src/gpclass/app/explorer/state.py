"""What the page shows at one setting of its sliders; nothing here knows of the page."""

import time
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gpclass.app.explorer.subjects import Subject
from gpclass.decision.costs import ErrorRejectCurve, error_reject_curve
from gpclass.estimator.binary_model import log_probabilities
from gpclass.estimator.joint_model import probabilities_of
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference import METHODS, Outcome, SitePosterior
from gpclass.inference.cavities import Cavities
from gpclass.inference.joint import joint_scheme
from gpclass.learning import BinaryProblem, JointProblem
from gpclass.linalg import Array
from gpclass.priors.coupled import as_crosses

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
    P : ndarray of shape (m, C)
        Class probabilities of the test rows, or of each row given the others.
    means : ndarray of shape (m, C)
        Their posterior means; of two classes the first's is minus the second's.
    codes : ndarray of shape (m,)
        Their classes, 0 to C - 1.
    problem : BinaryProblem or JointProblem
        At this setting.
    mean_weights : ndarray of shape (n, C)
        The posterior mean of a class's latent at new inputs is the covariance times its column.
    sites : Sites or ClassSites
    seconds : float
        Wall-clock time that it took.
    """

    log_evidence: float
    outcome: Outcome
    P: Array
    means: Array
    codes: NDArray[np.intp]
    problem: BinaryProblem | JointProblem
    mean_weights: Array
    sites: Any
    seconds: float

    @property
    def log_loss(self) -> float:
        """Mean of ``-log p(label)``, in nats."""
        with np.errstate(divide="ignore"):
            return float(-np.log(self.P[np.arange(len(self.codes)), self.codes]).mean())

    @property
    def errors(self) -> int:
        """Rows whose most probable class is wrong."""
        return int(np.sum(self.P.argmax(axis=1) != self.codes))

    @property
    def curve(self) -> ErrorRejectCurve:
        """Error rate as the least certain rows are rejected."""
        return error_reject_curve(self.codes, self.P, labels=np.arange(self.P.shape[1]))

    def least_certain(self, count: int) -> NDArray[np.intp]:
        """Rows whose most probable class is least probable."""
        return np.argsort(self.P.max(axis=1), kind="stable")[:count]

    def plane(self, a: int, b: int, c: int = 1) -> tuple[Array, Array, Array]:
        """Values of columns a and b, (k,), and the posterior mean of class c's latent, (k, k).

        The other columns are at their median.
        """
        X = self.problem.inputs
        x, y = (np.linspace(X[:, j].min(), X[:, j].max(), PLANE_POINTS) for j in (a, b))
        rows = np.tile(np.median(X, axis=0), (PLANE_POINTS**2, 1))
        rows[:, a], rows[:, b] = np.tile(x, PLANE_POINTS), np.repeat(y, PLANE_POINTS)
        n_classes = self.P.shape[1]
        crosses = as_crosses(self.problem.cross(rows)[0], n_classes)
        mean = self.mean_weights[:, c] @ crosses[c][:, : len(rows)]
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
    >>> virginica = subject("iris", positive="virginica")
    >>> shown = Explorer(virginica).at(Setting((1.0, 0.7, -4.605), "laplace", "probit"))
    >>> shown.errors, round(shown.log_evidence, 1)
    (6, -24.2)
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._lock = Lock()
        self._sites: dict[tuple[str, str], Any] = {}
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

    def _problem(self, setting: Setting) -> BinaryProblem | JointProblem:
        """The problem at a setting; ValueError where there is no joint model of its likelihood."""
        given, method = self.subject.problem, METHODS[setting.method]()
        likelihood = self.subject.likelihood(setting.likelihood)
        if isinstance(given, JointProblem):
            scheme = joint_scheme(self.subject.multi_class, method)
            likelihood = scheme.likelihood_of(likelihood, method)
            found: Any = replace(given, scheme=scheme, likelihood=likelihood, inference=method)
        else:
            found = replace(given, likelihood=likelihood, inference=method)
        return found.at(self.subject.theta(setting.values, setting.likelihood))  # type: ignore[no-any-return]

    def _computed(self, setting: Setting) -> Shown:
        start = time.perf_counter()
        problem = self._problem(setting)
        init = self._sites.get(setting.family) if problem.single_optimum else None
        evaluation = problem.evaluate(problem.theta, gradient=False, init=init)
        found = evaluation.approximation
        posterior, new = found.posterior, self.subject.X_new
        if new is None:
            latents = _left_out(posterior, problem.n_rows)
        else:
            latents = posterior.predict(*problem.cross(new))
        means = latents[0]
        if isinstance(problem, JointProblem):
            P, weights = probabilities_of(problem, *latents), posterior.mean_weights
        else:
            P = np.exp(log_probabilities(problem.likelihood, *latents))
            both = means, posterior.new_weights
            means, weights = (np.stack([-one, one], axis=1) for one in both)
        return Shown(
            evaluation.log_evidence,
            found.outcome,
            P,
            means,
            self.subject.scored,
            problem,
            weights,
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
                theta = self.subject.theta(tuple(there), setting.likelihood)
                try:
                    found = problem.evaluate(theta, gradient=False, init=init)
                except (NotPositiveDefiniteError, ArithmeticError):
                    continue
                values[row, place] = found.log_evidence
                init = found.approximation.sites if problem.single_optimum else None
        return Surface(places, x, y, values)


def _left_out(posterior: Any, n: int) -> Any:
    """Means and covariances of each of n rows' latents given the other rows."""
    if isinstance(posterior, SitePosterior):
        found: Any = Cavities.of(posterior.with_covariance(), np.ones(n))
        proper = found.proper
    else:
        found = posterior.leave_one_out(np.ones(n))
        proper = np.isfinite(found[1]).all()
    if not proper:
        raise NotPositiveDefiniteError(
            "the posterior without one of the rows is not proper, so that no row can be left out "
            "here"
        )
    return found
