"""Table of docs/methods.md: every method with every likelihood, by running them.

    python docs/generate/methods.py

A cell is "yes" where the fit ends converged and passes the checks of `Cell`, else the reason that
the code gives. Takes a minute or two.
"""

import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from blocks import table, write_block
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass import GaussianProcessClassifier
from gpclass.exceptions import ConvergenceWarning
from gpclass.inference import EP, PosteriorLinearisation, TangentBound, Variational
from gpclass.montecarlo import MonteCarlo

Array = NDArray[np.float64]

PAGE, BLOCK = "methods.md", "pairs"
LIKELIHOODS = ("probit", "logit", "threshold")
METHODS: dict[str, Any] = {
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
# rows that repeat a method for one likelihood, where its defaults are not enough
ONLY = {"`MonteCarlo(thin=200)`": ("threshold",)}
COLUMNS = ("fixed kernel", 'learning="evidence"', 'learning="em"', "weights")
YES = "yes"


def problem() -> tuple[Array, Array]:
    """Thirty rows of two classes that overlap."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(30, 2))
    return X, np.where(X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * rng.normal(size=30) > 0, 1, 0)


def kernel() -> Any:
    """Kernel whose optimum lies within its bounds."""
    return ConstantKernel(4.0, (0.1, 100.0)) * RBF(1.0, (0.1, 10.0))


def estimator(method: Any, likelihood: str, **settings: Any) -> GaussianProcessClassifier:
    """Return an estimator of the pair."""
    return GaussianProcessClassifier(
        kernel(), inference=method, likelihood=likelihood, random_state=0, **settings
    )


def fitted(model: GaussianProcessClassifier, weights: Array | None = None) -> str | None:
    """Fit; return None where it ends well, else the reason."""
    X, y = problem()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            model.fit(X, y, sample_weight=weights)
        except ValueError as error:
            return str(error)
    for warning in told:
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


def with_learning(learning: str) -> Callable[[Any, str], str]:
    """Hyperparameters learnt: the evidence must have risen."""

    def cell(method: Any, likelihood: str) -> str:
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

    return cell


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
        allowed = 4 * np.hypot(*(m.approximation_.log_evidence_error for m in (model, repeated)))
    if abs(gap) > allowed:
        raise AssertionError(f"weights are no repetition for {model}: {gap}")
    return YES


CELLS: dict[str, Callable[[Any, str], str]] = dict(
    zip(
        COLUMNS,
        (with_fixed_kernel, with_learning("evidence"), with_learning("em"), with_weights),
        strict=True,
    )
)


def rows(methods: dict[str, Any] = METHODS) -> Iterator[list[str]]:
    """Rows of the table, reasons written out: method, likelihood, and the cells."""
    for label, method in methods.items():
        for likelihood in ONLY.get(label, LIKELIHOODS):
            began = time.perf_counter()
            yield [label, likelihood, *(CELLS[c](method, likelihood) for c in COLUMNS)]
            print(f"{label} {likelihood}: {time.perf_counter() - began:.1f} s", file=sys.stderr)


def rendered(found: list[list[str]]) -> str:
    """Table with numbers in the place of reasons, and the list of reasons."""
    reasons: list[str] = []
    lines = []
    for label, likelihood, *cells in found:
        shown = []
        for cell in cells:
            if cell != YES:
                if cell not in reasons:
                    reasons.append(cell)
                cell = f"no ({reasons.index(cell) + 1})"
            shown.append(cell)
        lines.append([label, likelihood, *shown])
    notes = "\n".join(f"{i}. {_plain(reason)}" for i, reason in enumerate(reasons, start=1))
    return table(["method", "likelihood", *COLUMNS], lines) + "\n\n" + notes


def _plain(reason: str) -> str:
    """Escape what Markdown would read as its own."""
    return re.sub(r"([_*<>\[\]])", r"\\\1", reason)


def parsed(block: str) -> list[list[str]]:
    """Undo `rendered`."""
    notes = re.findall(r"^(\d+)\. (.*)$", block, re.M)
    reasons = {number: re.sub(r"\\([_*<>\[\]])", r"\1", reason) for number, reason in notes}
    found = []
    for line in re.findall(r"^\| (.*) \|$", block, re.M)[2:]:
        cells = line.split(" | ")
        number = [re.fullmatch(r"no \((\d+)\)", cell) for cell in cells]
        found.append([reasons[n[1]] if n else c for c, n in zip(cells, number, strict=True)])
    return found


if __name__ == "__main__":
    write_block(PAGE, BLOCK, rendered(list(rows())))
