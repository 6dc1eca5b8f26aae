"""Every method with every likelihood: which pairs run, and what the others say."""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass.estimator.classifier import GaussianProcessClassifier
from gpclass.exceptions import ConvergenceWarning
from gpclass.experiments.form import Experiment, Found, Piece, Place, Results, Size, Table
from gpclass.inference import EP, PosteriorLinearisation, TangentBound, Variational
from gpclass.linalg import Array
from gpclass.montecarlo import MonteCarlo

LIKELIHOODS: Final = ("probit", "logit", "threshold")
METHODS: Final[dict[str, Any]] = {
    '`"laplace"`': "laplace",
    '`"ep"`, parallel': "ep",
    "`EP`, sequential": EP(schedule="sequential"),
    '`"pl"`, parallel': "pl",
    "`PosteriorLinearisation`, sequential": PosteriorLinearisation(schedule="sequential"),
    '`"vi"`': "vi",
    "`Variational`, EP energy": Variational(evidence="ep"),
    '`"bound"`, lower': "bound",
    "`TangentBound`, upper": TangentBound("upper"),
    '`"mcmc"`': "mcmc",
    "`MonteCarlo(thin=200)`": MonteCarlo(thin=200),
}
# Rows that repeat a method for one likelihood, where its defaults are not enough.
ONLY: Final = {"`MonteCarlo(thin=200)`": ("threshold",)}
YES: Final = "yes"


def problem() -> tuple[Array, Any]:
    """Thirty rows of two classes that overlap."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(30, 2))
    return X, np.where(X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * rng.normal(size=30) > 0, 1, 0)


def estimator(method: Any, likelihood: str, **settings: Any) -> GaussianProcessClassifier:
    """An estimator of the pair, with a kernel whose optimum lies within its bounds."""
    kernel = ConstantKernel(4.0, (0.1, 100.0)) * RBF(1.0, (0.1, 10.0))
    return GaussianProcessClassifier(
        kernel, inference=method, likelihood=likelihood, random_state=0, **settings
    )


def fitted(model: GaussianProcessClassifier, weights: Any = None) -> str | None:
    """Fit; None where it ends well, else the reason."""
    X, y = problem()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X, y, sample_weight=weights)
        except ValueError as error:
            return str(error)
    for warning in caught:
        bound = "bound" in str(warning.message)
        if issubclass(warning.category, ConvergenceWarning) and not bound:
            return str(warning.message)
    P = model.predict_proba(X)
    if not (model.converged_ and np.isfinite(P).all() and np.allclose(P.sum(axis=1), 1.0)):
        raise AssertionError(f"{model} says that all is well and it is not")
    return None


def with_fixed_kernel(method: Any, likelihood: str) -> str:
    """The kernel as it is."""
    return fitted(estimator(method, likelihood, optimizer=None)) or YES


def with_learning(learning: str, method: Any, likelihood: str) -> str:
    """Hyperparameters learnt: the evidence must have risen."""
    model = estimator(method, likelihood, learning=learning)
    reason = fitted(model)
    if reason is not None:
        return reason
    before = estimator(method, likelihood, optimizer=None)
    if fitted(before) is None:
        gain = model.log_marginal_likelihood_value_ - before.log_marginal_likelihood_value_
        if gain < 0:
            raise AssertionError(f"learning lowered the evidence of {model} by {-gain}")
    return YES


def with_weights(method: Any, likelihood: str) -> str:
    """Weights 0, 1 and 2: the evidence must be that of the rows left out, once and twice."""
    X, y = problem()
    weights = np.arange(len(y)) % 3.0
    model = estimator(method, likelihood, optimizer=None)
    reason = fitted(model, weights)
    if reason is not None:
        return reason
    repeated = estimator(method, likelihood, optimizer=None)
    often = np.repeat(np.arange(len(y)), weights.astype(int))
    repeated.fit(X[often], y[often])
    gap = model.log_marginal_likelihood_value_ - repeated.log_marginal_likelihood_value_
    allowed = 1e-6
    if method == "mcmc" or isinstance(method, MonteCarlo):
        found: list[Any] = [model.approximation_, repeated.approximation_]
        allowed = 4 * np.hypot(*(q.log_evidence_error for q in found))
    if abs(gap) > allowed:
        raise AssertionError(f"weights are no repetition for {model}: {gap}")
    return YES


CELLS: Final[dict[str, Callable[[Any, str], str]]] = {
    "fixed kernel": with_fixed_kernel,
    'learning="evidence"': partial(with_learning, "evidence"),
    'learning="em"': partial(with_learning, "em"),
    "weights": with_weights,
}


def attempt(method: str, likelihood: str) -> dict[str, str]:
    """Say "yes" for each way of fitting that ends well, else what the code says."""
    return {column: cell(METHODS[method], likelihood) for column, cell in CELLS.items()}


def pieces(size: Size) -> Iterator[Piece]:
    """Each pair."""
    for method in list(METHODS)[:1] if size == "quick" else METHODS:
        for likelihood in ONLY.get(method, LIKELIHOODS):
            arguments = {"method": method, "likelihood": likelihood}
            yield Piece(f"{method} {likelihood}", attempt, arguments, cost=3.0)


def found(results: Results) -> Mapping[Place, Found | float | bool]:
    """How many pairs end well, each way."""
    return {
        ("pairs that end well", column): sum(one[column] == YES for one in results.values())
        for column in CELLS
    } | {("pairs", "all"): len(results)}


def tables(results: Results) -> Mapping[str, Table]:
    """Pairs, with numbers in the place of reasons, and the reasons."""
    reasons: list[str] = []
    rows = []
    for key, one in results.items():
        shown = []
        for reason in (one[column] for column in CELLS):
            if reason != YES and reason not in reasons:
                reasons.append(reason)
            shown.append(YES if reason == YES else f"no ({reasons.index(reason) + 1})")
        rows.append([*key.rsplit(" ", 1), *shown])
    # what Markdown would read as its own
    plain = [re.sub(r"([_*<>\[\]|])", r"\\\1", reason) for reason in reasons]
    numbered = [[str(i), reason] for i, reason in enumerate(plain, start=1)]
    return {
        "pairs": ("Which pairs end well:", ("method", "likelihood", *CELLS), rows),
        "reasons": ("What the others say:", ("", "reason"), numbered),
    }


SETTINGS: Final = """\
Each pair is run on thirty rows. "Fixed kernel" is `optimizer=None`; "evidence" and "em" learn all
hyperparameters, epsilon of the threshold too, and must not end below where they started; "weights"
are 0, 1 and 2, and the evidence must be that of the rows left out, once and twice (to 1e-6; for
Monte Carlo within four standard errors). A cell is "yes" where the fit ends converged and without a
warning of it, else the reason that the code gives.
"""

EXPERIMENT = Experiment(
    name="pairs",
    title="Every method with every likelihood",
    source="No paper has these numbers",
    settings=SETTINGS,
    published=(),
    pieces=pieces,
    found=found,
    tables=tables,
)
