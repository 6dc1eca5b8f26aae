"""EM: sites are found at theta, then theta is moved with the sites held, and so on."""

from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from gpclass.inference.sites import Sites
from gpclass.learning.objective import FAILURES, Objective, Point, RunResult, report
from gpclass.learning.problem import Evaluation, Learned, Learner, Problem, Progress
from gpclass.learning.starts import from_every_start
from gpclass.learning.surrogate import Surrogate

Array = NDArray[np.float64]

# Largest entry of the projected gradient of the evidence at which a run ends, as for L-BFGS-B.
GTOL: Final = 1e-5
# Part of the gradient that an M-step may leave: the next E-step changes it by more.
LEAVES: Final = 0.03
# First half-width of the box, in logarithms: a factor of seven either way.
RADIUS: Final = 2.0
# A box that is smaller than this says that the evidence and its gradient do not agree.
SMALLEST: Final = 1e-9
# Least part of the predicted gain that a step must bring (Armijo).
SUFFICIENT: Final = 1e-4
# Relative noise of the evidence.
NOISE: Final = 1e-12
# Longest step, in logarithms, that says something about curvature. Learning from longer ones threw
# crabs with seven length-scales into a lower maximum.
NEAR: Final = 0.5
# Steps in a row that must gain less than the tolerance.
IDLE: Final = 2


@final
@dataclass(frozen=True)
class ExpectationMaximisation(Learner):
    """EM with the sites held: the evidence's maximum, by cheaper functions that touch it.

    The E-step runs the problem's inference at theta. The M-step maximises F, the evidence with the
    sites that were found held (`gpclass.learning.surrogate`), over all hyperparameters, the
    likelihood's too, by L-BFGS-B. F has the evidence's value and gradient where the sites were
    found, for every method, so a run that ends has found a stationary point of the evidence: the
    same that `MaximiseEvidence` looks for.

    Three things keep and quicken it:

    - *A box.* The M-step searches within a box about theta. Where it does not bring the evidence
      ``1e-4`` of the gain that it promised, it is repeated in a smaller one. Having the right
      gradient, F keeps its promise in a box that is small enough, so the evidence never falls,
      whether or not F is a bound.
    - *A memory.* EM converges linearly, at the rate at which F mistakes the curvature of the
      evidence. That mistake shows: two E-steps tell by how much the gradient of the evidence has
      changed, and F by how much it would have done. A symmetric matrix D of rank one more each
      step (SR1) has learnt the difference, and the M-step maximises
      ``F + (theta - theta_0)^T D (theta - theta_0) / 2``. It is forgotten where a step fails.

    - *Units.* For EP and VI the sites are held in units of the prior's deviation instead wherever
      that F would have foretold the last step better, as it does on a ridge towards infinite
      variance.

    For likelihoods that are not log-concave each E-step starts from nothing, so that the evidence
    is a function of theta where there are several fixed points.

    Parameters
    ----------
    max_iter : int, default=100
        E-steps of a run.
    tol : float, default=1e-6
        A run ends where two steps in a row, neither stopped by the box, gain less than this, in
        nats; or where no entry of the projected gradient exceeds 1e-5.
    max_m_evaluations : int, default=40
        Evaluations of F in an M-step. Fewer than the maximum needs make a generalised EM.
    remember : bool, default=True
        Whether to learn D and choose the units. False is plain EM.

    Notes
    -----
    Where gains fall by a factor r a step, ``tol / (1 - r)`` is left at the end: 1e-6 leaves less
    than 1e-3 unless r is above 0.999.

    References
    ----------
    KG06 sections 3.3 and 3.4; Adam, Chang, Khan & Solin, *Dual parameterization of sparse
    variational Gaussian processes*, 2021, for holding the sites; Conn, Gould & Toint,
    *Trust-region methods*, 2000, for models of first order in a box.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.inference import EP
    >>> from gpclass.learning import BinaryProblem, MaximiseEvidence
    >>> from gpclass.likelihoods import Probit
    >>> X = np.linspace(0, 4, 20)[:, None]
    >>> y = np.where(np.sin(2 * X[:, 0]) > 0.2, 1.0, -1.0)
    >>> y[[4, 13]] *= -1
    >>> problem = BinaryProblem(1.0 * RBF(1.0), X, y, Probit(), EP())
    >>> em = ExpectationMaximisation().learn(problem, problem.theta[None])
    >>> evidence = MaximiseEvidence().learn(problem, problem.theta[None])
    >>> bool(abs(em.log_evidence - evidence.log_evidence) < 1e-6)
    True
    """

    max_iter: int = 100
    tol: float = 1e-6
    max_m_evaluations: int = 40
    remember: bool = True

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if self.max_iter < 1 or self.max_m_evaluations < 2 or not self.tol > 0:
            raise ValueError(
                "max_iter must be at least 1, max_m_evaluations at least 2 and tol positive, got "
                f"{self.max_iter}, {self.max_m_evaluations}, {self.tol}"
            )

    def learn(
        self,
        problem: Problem,
        starts: Array,
        *,
        init: Sites | None = None,
        n_jobs: int | None = None,
        progress: Progress | None = None,
    ) -> Learned:
        """Run from every start and keep the best; evaluations that are counted are E-steps.

        Several runs take one BLAS thread each whatever n_jobs is.

        Raises
        ------
        NotPositiveDefiniteError
            Where the evidence cannot be evaluated at any start.
        """
        return from_every_start(
            partial(_run, self),
            problem,
            starts,
            init=init,
            n_jobs=n_jobs,
            progress=progress,
        )


def _run(
    settings: ExpectationMaximisation,
    problem: Problem,
    start: Array,
    init: Sites | None,
    progress: Progress | None,
) -> RunResult:
    """One run of EM from one start."""
    objective = Objective(problem, init, progress)
    low, high = problem.bounds.T
    ascent = _Ascent(settings, objective, low, high)
    message, chosen = ascent.run(np.clip(start, low, high))
    end = chosen.theta if chosen is not None else np.array(start)
    message = f"{message}; {ascent.n_evaluations} evaluations of M-steps"
    return report(objective, start, end, chosen, message)


class _Last(NamedTuple):
    """What a step remembers of the point that it left."""

    theta: Array
    gradient: Array
    units: bool
    D: Array


class _Touching(NamedTuple):
    """Where F touches the evidence: F, D, and the evidence's value and gradient there.

    ``converged`` is whether its inference had.
    """

    theta: Array
    log_evidence: float
    gradient: Array
    F: Surrogate
    D: Array
    converged: bool

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """``F + d^T D d / 2`` and its gradient."""
        value, gradient = self.F(theta)
        d = theta - self.theta
        bend = self.D @ d
        return value + 0.5 * float(d @ bend), gradient + bend


@final
@dataclass
class _Ascent:
    """EM from one start: the evidence never falls."""

    settings: ExpectationMaximisation
    objective: Objective
    low: Array
    high: Array
    n_evaluations: int = 0

    def run(self, theta: Array) -> tuple[str, Point | None]:
        """Alternate until there is a reason to end; return that and the last point."""
        found = self.objective.evaluate(theta, gradient=True)
        if found is None:
            return "the first E-step failed", None
        here = self.touch(theta, found, None)
        radius, idle = RADIUS, 0
        while True:
            slope = self.slope(here)
            reason = self.reason(slope, idle, radius)
            if reason is not None:
                return reason, self.point(here)
            target, promised = self.m_step(here, radius, slope)
            reach = float(np.abs(target - here.theta).max())
            noise = NOISE * max(1.0, abs(here.log_evidence))
            found, gain = None, -np.inf
            if promised > noise:
                found = self.objective.evaluate(target, gradient=True)
            elif not here.D.any():
                return "converged: the M-step finds no gain above rounding", self.point(here)
            if found is not None:
                gain = found.log_evidence - here.log_evidence
            if found is not None and gain >= SUFFICIENT * promised - noise:
                boxed = reach > 0.99 * radius
                idle = idle + 1 if gain < self.settings.tol and not boxed else 0
                radius = 2.0 * radius if boxed else radius
                here = self.touch(
                    target, found, _Last(here.theta, here.gradient, here.F.units, here.D)
                )
            elif here.D.any():
                here = here._replace(D=np.zeros_like(here.D))
            else:
                radius = 0.25 * reach

    def reason(self, slope: float, idle: int, radius: float) -> str | None:
        """Why to end now, if there is a reason."""
        settings = self.settings
        if slope <= GTOL:
            return f"converged: projected gradient of the evidence {slope:.1e}"
        if idle == IDLE:
            return f"converged: {IDLE} steps in a row gained less than {settings.tol:g}"
        if radius < SMALLEST:
            return "stopped: no step along the gradient raises the evidence"
        if len(self.objective.trace) >= settings.max_iter:
            return f"stopped at {settings.max_iter} E-steps; raise max_iter"
        return None

    def point(self, here: _Touching) -> Point:
        """The last point, or the best that was seen: a refused step may have gained a little."""
        best = self.objective.best
        noise = NOISE * max(1.0, abs(here.log_evidence))
        if best is not None and best.log_evidence > here.log_evidence + noise:
            return best
        return Point(here.theta, here.log_evidence, here.F.sites, here.converged)

    def slope(self, here: _Touching) -> float:
        """Largest entry of the projected gradient of the evidence."""
        moved = np.clip(here.theta + here.gradient, self.low, self.high) - here.theta
        return float(np.abs(moved).max())

    def touch(self, theta: Array, found: Evaluation, last: _Last | None) -> _Touching:
        """Hold the sites that were found, and learn from the step that led here."""
        assert found.gradient is not None
        F = Surrogate.of(self.objective.problem, theta, found)
        none = np.zeros((len(theta), len(theta)))
        here = _Touching(
            theta, found.log_evidence, found.gradient, F, none, found.approximation.converged
        )
        if last is None or not self.settings.remember:
            return here
        # of the two ways to hold sites, the one that would have foretold the way back better
        errors = {}
        for way in (F, F.in_units()):
            error = None if way is None else self.error(way, last)
            if way is not None and error is not None:
                errors[way.units] = (float(np.linalg.norm(error)), way, error)
        if not errors:
            return here
        _, way, error = min(errors.values(), key=lambda entry: entry[0])
        D = last.D if way.units == last.units else none
        return here._replace(F=way, D=_secant(D, last.theta - theta, error))

    def error(self, F: Surrogate, last: _Last) -> Array | None:
        """By how much F mistakes the gradient of the evidence at the point before."""
        self.n_evaluations += 1
        try:
            return np.asarray(last.gradient - F(last.theta)[1])
        except FAILURES:
            return None

    def m_step(self, here: _Touching, radius: float, slope: float) -> tuple[Array, float]:
        """Maximise within the box; return theta and the gain that is promised there."""
        best = Point(here.theta, here.log_evidence, here.F.sites, here.converged)
        low = np.maximum(self.low, here.theta - radius)
        high = np.minimum(self.high, here.theta + radius)
        worst = abs(here.log_evidence)

        def objective(theta: Array) -> tuple[float, Array]:
            nonlocal best, worst
            theta = np.clip(theta, low, high)
            self.n_evaluations += 1
            try:
                value, gradient = here(theta)
            except FAILURES:
                # worse than anything seen, so that a line search shortens the step
                return worst + 1e3 + abs(worst), np.zeros(len(theta))
            worst = max(worst, -value)
            if value > best.log_evidence:
                best = best._replace(theta=np.array(theta), log_evidence=value)
            return -value, -gradient

        minimize(
            objective,
            here.theta,
            method="L-BFGS-B",
            jac=True,
            bounds=np.column_stack([low, high]),
            options={
                "maxfun": self.settings.max_m_evaluations,
                "gtol": max(0.1 * GTOL, LEAVES * min(slope, radius)),
                "ftol": NOISE,
            },
        )
        return best.theta, best.log_evidence - here.log_evidence


def _secant(D: Array, s: Array, change: Array) -> Array:
    """``D + r r^T / (s . r)`` with ``r = change - D s``, where that can be trusted."""
    if np.abs(s).max() > NEAR:
        return D
    r = change - D @ s
    curvature = float(s @ r)
    # the usual test of SR1: otherwise the update is large or nothing but rounding
    if abs(curvature) <= 1e-8 * float(np.linalg.norm(s) * np.linalg.norm(r)):
        return D
    return D + np.outer(r, r) / curvature
