"""GTS19 Table I: classification errors of Laplace, EP and PL on six tables."""

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.preprocessing import StandardScaler

from gpclass.estimator.classifier import GaussianProcessClassifier
from gpclass.experiments.form import Experiment, Found, Piece, Place, Published, Results, Size
from gpclass.experiments.gts19_plain import Plain, covariance, maximise
from gpclass.experiments.paper_tables import (
    DRAWS,
    FOLDS,
    GTS19,
    against_published,
    folds,
    of_draws,
)
from gpclass.inference import EP, Laplace, PosteriorLinearisation
from gpclass.likelihoods import Likelihood, Logit, NoisyThreshold, Probit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

LIKELIHOODS: Final[dict[str, Likelihood]] = {
    "Prob.": Probit(),
    "Log.": Logit(),
    "NT": NoisyThreshold(0.01, "fixed"),
}
OURS: Final[dict[str, Any]] = {"L": Laplace(), "EP": EP(), "PL": PosteriorLinearisation()}
NOISE: Final = 0.1
# The rows of Table I, in its order of columns: cancer, crab, glass, ionosphere, thyroid, housing.
ERRORS: Final = {
    "Prob. L": (0.051, 0.050, 0.067, 0.108, 0.061, 0.069, 0.067),
    "Prob. PEP": (0.034, 0.045, 0.067, 0.088, 0.062, 0.064, 0.057),
    "Prob. SEP": (0.034, 0.045, 0.067, 0.088, 0.062, 0.064, 0.057),
    "Prob. PPL": (0.037, 0.035, 0.076, 0.083, 0.071, 0.069, 0.059),
    "Prob. SPL": (0.034, 0.045, 0.067, 0.091, 0.057, 0.069, 0.058),
    "Log. L": (0.036, 0.045, 0.071, 0.105, 0.057, 0.067, 0.061),
    "Log. PEP": (0.251, 0.045, 0.071, 0.083, 0.062, 0.070, 0.127),
    "Log. SEP": (0.034, 0.045, 0.067, 0.083, 0.062, 0.070, 0.057),
    "Log. PPL": (0.039, 0.040, 0.071, 0.088, 0.071, 0.067, 0.060),
    "Log. SPL": (0.034, 0.045, 0.067, 0.088, 0.057, 0.067, 0.056),
    "NT PEP": (0.202, 0.085, 0.071, 0.384, 0.454, 0.124, 0.214),
    "NT SEP": (0.034, 0.045, 0.067, 0.086, 0.062, 0.069, 0.058),
    "NT PPL": (0.043, 0.025, 0.081, 0.091, 0.062, 0.058, 0.058),
    "NT SPL": (0.034, 0.035, 0.067, 0.091, 0.057, 0.070, 0.057),
}
# Seconds of the last paragraph, for crab and the probit.
SECONDS: Final = {"L": 0.4, "PEP": 0.7, "SEP": 6.1, "PPL": 0.8, "SPL": 5.5}
# Where one-by-one updates end within minutes.
SMALL_TABLES: Final = ("Crab", "Glass", "Thy.")
PLAIN: Final = ", as they ran it"
AVERAGE: Final = "Ave."


def rows_of(frame: Any, name: str, scaling: str) -> tuple[Array, Array]:
    """All rows of a table, "whitened" or "standardised", and labels -1 and +1."""
    table = GTS19[name].read(frame)
    scaler = PCA(whiten=True) if scaling == "whitened" else StandardScaler()
    return scaler.fit_transform(table.X), np.where(table.y == 1, 1.0, -1.0)


def converged(
    frame: Any, name: str, method: str, likelihood: str, draw: int, scaling: str, folds_run: int
) -> dict[str, Any]:
    """Errors of the library's method on each fold, learnt from GTS19's start."""
    X, y = rows_of(frame, name, scaling)
    kernel = ConstantKernel(10.0, (1e-5, 1e7)) * RBF(1.0, (1e-3, 1e4)) + WhiteKernel(NOISE, "fixed")
    errors, evidences, unconverged = [], [], 0
    for train, test in list(folds(len(y), draw))[:folds_run]:
        model = GaussianProcessClassifier(
            kernel, likelihood=LIKELIHOODS[likelihood], inference=OURS[method]
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # counted below
            model.fit(X[train], y[train])
        errors.append(float(np.mean(model.predict(X[test]) != y[test])))
        evidences.append(float(model.log_marginal_likelihood_value_))
        unconverged += not model.converged_
    return {"errors": errors, "log_evidence": evidences, "not_converged": unconverged}


def as_published(
    frame: Any,
    name: str,
    method: str,
    likelihood: str,
    draw: int,
    scaling: str,
    fix: str,
    order: int,
    wanted: list[int],
) -> dict[str, Any]:
    """Errors of the plain iterations on some folds; PEP, SEP, PPL or SPL."""
    X, y = rows_of(frame, name, scaling)
    plain = plain_of(method, likelihood, fix, order)
    errors, evidences, fixed, seconds = [], [], [], []
    division = list(folds(len(y), draw))
    for train, test in (division[k] for k in wanted):
        start = time.process_time()
        found = learn_plainly(plain, X[train], y[train], X[test])
        seconds.append(time.process_time() - start)
        errors.append(float(np.mean(np.sign(found["mean"]) != y[test])))
        evidences.append(found["log_evidence"])
        fixed.append(found["n_fixed"])
    return {"errors": errors, "log_evidence": evidences, "n_fixed": fixed, "seconds": seconds}


def plain_of(method: str, likelihood: str, fix: str, order: int) -> Plain:
    """Plain iterations by the paper's name of them."""
    schedule = "parallel" if method[0] == "P" else "sequential"
    return Plain(method[1:].lower(), schedule, LIKELIHOODS[likelihood], fix, order)


def learn_plainly(plain: Plain, X: Array, y: Array, X_test: Array) -> dict[str, Any]:
    """Maximise the evidence of plain iterations; the latent means at the test rows."""
    squared = cdist(X, X, "sqeuclidean")

    def K(theta: Array) -> Array:
        return covariance(squared, theta) + NOISE * np.eye(len(y))

    theta, count = maximise(lambda theta: plain.run(K(theta), y).log_evidence)
    end = plain.run(K(theta), y)
    cross = covariance(cdist(X_test, X, "sqeuclidean"), theta)
    return {
        "mean": cross @ end.posterior.mean_weights,
        "theta": theta,
        "log_evidence": end.log_evidence,
        "n_fixed": end.n_fixed,
        "evaluations": count,
    }


def times(frame: Any, draw: int, folds_run: int) -> dict[str, list[float]]:
    """CPU seconds of learning on crab by the same search, the methods in turns."""
    X, y = rows_of(frame, "Crab", "whitened")
    found: dict[str, list[float]] = {method: [] for method in SECONDS}
    for train, test in list(folds(len(y), draw))[:folds_run]:
        for method, seconds in found.items():
            start = time.process_time()
            if method == "L":
                maximise(partial(_laplace, cdist(X[train], X[train], "sqeuclidean"), y[train]))
            else:
                plain = plain_of(method, "Prob.", "variance", 10)
                learn_plainly(plain, X[train], y[train], X[test])
            seconds.append(time.process_time() - start)
    return found


SETTINGS: Final = """\
As the paper says: squared exponential with variance 10 and length-scale 1 to start from, noise
variance 0.1 on the diagonal, which is not learnt; ten folds; columns of zero mean and identity
covariance. New rows have the noise as well: it does not change which class is the more probable
one.

The paper leaves open:

- *The folds.* Ours are five random divisions into ten folds; the value is the mean of the five,
  its error the deviation of one division from another, the range that of the five.
- *Identity covariance* is taken literally: the columns are whitened (all rows of a table
  together). A row below has them standardised.
- *The 16 incomplete rows* of the cancer table: left out, 683 are left.
- *epsilon* of the noisy threshold: 0.01, as in the paper's supplement.
- *The average* is by the number of rows of the tables: so it agrees with the paper's own rows to
  the last digit.
- *The small positive number* that replaces a site's negative variance: 0.01.

Each published cell is compared twice. Rows with the paper's names are the library's methods,
learnt by its own search and converged; parallel and sequential schedules have the same fixed
point, so that PEP and SEP, PPL and SPL share one result. Rows "as they ran it" are ten plain
iterations, quadrature of order 10 (for the logit, and for all integrals of eq. 18), that fix, and
BFGS with differences, on one division into folds, whose error is the standard error of the ten
folds. One-by-one updates run on the three small tables only, as on the others they take hours.
Seconds are CPU time of learning by plain iterations.
"""


def _laplace(squared: Array, y: Array, theta: Array) -> float:
    K = covariance(squared, theta) + NOISE * np.eye(len(y))
    return Laplace()(K, y, Probit()).log_evidence


# About the seconds of ten folds of the library's, and of one of parallel plain iterations.
_COST: Final = {
    "Can.": (15.0, 40.0),
    "Crab": (4.0, 1.5),
    "Glass": (5.0, 1.5),
    "Ionos.": (6.0, 8.0),
    "Thy.": (4.0, 1.5),
    "Hous.": (8.0, 18.0),
}
# What the paper says of failures, before the rest.
_FAILURES: Final = ("Log. PEP", "NT PEP")


def pieces(size: Size) -> Iterable[Piece]:
    """Of the full size: five draws of ours, one draw of plain iterations."""
    quick = size == "quick"
    names = ["Crab"] if quick else list(GTS19)
    folds_run = 1 if quick else FOLDS
    yield from _draw(0, names, folds_run)
    if quick:
        for row in ("Log. PEP", "NT PEP", "NT PPL"):
            yield from _plain(row, "Crab", [0])
        return
    for name in names:
        yield _ours(name, "EP", "Prob.", 0, folds_run, "standardised")
    yield Piece("times", times, {"draw": 0, "folds_run": 3}, (GTS19["Crab"].data,), 60.0)
    rows = [row for row in ERRORS if not row.endswith(" L")]
    for row in sorted(rows, key=lambda row: (row[-3] == "S", row not in _FAILURES)):
        for name in sorted(SMALL_TABLES if row[-3] == "S" else names, key=lambda name: _COST[name]):
            # about a minute or two a piece
            step = FOLDS if name in SMALL_TABLES else 5 if name == "Ionos." else 2
            for first in range(0, FOLDS, step):
                yield from _plain(row, name, list(range(first, first + step)))
    for draw in range(1, DRAWS):
        yield from _draw(draw, names, FOLDS)


def _draw(draw: int, names: list[str], folds_run: int) -> Iterator[Piece]:
    for name in names:
        for likelihood in LIKELIHOODS:
            for method in OURS:
                if (method, likelihood) != ("L", "NT"):
                    yield _ours(name, method, likelihood, draw, folds_run, "whitened")


def _ours(
    name: str, method: str, likelihood: str, draw: int, folds_run: int, scaling: str
) -> Piece:
    arguments = {
        "name": name,
        "method": method,
        "likelihood": likelihood,
        "draw": draw,
        "scaling": scaling,
        "folds_run": folds_run,
    }
    key = f"{likelihood} {method} {name} {scaling} {draw}"
    return Piece(key, converged, arguments, (GTS19[name].data,), _COST[name][0])


def _plain(row: str, name: str, wanted: list[int]) -> Iterator[Piece]:
    likelihood, method = row.split()
    settings = {"NT PEP": [("precision", 10)], "Log. PEP": [("variance", 32)]}.get(row, [])
    for fix, order in [("variance", 10), *settings]:
        arguments = {
            "name": name,
            "method": method,
            "likelihood": likelihood,
            "draw": 0,
            "scaling": "whitened",
            "fix": fix,
            "order": order,
            "wanted": wanted,
        }
        cost = _COST[name][1] * (6.0 if method[0] == "S" else 1.0) * len(wanted)
        key = f"plain {row} {name} {fix} {order} {wanted[0]}"
        yield Piece(key, as_published, arguments, (GTS19[name].data,), cost)


def found(results: Results) -> Mapping[Place, Found | float | bool]:
    """Errors of converged methods, of plain iterations, and ratios of seconds."""
    cells: dict[Place, Found | float | bool] = {}
    for row in ERRORS:
        likelihood, method = row.split()
        ours = method if method == "L" else method[1:]
        cells |= _row(row, results, f"{likelihood} {ours} {{}} whitened ")
        cells |= _row(row + PLAIN, results, f"plain {row} {{}} variance 10 ", whole=True)
    fixed, order = "NT PEP, a negative precision to 0.01", "Log. PEP, quadrature of order 32"
    cells |= _row(fixed, results, "plain NT PEP {} precision 10 ", whole=True)
    cells |= _row(order, results, "plain Log. PEP {} variance 32 ", whole=True)
    cells |= _row("Prob. EP, standardised columns", results, "Prob. EP {} standardised ")
    if "times" in results:
        seconds = {method: np.array(values) for method, values in results["times"].items()}
        for method in list(seconds)[1:]:
            ratios = seconds[method] / seconds["L"]
            error = ratios.std(ddof=1) / np.sqrt(len(ratios)) if len(ratios) > 1 else 0.0
            cells[f"seconds, {method} / L", "Crab"] = Found(float(ratios.mean()), float(error))
    return cells


def _row(row: str, results: Results, key: str, *, whole: bool = False) -> dict[Place, Found]:
    """Cells of a row, from the pieces whose names begin with ``key`` and the table's name.

    ``whole``: the pieces are parts of one division, which is left out unless it is whole.
    """
    draws = {}
    for name in GTS19:
        found = [results[one]["errors"] for one in results if one.startswith(key.format(name))]
        if whole:
            found = [[error for part in found for error in part]]
        if found and found[0]:
            draws[name] = found
    if whole:
        longest = max((len(found[0]) for found in draws.values()), default=0)
        draws = {name: found for name, found in draws.items() if len(found[0]) == longest}
    cells = {(row, name): of_draws(found) for name, found in draws.items()}
    if len(draws) == len(GTS19) and len({len(found) for found in draws.values()}) == 1:
        weights = np.array([_ROWS[name] for name in GTS19])
        means = np.array([[np.mean(one) for one in found] for found in draws.values()])
        averages = weights @ means / weights.sum()
        cells[row, AVERAGE] = of_draws([[float(one)] for one in averages])
    return cells


# Rows of each table: the paper's averages are by these.
_ROWS: Final = {"Can.": 699, "Crab": 200, "Glass": 214, "Ionos.": 351, "Thy.": 215, "Hous.": 506}


def _published() -> Iterator[Published]:
    columns = (*GTS19, AVERAGE)
    for row, errors in ERRORS.items():
        for column, value in zip(columns, errors, strict=True):
            yield Published(row, column, value, 0.001)
    for row, errors in ERRORS.items():
        for column, value in zip(columns, errors, strict=True):
            parallel, small = row.split()[1][0] == "P", column in SMALL_TABLES
            if parallel or (small and not row.endswith(" L")):
                yield Published(row + PLAIN, column, value, 0.001)
    for method, seconds in SECONDS.items():
        if method != "L":
            value = seconds / SECONDS["L"]
            # half a digit of 0.4 is an eighth
            where = "section IV, last paragraph"
            yield Published(f"seconds, {method} / L", "Crab", value, 0.25 * value, where=where)


def figures(results: Results) -> Mapping[str, "Figure"]:
    """Ours over the published error rates."""
    errors = [one for one in EXPERIMENT.published if not one.row.startswith("seconds")]
    picture = against_published(errors, found(results), tuple(GTS19))
    return {"Error rates; bars are ranges over five divisions into folds": picture}


_LOGIT: Final = (
    "not the approximation's: converged EP with exact moments has no such error, nor have ten "
    "plain iterations with quadrature of order 10 and their fix (the row as they ran it). It is "
    "their program's, in a part that the paper does not describe."
)
_DENOMINATOR: Final = (
    "Laplace's method is the library's here, and the others are plain loops, so that the "
    "denominator is small."
)

EXPERIMENT = Experiment(
    name="gts19-1",
    title="Classification errors of Laplace, EP and PL with three likelihoods",
    source="GTS19 Table I and section IV",
    settings=SETTINGS,
    published=tuple(_published()),
    pieces=pieces,
    found=found,
    figures=figures,
    remarks={
        ("Log. PEP", "Can."): _LOGIT,
        ("Log. PEP", AVERAGE): "by the cancer table.",
        ("Log. PEP" + PLAIN, "Can."): _LOGIT,
        ("Log. PEP" + PLAIN, AVERAGE): "by the cancer table.",
        **dict.fromkeys((f"seconds, {method} / L" for method in list(SECONDS)[1:]), _DENOMINATOR),
        "": "not known. The paper's one division into folds may lie outside of the range of "
        "five; its search is another one (from the same start), and epsilon is not printed.",
        "NT PEP": "not the approximation's: EP with the noisy threshold has proper fixed points "
        "with sites of negative precision, which the library keeps. Replacing these does such "
        "damage on ionosphere: see the row as they ran it.",
        "NT PEP" + PLAIN: "on ionosphere the fix alone makes an error of a quarter. How far it "
        "goes may depend on the number that replaces a negative variance, which is not printed; "
        "see the row where the precision is small instead.",
        (
            "NT SEP" + PLAIN,
            "Thy.",
        ): "the fix was needed 1,900 times in the ten folds, and on two of "
        "them the search follows it to log evidences above zero, 28,730 nats once, which no model "
        "has. The row shows what the fix can do; theirs went well, from one division into folds "
        "and with a number in place of negative variances that is not printed.",
        ("Prob. PPL" + PLAIN, AVERAGE): "on five folds of ionosphere, thyroid and housing ten "
        "plain steps have not settled where the search ends: it follows an evidence up to 25 "
        "nats above the converged one, to errors of 0.86 and 1. Such an accident may be behind "
        "their 0.251.",
    },
)
