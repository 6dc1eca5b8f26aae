"""Li, John and Solin (2023): the objective that learns the best hyperparameters."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from sklearn.preprocessing import StandardScaler

from gpclass.displays.drawing import COLOURS, MARKERS
from gpclass.estimator.classifier import GaussianProcessClassifier
from gpclass.experiments.draws import mean_and_error
from gpclass.experiments.form import (
    Experiment,
    Found,
    Piece,
    Place,
    Published,
    Results,
    Size,
    Table,
    panels,
)
from gpclass.experiments.paper_tables import stratified_folds
from gpclass.inference import EP, Laplace, PosteriorLinearisation, Variational
from gpclass.likelihoods import Probit
from gpclass.linalg import Array
from gpclass.montecarlo.hyperparameters import HyperparameterSamples, sample_hyperparameters

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS: Final[dict[str, Any]] = {
    "Laplace": Laplace(),
    "EP": EP(),
    "VI": Variational(),
    "VI, EP energy": Variational(evidence="ep"),
    "PL": PosteriorLinearisation(),
}
MCMC: Final = "MCMC"
# Draws of each of 32 chains; more where the latent mixes slowly.
DRAWS: Final = {
    "crabs_sex": 100,
    "glass": 150,
    "new_thyroid_binary": 150,
    "heart_hungarian": 60,
    "ionosphere": 300,
    "pima": 40,
    "breast_cancer_wisconsin": 60,
    "breast_cancer": 100,
}
SETS: Final = tuple(DRAWS)
# Means of python/10seed_result.json over its 50 folds: Laplace, EP, VI, VI with EP energy, MCMC.
PUBLISHED: Final = {
    "ionosphere": "-0.224 -0.230 -0.170 -0.170 -0.179",
    "breast_cancer_wisconsin": "-0.094 -0.093 -0.093 -0.093 -0.093",
    "breast_cancer": "-0.085 -0.140 -0.077 -0.075 -0.076",
}
COLUMNS: Final = ("Laplace", "EP", "VI", "VI, EP energy", MCMC)
REPETITIONS: Final = 10
FOLDS: Final = 5
# Wide enough that only an evidence without a maximum leads to a bound.
VARIANCE_BOUNDS: Final = (1e-4, 1e6)
# In units of the root of the number of columns, where a length-scale starts.
LENGTH_BOUNDS: Final = (1e-2, 1e3)
# Deviation of the half-normal prior of the signal's deviation, the other prior that is reported.
HALF_NORMAL: Final = 5.0
# The Monte Carlo error is that of the scores of this many parts of the chains.
CHAIN_PARTS: Final = 4
# Worse than MCMC by more than this is called worse, as in the paper.
MARGIN: Final = 0.01

Columns = dict[str, list[Any]]


class Fold(NamedTuple):
    """A training and a test part, standardised by the training part; labels -1 and +1."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array


def folds_of(table: Any, repetition: int) -> Iterator[Fold]:
    """Five folds of a data set of two classes; the repetition is the seed of the split."""
    X = np.asarray(table.X, dtype=np.float64)
    y = np.where(np.unique(table.y, return_inverse=True)[1] == 1, 1.0, -1.0)
    for train, test in stratified_folds(y, FOLDS, repetition):
        scaler = StandardScaler().fit(X[train])
        yield Fold(scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test])


def fit(part: Fold, inference: Any) -> GaussianProcessClassifier:
    """Learn by the evidence of a method."""
    start = float(np.sqrt(part.X.shape[1]))
    low, high = LENGTH_BOUNDS
    kernel = ConstantKernel(1.0, VARIANCE_BOUNDS) * Matern(
        start, (low * start, high * start), nu=2.5
    )
    model = GaussianProcessClassifier(kernel, likelihood="probit", inference=inference)
    return model.fit(part.X, part.y)


def score(log_p: Array, y: Array) -> dict[str, Any]:
    """Mean log probability of the labels and fraction of wrong ones; log_p has shape (m, 2)."""
    right, wrong = (np.where(y > 0, log_p[:, k], log_p[:, 1 - k]) for k in (1, 0))
    return {"log_likelihood": float(right.mean()), "error": float((wrong > right).mean())}


def learn(table: Any, method: str, repetition: int, folds_run: int) -> Columns:
    """Learn by the evidence of a method: scores, and how the learning went, fold by fold."""
    found: Columns = {}
    for part in list(folds_of(table, repetition))[:folds_run]:
        model = fit(part, METHODS[method])
        (run,) = (reported.run for reported in model.optimizer_report_.runs)
        # of the log odds, to full relative accuracy
        odds = model.decision_function(part.X_test)
        log_p = -np.logaddexp(0.0, np.stack([odds, -odds], axis=1))
        one = score(log_p, part.y_test) | {
            "log_evidence": float(model.log_marginal_likelihood_value_),
            "variance": float(np.exp(model.kernel_.theta[0])),
            "length_scale": float(np.exp(model.kernel_.theta[1])),
            "at_bounds": len(run.at_bounds),
            "evaluations": run.n_evaluations,
            "converged": bool(model.converged_),
        }
        _append(found, one)
    return found


def integrate(
    table: Any, repetition: int, n_draws: int, seed: Iterable[int], folds_run: int
) -> Columns:
    """Average over hyperparameters and latent values by MCMC, fold by fold.

    The prior is flat in the logarithms within the bounds; the draws are weighted once more for a
    half-normal prior of the signal's deviation.
    """
    found: Columns = {}
    for k, part in enumerate(list(folds_of(table, repetition))[:folds_run]):
        draws = sample_hyperparameters(
            fit(part, EP()).kernel_,
            part.X,
            part.y,
            Probit(),
            part.X_test,
            n_draws=n_draws,
            n_burn=max(20, n_draws // 4),
            random_state=np.random.default_rng([*seed, repetition, k]),
        )
        _append(found, _of_chains(draws, part.y_test))
    return found


def _of_chains(draws: HyperparameterSamples, y: Array) -> dict[str, Any]:
    # from a density flat in the log variance to that of the deviation
    half_normal = 0.5 * draws.theta[0] - 0.5 * np.exp(draws.theta[0]) / HALF_NORMAL**2
    parts = np.arange(draws.theta.shape[2]) % CHAIN_PARTS
    means = [
        score(draws.log_probabilities(np.where(parts == k, 0.0, -np.inf)), y)["log_likelihood"]
        for k in range(CHAIN_PARTS)
    ]
    return score(draws.log_probabilities(), y) | {
        "half_normal": score(draws.log_probabilities(half_normal), y)["log_likelihood"],
        "monte_carlo_error": float(np.std(means, ddof=1) / np.sqrt(CHAIN_PARTS)),
        "rhat": round(float(draws.rhat.max()), 4),
        "ess": round(float(draws.effective_sample_size.min()), 1),
        "acceptance": round(draws.acceptance, 4),
        "evaluations_per_slice": round(draws.evaluations_per_slice, 3),
        "nodes": draws.n_nodes,
    }


def _append(columns: Columns, one: Mapping[str, Any]) -> None:
    for key, value in one.items():
        columns.setdefault(key, []).append(value)


def pieces(size: Size) -> Iterator[Piece]:
    """Each set, repetition and method."""
    quick = size == "quick"
    for name in ["breast_cancer_wisconsin"] if quick else SETS:
        for repetition in range(1 if quick else REPETITIONS):
            same = {"repetition": repetition, "folds_run": 1 if quick else FOLDS}
            for method in METHODS:
                arguments = {"method": method, **same}
                yield Piece(f"{name} {method} {repetition}", learn, arguments, (name,), 8.0)
            arguments = {"n_draws": 5 if quick else DRAWS[name], "seed": [SETS.index(name)], **same}
            yield Piece(f"{name} {MCMC} {repetition}", integrate, arguments, (name,), 30.0)


def of(results: Results, name: str, method: str, what: str = "log_likelihood") -> Array:
    """A column of all folds of a set and a method, in their order."""
    keys = [f"{name} {method} {repetition}" for repetition in range(REPETITIONS)]
    values = [value for key in keys if key in results for value in results[key][what]]
    return np.array(values)


def differences(results: Results, name: str, method: str) -> Array:
    """Log likelihoods less those of MCMC on the same folds."""
    return of(results, name, method) - of(results, name, MCMC)


ENERGY: Final = "the EP energy at VI's sites learns better than VI's bound, on most sets"
KEEPS_UP: Final = "VI with the EP energy is nowhere behind MCMC by more than 0.01"
OTHERS: Final = "Laplace, EP and VI by its bound are each behind MCMC by more than 0.01 on some set"
HOLDS: Final = "holds"


def found(results: Results) -> Mapping[Place, Found | float | bool]:
    """Means and standard errors of the published sets; claims where every set was run."""
    cells: dict[Place, Found | float | bool] = {}
    for name in PUBLISHED:
        for method in COLUMNS:
            values = of(results, name, method)
            if len(values):
                cells[name, method] = Found(*mean_and_error(values))
    runs = {(name, method) for name in SETS for method in (*METHODS, MCMC)}
    if all(len(of(results, *run)) == REPETITIONS * FOLDS for run in runs):
        worst = {m: min(differences(results, s, m).mean() for s in SETS) for m in METHODS}
        gains = [of(results, s, "VI, EP energy") - of(results, s, "VI") for s in SETS]
        better = [mean > 2.0 * error for mean, error in map(mean_and_error, gains)]
        cells[ENERGY, HOLDS] = sum(better) > len(SETS) / 2
        cells[KEEPS_UP, HOLDS] = bool(worst["VI, EP energy"] > -MARGIN)
        cells[OTHERS, HOLDS] = all(worst[m] < -MARGIN for m in ("Laplace", "EP", "VI"))
    return cells


def figures(results: Results) -> Mapping[str, "Figure"]:
    """Differences from MCMC, a line a set."""
    ran = [name for name in SETS if len(of(results, name, MCMC))]
    figure, axes = panels(1, 1, 5.6)
    ax = axes.flat[0]
    for k, (method, colour, marker) in enumerate(zip(METHODS, COLOURS, MARKERS, strict=False)):
        pairs = [mean_and_error(differences(results, name, method)) for name in ran]
        means, errors = zip(*pairs, strict=True)
        at = np.arange(len(ran)) + 0.12 * (k - 2)
        ax.errorbar(means, at, xerr=errors, fmt=marker, color=colour, ms=4, lw=0.8, label=method)
    ax.axvline(0.0, color="0.7", lw=0.8, zorder=0)
    ax.set_yticks(range(len(ran)), ran)
    ax.set(xlabel="test log-likelihood less that of MCMC, nats", ylim=(len(ran) - 0.5, -0.5))
    figure.legend(loc="outside upper center", ncols=len(METHODS), frameon=False)
    return {"Differences from MCMC on the same folds, with standard errors": figure}


def tables(results: Results) -> Mapping[str, Table]:
    """Means, differences from MCMC, what was learnt, and how the chains mixed."""
    ran = [name for name in SETS if len(of(results, name, MCMC))]
    methods = (*METHODS, MCMC)
    means = [[name, *(text(of(results, name, m)) for m in methods)] for name in ran]
    return {
        "means": (
            "Mean test log-likelihood in nats and its standard error over the folds:",
            ("set", *methods),
            means,
        ),
        "differences": (
            "Differences from MCMC on the same folds, with the standard error of the difference; "
            f"bold where worse by more than {MARGIN}:",
            ("set", *METHODS, "MCMC, half-normal prior"),
            [_differences(results, name) for name in ran],
        ),
        "learnt": (
            "Median of the signal variance that was learnt, fits that ended on its bound of 1e6 "
            "or another, and fits whose last inference did not converge:",
            ("set", *METHODS),
            [[name, *(_learnt(results, name, method) for method in METHODS)] for name in ran],
        ),
        "chains": (
            "The chains (the worst of log variance, log length-scale and log likelihood):",
            (
                "set",
                "draws",
                "R-hat: median, worst fold",
                "effective draws: median, worst fold",
                "Monte Carlo error, a fold",
                "of the mean",
                "accepted",
                "evaluations a slice",
            ),
            [_chains(results, name) for name in ran],
        ),
    }


def text(values: Array) -> str:
    """Mean and standard error."""
    mean, error = mean_and_error(values)
    return f"{mean:.3f} ± {error:.3f}" if len(values) > 1 else f"{mean:.3f}"


def _differences(results: Results, name: str) -> list[str]:
    cells = []
    for method in METHODS:
        found = differences(results, name, method)
        cells.append(f"**{text(found)}**" if found.mean() < -MARGIN else text(found))
    half_normal = of(results, name, MCMC, "half_normal") - of(results, name, MCMC)
    return [name, *cells, text(half_normal)]


def _learnt(results: Results, name: str, method: str) -> str:
    variance, at_bounds, converged = (
        of(results, name, method, what) for what in ("variance", "at_bounds", "converged")
    )
    on_bound, failed = int((at_bounds > 0).sum()), int((~converged.astype(bool)).sum())
    notes = [f"{on_bound} on a bound"] * (on_bound > 0) + [f"{failed} failed"] * (failed > 0)
    return ", ".join([f"{np.median(variance):.3g}", *notes])


def _chains(results: Results, name: str) -> list[str]:
    rhat, ess, error, accepted, slices = (
        of(results, name, MCMC, what)
        for what in ("rhat", "ess", "monte_carlo_error", "acceptance", "evaluations_per_slice")
    )
    return [
        name,
        str(32 * DRAWS[name]),
        f"{np.median(rhat):.3f}, {rhat.max():.3f}",
        f"{np.median(ess):.0f}, {ess.min():.0f}",
        f"{np.sqrt((error**2).mean()):.4f}",
        f"{np.sqrt((error**2).sum()) / len(error):.4f}",
        f"{accepted.mean():.2f}",
        f"{slices.mean():.1f}",
    ]


SETTINGS: Final = """\
As published: the two hyperparameters of a Matérn-5/2 kernel, a signal variance and one
length-scale, learnt by each method's own evidence on standardised columns; the probit; 5-fold
cross-validation, ten times; the score is the mean log probability of the test labels. Published
are the means of `python/10seed_result.json` in the repository of the paper
(AaltoML/improved-hyperparameter-learning), of the three of its sets that are at hand; their EP is
GPy's. [](../learning-objectives.md) says what was found, and how the sampler works.

What differs or is open:

- *Folds.* Ours are stratified, the number of the repetition the seed of the split.
- *Sets.* `breast_cancer_wisconsin` has 683 complete rows here and 699 there; their tables keep a
  row number as a column.
- *Starts and bounds.* Every method starts at variance 1 and length-scale root d, within 1e-4 to
  1e6 for the variance and 0.01 to 1000 root d for the length-scale; their Laplace and EP start at
  length-scale 1.
- *MCMC* is ours (`gpclass.montecarlo.hyperparameters`), with their prior, flat in the logarithms,
  within these bounds; without bounds the posterior is improper where classes can be separated.
- PL, the other sets, and MCMC under a half-normal prior (deviation 5) of the signal's deviation
  are not in the paper.
"""


def published() -> Iterator[Published]:
    """Means of the three sets, and claims."""
    for name, numbers in PUBLISHED.items():
        for method, number in zip(COLUMNS, numbers.split(), strict=True):
            yield Published(name, method, float(number), 0.001)
    yield Published(ENERGY, HOLDS, True, where="abstract")
    yield Published(KEEPS_UP, HOLDS, True, where="the means of their 27 sets")
    yield Published(OTHERS, HOLDS, True, where="the means of their 27 sets")


EXPERIMENT = Experiment(
    name="ljs23",
    title="Which evidence learns the best hyperparameters?",
    source="Li, John & Solin, ICML 2023, python/10seed_result.json of their repository",
    settings=SETTINGS,
    published=tuple(published()),
    pieces=pieces,
    found=found,
    figures=figures,
    tables=tables,
    remarks={
        ("ionosphere", "EP"): "their EP is GPy's. A converged EP scores as their MCMC.",
        ("breast_cancer", "EP"): "their EP is GPy's. A converged EP scores as their MCMC.",
        ENERGY: "the sets on which the bound lost in the published run (parkinsons and monks-2 "
        "among them) are not at hand; on ours the two differ by 0.004 at most.",
        OTHERS: "EP that converges, and VI by its own bound, are within 0.01 of MCMC on all eight "
        "sets; Laplace's method is not.",
        "": "their folds are others, are not stratified, and their sets keep a row number.",
    },
)
