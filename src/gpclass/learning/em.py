"""EM: sites are found at theta, then theta is moved with the sites held, and so on."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from gpclass.learning.hyperparameters import HyperPrior
from gpclass.learning.learner import Learned, Learner, Progress
from gpclass.learning.objective import FAILURES, Objective, Point, RunResult, rejected_value, report
from gpclass.learning.problem import Problem
from gpclass.learning.runs import from_every_start
from gpclass.learning.surrogate import Surrogate

Array = NDArray[np.float64]


@final
@dataclass(frozen=True)
class ExpectationMaximisation(Learner):
    """EM with the sites held, KG06's EM-EP for every inference method.

    The E-step runs the problem's inference at theta. The M-step maximises F, the evidence with the
    sites held (`gpclass.learning.surrogate`), over all hyperparameters by L-BFGS-B. F has the
    evidence's value and gradient where the sites were found, so a run that ends has found a
    stationary point of the evidence: the same that `MaximiseEvidence` looks for.

    F is a lower bound of the evidence for the lower tangent bound alone. So the M-step searches a
    box about theta. Where the evidence falls at the next E-step, the step is taken back and the box
    is made smaller: F has the right gradient, so in a small box the evidence rises as well.

    EM converges linearly. Where gains fall by a factor r a step, ``tol / (1 - r)`` is left at the
    end. r is near one where the classes are nearly separable and the evidence rises towards an
    infinite variance.

    Parameters
    ----------
    max_iter : int, default=100
        E-steps of a run.
    tol : float, default=1e-6
        A run ends where two steps in a row, neither stopped by the box, gain less, in nats.
    gtol : float, default=1e-5
        Or where no entry of the projected gradient of the evidence exceeds this.
    max_m_evaluations : int, default=40
        Evaluations of F in an M-step. Fewer than the maximum needs make a generalised EM.
    radius : float, default=2.0
        First half-width of the box, in logarithms: a factor of seven either way.
    hyperprior : HyperPrior or None, default=None
        Its log density is added to the evidence and to F.

    References
    ----------
    KG06 sections 3.3 and 3.4; Adam, Chang, Khan & Solin, *Dual parameterization of sparse
    variational Gaussian processes*, 2021, for holding the sites.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.inference import EP
    >>> from gpclass.learning import BinaryProblem, ExpectationMaximisation
    >>> from gpclass.likelihoods import Probit
    >>> X = np.linspace(0, 4, 20)[:, None]
    >>> y = np.where(np.sin(2 * X[:, 0]) > 0.2, 1.0, -1.0)
    >>> y[[4, 13]] *= -1
    >>> problem = BinaryProblem(1.0 * RBF(1.0), X, y, Probit(), EP())
    >>> em = ExpectationMaximisation().learn(problem, problem.theta[None])
    >>> bool(em.log_evidence > problem.evaluate(problem.theta).log_evidence + 0.2)
    True
    """

    max_iter: int = 100
    tol: float = 1e-6
    gtol: float = 1e-5
    max_m_evaluations: int = 40
    radius: float = 2.0
    hyperprior: HyperPrior | None = None

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
        init: object = None,
        n_jobs: int | None = None,
        progress: Progress | None = None,
    ) -> Learned:
        """Run from every start and keep the best; evaluations that are counted are E-steps."""
        return from_every_start(
            partial(_run, self), problem, starts, init=init, n_jobs=n_jobs, progress=progress
        )


def _run(
    settings: ExpectationMaximisation,
    problem: Problem,
    start: Array,
    init: object,
    progress: Progress | None,
) -> RunResult:
    """One run of EM from one start."""
    objective = Objective(problem, init, progress, settings.hyperprior)
    low, high = problem.bounds.T
    here = objective.evaluate(np.clip(start, low, high), gradient=True)
    message, radius, small_gains, n_evaluations = "", settings.radius, 0, 0
    while here is not None and not message:
        assert here.gradient is not None
        slope = float(np.abs(np.clip(here.theta + here.gradient, low, high) - here.theta).max())
        message = _reason_to_end(settings, objective, slope, small_gains, radius)
        if message:
            break
        box = np.maximum(low, here.theta - radius), np.minimum(high, here.theta + radius)
        step = _m_step(settings, objective, here, box, slope)
        n_evaluations += step.n_evaluations
        noise = 1e-12 * max(1.0, abs(here.value))
        if step.gain <= noise:
            message = "converged: the M-step finds no gain above rounding"
            break
        reach = float(np.abs(step.theta - here.theta).max())
        found = objective.evaluate(step.theta, gradient=True)
        if found is None or found.value < here.value - noise:
            radius = 0.25 * reach
            continue
        boxed = reach > 0.99 * radius
        small = found.value - here.value < settings.tol and not boxed
        small_gains = small_gains + 1 if small else 0
        radius = 2.0 * radius if boxed else radius
        here = found
    return report(objective, start, here, f"{message}; {n_evaluations} evaluations of M-steps")


def _reason_to_end(
    settings: ExpectationMaximisation,
    objective: Objective,
    slope: float,
    small_gains: int,
    radius: float,
) -> str:
    """Why to end now; empty where there is no reason."""
    if slope <= settings.gtol:
        return f"converged: projected gradient of the evidence {slope:.1e}"
    if small_gains == 2:
        return f"converged: two steps in a row gained less than {settings.tol:g}"
    if radius < 1e-9:
        return "stopped: no step along the gradient raises the evidence"
    if len(objective.trace) >= settings.max_iter:
        return f"stopped at {settings.max_iter} E-steps; raise max_iter"
    return ""


class _Step(NamedTuple):
    """Where an M-step leads, and the gain that F promises there."""

    theta: Array
    gain: float
    n_evaluations: int


def _m_step(
    settings: ExpectationMaximisation,
    objective: Objective,
    here: Point,
    box: tuple[Array, Array],
    slope: float,
) -> _Step:
    """Maximise F within the box."""
    assert here.gradient is not None
    # the prior of theta is no part of what the sites give
    _, by_prior = objective.log_density(here.theta)
    F = Surrogate.of(
        objective.problem, here.theta, here.sites, here.log_evidence, here.gradient - by_prior
    )
    best, best_value, worst, count = here.theta, here.value, abs(here.value), 0

    def minus_F(theta: Array) -> tuple[float, Array]:
        nonlocal best, best_value, worst, count
        theta = np.clip(theta, *box)
        count += 1
        try:
            value, gradient = F(theta)
            log_density, by_prior = objective.log_density(theta)
        except FAILURES:
            return rejected_value(worst), np.zeros(len(theta))
        value += log_density
        worst = max(worst, -value)
        if value > best_value:
            best, best_value = np.array(theta), value
        return -value, -(gradient + by_prior)

    minimize(
        minus_F,
        here.theta,
        method="L-BFGS-B",
        jac=True,
        bounds=np.column_stack(box),
        options={
            "maxfun": settings.max_m_evaluations,
            # a small part of the gradient may be left: the next E-step changes it by more
            "gtol": max(0.1 * settings.gtol, 0.03 * min(slope, float(np.ptp(box, axis=0).max()))),
            "ftol": 1e-12,
        },
    )
    return _Step(best, best_value - here.value, count)
