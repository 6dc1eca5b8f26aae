"""Which parts the estimator's arguments name; a value that does not exist is refused here."""

import inspect
import numbers
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel
from sklearn.utils import check_random_state

from gpclass.estimator.decomposition import DECOMPOSITIONS, Decomposition, OneVsRest
from gpclass.estimator.inducing import check_inducing
from gpclass.inference import METHODS, InferenceMethod
from gpclass.inference.joint import JOINT
from gpclass.learning import (
    CentralComposite,
    ExpectationMaximisation,
    HyperPrior,
    KeepFixed,
    Learner,
    MaximiseEvidence,
    MaximiseLeaveOneOut,
    NoUTurn,
)
from gpclass.learning.hyperparameters import parameter_names
from gpclass.likelihoods import Likelihood, get_likelihood
from gpclass.montecarlo import MonteCarlo

LEARNINGS: Final = ("evidence", "loo", "ccd", "nuts", "em")
# Learners that take an optimizer.
BY_GRADIENT: Final[dict[str, Any]] = {
    "evidence": MaximiseEvidence,
    "loo": MaximiseLeaveOneOut,
    "ccd": CentralComposite,
}
HYPERPRIORS: Final = ("auto", "weak")
CALIBRATIONS: Final = ("auto", "loo")
# Iterations that an inference given by name may take, unless the user says otherwise.
MAX_ITER: Final = 100


@final
@dataclass(frozen=True)
class Parts:
    """One answer to each question: likelihood, inference, learning, and how classes are split."""

    likelihood: Likelihood
    inference: InferenceMethod
    learner: Learner
    multi_class: str
    decomposition: Decomposition


def pick_parts(estimator: BaseEstimator) -> Parts:
    """Turn the estimator's arguments into parts; ValueError or TypeError names what is wrong."""
    _check_integer("n_restarts_optimizer", estimator.n_restarts_optimizer, 0)
    _check_integer("max_iter_predict", estimator.max_iter_predict, 1)
    _check_integer("verbose", estimator.verbose, 0)
    if estimator.n_jobs is not None:
        _check_integer("n_jobs", estimator.n_jobs, None)
        if estimator.n_jobs == 0:
            raise ValueError("n_jobs must not be 0: None or 1 is one process, -1 is all cores")
    for name in ("warm_start", "copy_X_train"):
        value = getattr(estimator, name)
        if not isinstance(value, bool | np.bool_ | numbers.Integral):
            raise TypeError(f"{name} must be True or False, got {value!r}")
    check_inducing(estimator.inducing)
    learner = _pick_learner(estimator.learning, estimator.optimizer, estimator.random_state)
    _check_hyperprior(estimator.hyperprior, learner)
    check_kernel_argument(estimator.kernel)
    _check_calibration(estimator.calibration, estimator.inference)
    chosen = estimator.categorical_features
    if estimator.kernel is not None and not (isinstance(chosen, str) and chosen == "from_dtype"):
        raise ValueError(
            f"categorical_features={chosen!r} is for kernel=None: a kernel that is given decides "
            "itself what its columns are"
        )
    multi_class = check_named("multi_class", estimator.multi_class, (*JOINT, *DECOMPOSITIONS))
    return Parts(
        likelihood=get_likelihood(estimator.likelihood),
        inference=_pick_inference(
            estimator.inference, int(estimator.max_iter_predict), estimator.random_state
        ),
        learner=learner,
        multi_class=multi_class,
        # two classes are one binary problem whichever it is
        decomposition=DECOMPOSITIONS.get(multi_class, OneVsRest)(),
    )


def check_kernel_argument(kernel: object) -> None:
    """Refuse what is neither None, "precomputed", a kernel with one matrix, nor a list of these."""
    if isinstance(kernel, CompoundKernel):
        raise ValueError("kernel cannot be a CompoundKernel")
    if kernel is None:
        return
    if isinstance(kernel, Kernel):
        _check_hyperparameters(kernel)
        return
    if isinstance(kernel, list | tuple):
        if len(kernel) < 3:
            raise ValueError(
                f"kernel is a list of {len(kernel)}: a list has one kernel for each of more than "
                "two classes, which have a latent function each; else give one kernel"
            )
        for one in kernel:
            if not isinstance(one, Kernel):
                raise TypeError(f"kernel is a list with {one!r}, which is no scikit-learn kernel")
            check_kernel_argument(one)
        return
    if isinstance(kernel, str):
        check_named("kernel", kernel, ("precomputed",))
        return
    raise TypeError(
        "kernel must be None, 'precomputed', an instance of a scikit-learn kernel or a list of "
        f"them, got {kernel!r}"
    )


def _check_hyperprior(hyperprior: object, learner: Learner) -> None:
    """Refuse what is no prior, and a learner that does not take it."""
    if hyperprior is None:
        return
    if not isinstance(hyperprior, HyperPrior):
        check_named("hyperprior", hyperprior, HYPERPRIORS)
        if hyperprior == "auto":
            return
    if isinstance(learner, KeepFixed):
        return
    if not hasattr(learner, "hyperprior"):
        raise ValueError(
            f"hyperprior={hyperprior!r} does not reach the learner {learner!r}, which has no field "
            "of this name"
        )
    if learner.hyperprior is not None:
        raise ValueError(
            f"hyperprior={hyperprior!r}, but the learner has {learner.hyperprior!r} already: give "
            "one of them"
        )


def _check_calibration(calibration: object, inference: object) -> None:
    """Refuse what is no calibration, and that of samples, which have no leave-one-out."""
    if calibration is None or check_named("calibration", calibration, CALIBRATIONS) == "auto":
        return
    if inference == "mcmc" or isinstance(inference, MonteCarlo):
        raise ValueError(
            "calibration='loo' needs leave-one-out probabilities, which Monte Carlo does not have: "
            "take another inference, such as 'ep', or calibration=None"
        )


def _check_hyperparameters(kernel: Kernel) -> None:
    """Refuse hyperparameters and bounds that have no logarithm."""
    name = type(kernel).__name__
    with np.errstate(all="ignore"):
        try:
            description = repr(kernel)
            theta = np.asarray(kernel.theta, dtype=np.float64)
        except (TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"kernel {name} has hyperparameters that cannot be used") from error
        try:
            bounds = np.asarray(kernel.bounds, dtype=np.float64).reshape(-1, 2)
        except (TypeError, ValueError) as error:
            raise ValueError(f"kernel {description} has bounds that cannot be used") from error
        names = zip(parameter_names(kernel), theta, strict=True)
        wrong = [name for name, t in names if np.isnan(t) or t == np.inf]
        if wrong:
            raise ValueError(
                f"kernel {description} has hyperparameters that are no finite numbers above "
                f"zero: {', '.join(wrong)}"
            )
        if bounds.shape != (len(theta), 2) or not (bounds[:, 0] <= bounds[:, 1]).all():
            raise ValueError(
                f"kernel {description} has bounds that are no intervals: {np.exp(bounds).tolist()}"
            )


def check_named(argument: str, value: object, options: Collection[str]) -> str:
    """Return a value that is one of the names; TypeError or ValueError lists them."""
    if not isinstance(value, str):
        raise TypeError(
            f"{argument} must be one of {', '.join(map(repr, options))} (or an object where the "
            f"documentation says so), got {value!r}"
        )
    if value not in options:
        raise ValueError(
            f"{argument}={value!r} does not exist; the values that do are: "
            + ", ".join(map(repr, options))
        )
    return value


def _check_integer(name: str, value: object, minimum: int | None) -> None:
    if not isinstance(value, numbers.Integral) or (isinstance(value, bool) and name != "verbose"):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if minimum is not None and value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value!r}")


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    """Seed of what an inference draws: 0 for None, so that a fit can be repeated."""
    if random_state is None:
        return 0
    if isinstance(random_state, numbers.Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _pick_inference(
    inference: Any, max_iter: int, random_state: int | np.random.RandomState | None
) -> InferenceMethod:
    if callable(inference) and not isinstance(inference, type):
        try:
            named: Collection[str] | None = inspect.signature(inference).parameters
        except (TypeError, ValueError):
            named = None
        if named is None or not {"weights", "init"} <= set(named):
            raise TypeError(
                "inference must be called as method(prior, y, likelihood, *, weights, init), got "
                f"{inference!r}"
            )
        if max_iter not in (MAX_ITER, getattr(inference, "max_iter", None)):
            raise ValueError(
                f"max_iter_predict={max_iter} does not reach the inference {inference!r}, which "
                "has settings of its own: give it its own limit, such as EP(max_iter=200), and "
                f"leave max_iter_predict at {MAX_ITER}"
            )
        given: Any = inference
    elif check_named("inference", inference, (*METHODS, "mcmc")) == "mcmc":
        given = MonteCarlo(random_state=seed_of(random_state))
    else:
        given = METHODS[inference](max_iter=max_iter)
    return given  # type: ignore[no-any-return]


def _pick_learner(learning: object, optimizer: Any, random_state: Any) -> Learner:
    if isinstance(learning, Learner):
        return learning
    check_named("learning", learning, LEARNINGS)
    if isinstance(optimizer, type):
        raise TypeError(f"optimizer must be a function, not a type: {optimizer!r}")
    if optimizer is None:
        return KeepFixed()
    if learning == "nuts":
        return NoUTurn(optimizer, random_state=seed_of(random_state))
    if learning in BY_GRADIENT:
        return BY_GRADIENT[learning](optimizer)  # type: ignore[no-any-return]
    if callable(optimizer):
        raise ValueError(
            "learning='em' maximises by itself: leave optimizer at 'fmin_l_bfgs_b', or take "
            "learning='evidence' for an optimizer of your own"
        )
    MaximiseEvidence(optimizer)  # refuses a name that does not exist
    return ExpectationMaximisation()
