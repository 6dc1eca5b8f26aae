"""Averaging over hyperparameters that a Markov chain draws: the no-U-turn sampler."""

import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from gpclass.exceptions import ConvergenceWarning
from gpclass.learning.evidence import MaximiseEvidence, Optimizer, check_optimizer
from gpclass.learning.hyperparameters import HyperPrior
from gpclass.learning.learner import Learned, Learner, LearningRun, Progress
from gpclass.learning.neighbourhood import Neighbourhood
from gpclass.learning.objective import Point, report
from gpclass.learning.parallel import SMALL, one_blas_thread
from gpclass.learning.problem import Problem
from gpclass.learning.search import SearchSettings
from gpclass.montecarlo import effective_sample_size, split_rhat

Array = NDArray[np.float64]

LARGEST_RHAT: Final = 1.05
FEWEST_EFFECTIVE: Final = 100
# Of a trajectory, 2^5 steps: in units of the deviations no longer one is needed; next to a bound
# the step size may shrink.
MAX_DEPTH: Final = 5


@final
@dataclass(frozen=True)
class NoUTurn(Learner):
    """Models that average over draws of the hyperparameters by the no-U-turn sampler.

    The target is the evidence of the inference method times the hyperprior, within the bounds, with
    its exact gradient. Chains start at the mode, and move in units of the deviations there; the
    step size is adapted. The sampler is that of ``mici`` (``pip install 'gpclass[nuts]'``). What is
    kept are draws at even distances in the chains, one chain after the other, of equal weight; the
    mode comes before them, with weight zero, and is what is reported. A hyperparameter that ends on
    a bound stays there.

    Parameters
    ----------
    optimizer, hyperprior, settings
        As in `MaximiseEvidence`, for the mode.
    n_chains : int, default=4
    n_warm_up, n_draws : int, default=100 and 250
        Of each chain: those that adapt the step size, and those after.
    n_kept : int, default=25
        Draws of each chain that predictions average over.
    random_state : int, default=0

    References
    ----------
    Hoffman & Gelman, *The No-U-Turn sampler*, 2014; Betancourt, *A conceptual introduction to
    Hamiltonian Monte Carlo*, 2017, for the variant that draws by weights.
    """

    optimizer: str | Optimizer = "fmin_l_bfgs_b"
    hyperprior: HyperPrior | None = None
    settings: SearchSettings = field(default_factory=SearchSettings)
    n_chains: int = 4
    n_warm_up: int = 100
    n_draws: int = 250
    n_kept: int = 25
    random_state: int = 0

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        check_optimizer(self.optimizer)
        counts = (self.n_chains, self.n_warm_up, self.n_draws - 3, self.n_kept)
        if min(counts) < 1 or self.n_kept > self.n_draws:
            raise ValueError(
                "n_chains, n_warm_up and n_kept must be at least 1, n_draws at least 4 and n_kept "
                f"at most n_draws, got {self.n_chains}, {self.n_warm_up}, {self.n_kept} and "
                f"{self.n_draws}"
            )

    def n_settings(self, p: int) -> int:
        """Draws that predictions average over."""
        return self.n_chains * self.n_kept

    def n_evaluations(self, p: int) -> int:
        """Evaluations beside those of the search for the mode; about 5 a draw are usual."""
        return 5 * self.n_chains * (self.n_warm_up + self.n_draws)

    def learn(
        self,
        problem: Problem,
        starts: Array,
        *,
        init: Any = None,
        n_jobs: int | None = None,
        progress: Progress | None = None,
    ) -> Learned:
        """Find the mode, and draw.

        ImportError without ``mici``; ConvergenceWarning where the chains are too short.
        """
        mici = _mici()
        mode = MaximiseEvidence(self.optimizer, self.hyperprior, self.settings).learn(
            problem, starts, init=init, n_jobs=n_jobs, progress=progress
        )
        around = Neighbourhood.of(problem, mode, self.hyperprior, progress)
        if around is None:
            return mode
        with one_blas_thread(problem.n_rows < SMALL):
            draws = self._draw(mici, around)
            kept = np.linspace(0, self.n_draws - 1, self.n_kept).round().astype(int)
            found = [around.node(around.theta(z)) for chain in draws for z in chain[kept]]
        nodes = [one[0] for one in found if one is not None]
        weight = 1.0 / len(nodes)
        averaged = [replace(node, weight=weight) for node in nodes]
        run = _report(around, draws)
        theta = np.tile(around.mode.theta, (*draws.shape[:2], 1))
        theta[..., around.free] += draws @ around.axes.T
        every = (replace(mode.best, weight=0.0), *averaged)
        return Learned(every, (*mode.runs, run), mode=0, draws=theta)

    def _draw(self, mici: Any, around: Neighbourhood) -> Array:
        """Coordinates of the draws, shape (n_chains, n_draws, p)."""
        target = _Target(around)
        system = mici.systems.EuclideanMetricSystem(
            # functions: what else it is given is copied for each chain
            neg_log_dens=lambda z: target.value(z),
            grad_neg_log_dens=lambda z: target.gradient(z),
        )
        sampler = mici.samplers.DynamicMultinomialHMC(
            system,
            mici.integrators.LeapfrogIntegrator(system, step_size=0.5),
            np.random.default_rng(self.random_state),
            max_tree_depth=MAX_DEPTH,
        )
        results = sampler.sample_chains(
            n_warm_up_iter=self.n_warm_up,
            n_main_iter=self.n_draws,
            init_states=[np.zeros(around.p) for _ in range(self.n_chains)],
            adapters=[mici.adapters.DualAveragingStepSizeAdapter(0.8)],
            display_progress=False,
        )
        return np.stack(results.traces["pos"])


class _Target:
    """Minus the log density by the coordinates, and its gradient, from one evaluation."""

    def __init__(self, around: Neighbourhood) -> None:
        self.around = around
        self.at: Array | None = None
        self.known: tuple[float, Array] = (np.inf, np.zeros(0))

    def value(self, z: Array) -> float:
        return self._both(z)[0]

    def gradient(self, z: Array) -> Array:
        return self._both(z)[1]

    def _both(self, z: Array) -> tuple[float, Array]:
        if self.at is None or not np.array_equal(z, self.at):
            around, theta = self.around, self.around.theta(z)
            point = around.evaluate(theta) if around.inside(theta) else None
            self.at = z.copy()
            if point is None or point.gradient is None:
                self.known = np.inf, np.zeros(len(z))
            else:
                self.known = -point.value, -(point.gradient[around.free] @ around.axes)
        return self.known


def _report(around: Neighbourhood, draws: Array) -> LearningRun:
    """The chains as a run; ConvergenceWarning where they are too short."""
    chains = draws.transpose(2, 1, 0)
    rhat, effective = split_rhat(chains).max(), effective_sample_size(chains).min()
    message = f"no-U-turn sampler: split R-hat {rhat:.3f}, {effective:.0f} effective draws"
    if not (rhat <= LARGEST_RHAT and effective >= FEWEST_EFFECTIVE):
        warnings.warn(
            f"{message}: above {LARGEST_RHAT}, or fewer than {FEWEST_EFFECTIVE}; raise n_draws of "
            "NoUTurn",
            ConvergenceWarning,
            stacklevel=2,
        )
    mode = around.mode
    point = Point(mode.theta, mode.log_evidence, None, mode.log_evidence, mode.sites, True)
    return report(around.objective, mode.theta, point, message).run


def _mici() -> Any:
    try:
        import mici
    except ImportError as error:
        raise ImportError(
            "learning='nuts' needs mici; install it with: pip install 'gpclass[nuts]'"
        ) from error
    return mici
