"""Which objective learns the best hyperparameters? The protocol of Li, John & Solin (2023).

Ten repetitions of 5-fold cross-validation on every table; each method learns the signal variance
and the one length-scale of a Matern-5/2 kernel on the standardised training part by its own
evidence, or averages over them (MCMC); the score is the mean log probability of the test labels.

``python -m experiments.learning_objectives`` goes on where the last run stopped: every fit is one
record of ``results/learning_objectives.json``, written when it is done. ``--table`` writes the
tables into ``docs/learning-objectives.md``. The tables of data are read from the folder
``GPCLASS_DATA``.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from experiments.hyperparameters import sample_hyperparameters
from gpclass import GaussianProcessClassifier
from gpclass.app.datasets import load_dataset
from gpclass.inference import EP, Laplace, PosteriorLinearisation, Variational
from gpclass.likelihoods import Probit

Array = NDArray[np.float64]
Record = dict[str, Any]

RESULTS: Final = Path(__file__).resolve().parent / "results" / "learning_objectives.json"
PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "learning-objectives.md"

SETS: Final = (
    "crabs_sex",
    "glass",
    "new_thyroid_binary",
    "heart_hungarian",
    "ionosphere",
    "pima",
    "breast_cancer_wisconsin",
    "breast_cancer",
)
METHODS: Final[dict[str, Any]] = {
    "laplace": Laplace(),
    "ep": EP(),
    "vi": Variational(),
    "vi, ep energy": Variational(evidence="ep"),
    "pl": PosteriorLinearisation(),
}
MCMC: Final = "mcmc"
NAMES: Final = {
    "laplace": "Laplace",
    "ep": "EP",
    "vi": "VI",
    "vi, ep energy": "VI, EP energy",
    "pl": "PL",
    "mcmc": "MCMC",
}
REPETITIONS: Final = 10
FOLDS: Final = 5
# Wide enough that only an evidence without a maximum leads to a bound.
VARIANCE_BOUNDS: Final = (1e-4, 1e6)
# In units of the root of the number of columns, where a length-scale starts.
LENGTH_BOUNDS: Final = (1e-2, 1e3)
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
# Deviation of the half-normal prior of the signal's deviation, the other prior that is reported.
HALF_NORMAL: Final = 5.0
# The Monte Carlo error is that of the scores of this many parts of the chains.
CHAIN_PARTS: Final = 4


@dataclass(frozen=True)
class Fold:
    """A training and a test part, standardised by the training part; labels -1 and +1."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array


def binary_table(name: str) -> tuple[Array, Array]:
    """Columns and labels; +1 is the second class in alphabetical order."""
    table = load_dataset(name)
    classes, codes = np.unique(table.y, return_inverse=True)
    if len(classes) != 2:
        raise ValueError(f"{name} has {len(classes)} classes, two are expected")
    return np.asarray(table.X, dtype=np.float64), 2.0 * codes - 1.0


def fold_of(X: Array, y: Array, repetition: int, fold: int) -> Fold:
    """The fold's parts; the seed of the split is the number of the repetition."""
    splitter = StratifiedKFold(FOLDS, shuffle=True, random_state=repetition)
    train, test = list(splitter.split(X, y))[fold]
    scaler = StandardScaler().fit(X[train])
    return Fold(scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test])


def fit(part: Fold, inference: Any) -> tuple[GaussianProcessClassifier, list[str]]:
    """Learn by the evidence of a method; the model and the names of its warnings."""
    start = float(np.sqrt(part.X.shape[1]))
    low, high = LENGTH_BOUNDS
    kernel = ConstantKernel(1.0, VARIANCE_BOUNDS) * Matern(
        start, (low * start, high * start), nu=2.5
    )
    model = GaussianProcessClassifier(kernel, likelihood="probit", inference=inference)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(part.X, part.y)
    return model, sorted({w.category.__name__ for w in caught})


def learn(part: Fold, inference: Any) -> Record:
    """Learn by the evidence of a method; the score and how the learning went."""
    began = time.process_time()
    model, warned = fit(part, inference)
    seconds = time.process_time() - began
    (run,) = (reported.run for reported in model.optimizer_report_.runs)
    log_p = log_probabilities(model, part.X_test)
    return score(log_p, part.y_test) | {
        "log_evidence": float(model.log_marginal_likelihood_value_),
        "variance": float(np.exp(model.kernel_.theta[0])),
        "length_scale": float(np.exp(model.kernel_.theta[1])),
        "at_bounds": len(run.at_bounds),
        "evaluations": run.n_evaluations,
        "converged": bool(model.converged_),
        "warnings": warned,
        "seconds": round(seconds, 3),
    }


def integrate(part: Fold, n_draws: int, seed: Any) -> Record:
    """Average over the posterior of hyperparameters and latent values, by MCMC.

    The prior is flat in the logarithms within the bounds. Li, John & Solin have that prior too,
    without bounds, so that their posterior is improper where the classes can be separated. The
    draws are weighted once more for a half-normal prior of the signal's deviation.
    """
    began = time.process_time()
    model, _ = fit(part, EP())
    draws = sample_hyperparameters(
        model.kernel_,
        part.X,
        part.y,
        Probit(),
        part.X_test,
        n_draws=n_draws,
        n_burn=max(20, n_draws // 4),
        random_state=np.random.default_rng(seed),
    )
    # of the deviation's density to one flat in the log variance
    half_normal = 0.5 * draws.theta[0] - 0.5 * np.exp(draws.theta[0]) / HALF_NORMAL**2
    weights = np.exp(half_normal - half_normal.max())
    parts = np.arange(draws.theta.shape[2]) % CHAIN_PARTS
    means = [
        score(draws.log_probabilities(np.where(parts == k, 0.0, -np.inf)), part.y_test)[
            "log_likelihood"
        ]
        for k in range(CHAIN_PARTS)
    ]
    return score(draws.log_probabilities(), part.y_test) | {
        "half_normal": score(draws.log_probabilities(half_normal), part.y_test)["log_likelihood"],
        "half_normal_ess": float(weights.sum() ** 2 / (weights**2).sum()),
        "monte_carlo_error": float(np.std(means, ddof=1) / np.sqrt(CHAIN_PARTS)),
        "rhat": [round(float(r), 4) for r in draws.rhat],
        "ess": [round(float(e), 1) for e in draws.effective_sample_size],
        "theta_mean": [float(t) for t in draws.theta.mean(axis=(1, 2))],
        "theta_deviation": [float(t) for t in draws.theta.std(axis=(1, 2))],
        "acceptance": round(draws.acceptance, 4),
        "evaluations_per_slice": round(draws.evaluations_per_slice, 3),
        "nodes": draws.n_nodes,
        "draws": n_draws,
        "seconds": round(time.process_time() - began, 3),
    }


def log_probabilities(model: GaussianProcessClassifier, X: Array) -> Array:
    """Logarithms of the two probabilities, shape (m, 2), to full relative accuracy."""
    odds = model.decision_function(X)
    return -np.logaddexp(0.0, np.stack([odds, -odds], axis=1))


def score(log_p: Array, y: Array) -> Record:
    """Mean log probability of the labels and fraction of wrong ones."""
    right = np.where(y > 0, log_p[:, 1], log_p[:, 0])
    wrong = np.where(y > 0, log_p[:, 0], log_p[:, 1])
    return {"log_likelihood": float(right.mean()), "error": float((wrong > right).mean())}


# ------------------------------------------------------------------ records


def key(record: Record) -> tuple[str, str, int, int]:
    return record["set"], record["method"], record["repetition"], record["fold"]


def read_records(path: Path = RESULTS) -> list[Record]:
    return list(json.loads(path.read_text())) if path.exists() else []


def write_records(records: Iterable[Record], path: Path = RESULTS) -> None:
    """One record a line; the file is replaced, so that a reader never sees half of one."""
    lines = ",\n".join(json.dumps(record, sort_keys=True) for record in sorted(records, key=key))
    scratch = path.with_suffix(".part")
    scratch.write_text(f"[\n{lines}\n]\n")
    os.replace(scratch, path)


def pending(
    done: set[tuple[str, str, int, int]],
    sets: Iterable[str],
    methods: Iterable[str],
    repetitions: Iterable[int],
) -> Iterator[tuple[str, str, int, int]]:
    """What is left, a repetition of all sets and methods before the next one."""
    for repetition in repetitions:
        for name in sets:
            for method in methods:
                for fold in range(FOLDS):
                    if (name, method, repetition, fold) not in done:
                        yield name, method, repetition, fold


def run(
    sets: Iterable[str],
    methods: Iterable[str],
    repetitions: Iterable[int],
    path: Path = RESULTS,
    seconds: float = np.inf,
) -> None:
    """Fit what is left until the time is up."""
    records = read_records(path)
    tables: dict[str, tuple[Array, Array]] = {}
    began = time.monotonic()
    for name, method, repetition, fold in pending(
        {key(record) for record in records}, list(sets), list(methods), repetitions
    ):
        if time.monotonic() - began > seconds:
            print("time is up")
            return
        if name not in tables:
            tables[name] = binary_table(name)
        part = fold_of(*tables[name], repetition, fold)
        if method == MCMC:
            found = integrate(part, DRAWS[name], seed=[SETS.index(name), repetition, fold])
        else:
            found = learn(part, METHODS[method])
        records.append(
            {"set": name, "method": method, "repetition": repetition, "fold": fold} | found
        )
        write_records(records, path)
        print(*key(records[-1]), f"{found['log_likelihood']:.4f}", found["seconds"], flush=True)


# ------------------------------------------------------------------- tables

BEGIN: Final = "<!-- written by python -m experiments.learning_objectives --table: begin -->"
END: Final = "<!-- written by python -m experiments.learning_objectives --table: end -->"
# Means of Li, John & Solin's repository, python/10seed_result.json, over their 50 folds.
PUBLISHED: Final[dict[str, dict[str, float]]] = {
    "ionosphere": {
        "laplace": -0.224,
        "ep": -0.230,
        "vi": -0.170,
        "vi, ep energy": -0.170,
        "mcmc": -0.179,
    },
    "breast_cancer_wisconsin": {
        "laplace": -0.094,
        "ep": -0.093,
        "vi": -0.093,
        "vi, ep energy": -0.093,
        "mcmc": -0.093,
    },
    "breast_cancer": {
        "laplace": -0.085,
        "ep": -0.140,
        "vi": -0.077,
        "vi, ep energy": -0.075,
        "mcmc": -0.076,
    },
}
# Worse than MCMC by more than this is called worse, as in the comparison that is repeated.
MARGIN: Final = 0.01
ORDER: Final = (*METHODS, MCMC)

Scores = dict[tuple[int, int], Record]


def by_method(records: Iterable[Record], name: str) -> dict[str, Scores]:
    """Records of a set: of each method, by repetition and fold."""
    found: dict[str, Scores] = {method: {} for method in ORDER}
    for record in records:
        if record["set"] == name:
            found[record["method"]][record["repetition"], record["fold"]] = record
    return found


def common_folds(found: dict[str, Scores]) -> list[tuple[int, int]]:
    """Folds that every method has."""
    return sorted(set.intersection(*(set(scores) for scores in found.values())))


def likelihoods(scores: Scores, folds: Iterable[tuple[int, int]], what: str) -> Array:
    return np.array([scores[fold][what] for fold in folds])


def mean_and_error(values: Array) -> str:
    if len(values) < 2:
        return "" if not len(values) else f"{values[0]:.3f}"
    return f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}"


def markdown(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def same_folds_table(records: list[Record]) -> str:
    """Means and standard errors on the folds that all methods have."""
    rows = []
    for name in SETS:
        found = by_method(records, name)
        folds = common_folds(found)
        if folds:
            cells = [
                mean_and_error(likelihoods(found[method], folds, "log_likelihood"))
                for method in ORDER
            ]
            rows.append([name, str(len(folds)), *cells])
    return markdown(["set", "folds", *(NAMES[method] for method in ORDER)], rows)


def difference_table(records: list[Record]) -> str:
    """Differences from MCMC, fold by fold; bold where worse by more than the margin."""
    rows = []
    for name in SETS:
        found = by_method(records, name)
        folds = common_folds(found)
        if not folds:
            continue
        truth = likelihoods(found[MCMC], folds, "log_likelihood")
        cells = []
        for method in METHODS:
            difference = likelihoods(found[method], folds, "log_likelihood") - truth
            text = mean_and_error(difference)
            cells.append(f"**{text}**" if difference.mean() < -MARGIN else text)
        cells.append(mean_and_error(likelihoods(found[MCMC], folds, "half_normal") - truth))
        rows.append([name, *cells])
    names = [NAMES[method] for method in METHODS]
    return markdown(["set", *names, "MCMC, half-normal prior"], rows)


def all_folds_table(records: list[Record]) -> str:
    """Every fold that was done, with their number; the published means below."""
    rows = []
    for name in SETS:
        found = by_method(records, name)
        cells = [
            f"{mean_and_error(likelihoods(scores, scores, 'log_likelihood'))} ({len(scores)})"
            if scores
            else "(0)"
            for scores in found.values()
        ]
        rows.append([name, *cells])
        if name in PUBLISHED:
            published = PUBLISHED[name]
            rows.append(
                ["published", *(f"{published[m]:.3f}" if m in published else "" for m in ORDER)]
            )
    return markdown(["set", *(NAMES[method] for method in ORDER)], rows)


def learning_table(records: list[Record]) -> str:
    """What was learnt, how often on a bound, and the time of a fit."""
    rows = []
    for name in SETS:
        found = by_method(records, name)
        cells = []
        for method in METHODS:
            scores = list(found[method].values())
            if not scores:
                cells.append("")
                continue
            variance = np.median([record["variance"] for record in scores])
            bounds = sum(record["at_bounds"] > 0 for record in scores)
            failed = sum(not record["converged"] for record in scores)
            seconds = np.median([record["seconds"] for record in scores])
            notes = [f"{bounds} on a bound"] * (bounds > 0) + [f"{failed} failed"] * (failed > 0)
            cells.append(", ".join([f"{variance:.3g}", *notes, f"{seconds:.1f} s"]))
        rows.append([name, *cells])
    return markdown(["set", *(NAMES[method] for method in METHODS)], rows)


def chains_table(records: list[Record]) -> str:
    """How the chains mixed."""
    rows = []
    for name in SETS:
        scores = list(by_method(records, name)[MCMC].values())
        if scores:
            rhat = np.array([max(record["rhat"]) for record in scores])
            ess = np.array([min(record["ess"]) for record in scores])
            error = np.array([record["monte_carlo_error"] for record in scores])
            slices = np.mean([record["evaluations_per_slice"] for record in scores])
            rows.append(
                [
                    name,
                    f"{32 * scores[0]['draws']}",
                    f"{np.median(rhat):.3f}, {rhat.max():.3f}",
                    f"{np.median(ess):.0f}, {ess.min():.0f}",
                    f"{np.sqrt((error**2).mean()):.4f}",
                    f"{np.sqrt((error**2).sum()) / len(error):.4f}",
                    f"{np.mean([record['acceptance'] for record in scores]):.2f}",
                    f"{slices:.1f}",
                    f"{np.median([record['seconds'] for record in scores]):.1f}",
                ]
            )
    header = [
        "set",
        "draws",
        "R-hat: median, worst fold",
        "effective draws: median, worst fold",
        "Monte Carlo error, a fold",
        "of the mean",
        "accepted",
        "evaluations a slice",
        "s",
    ]
    return markdown(header, rows)


def render(records: list[Record]) -> str:
    """All tables, between the markers."""
    parts = [
        "Mean test log-likelihood in nats and its standard error, on the folds that all six have:",
        same_folds_table(records),
        "Differences from MCMC on the same folds, with the standard error of the difference; bold "
        f"where worse by more than {MARGIN}:",
        difference_table(records),
        "All folds that were done, their number in brackets, and what Li, John & Solin published "
        "(50 folds of their own; their EP is GPy's):",
        all_folds_table(records),
        "Median of the signal variance that was learnt, fits that ended on its bound of 1e6 or "
        "another, fits whose last inference did not converge, and the median CPU time of learning "
        "(wall time for some of Laplace, EP and PL, on a busy machine):",
        learning_table(records),
        "The chains (the worst of log variance, log length-scale and log likelihood):",
        chains_table(records),
    ]
    return "\n\n".join([BEGIN, *parts, END])


def write_tables(path: Path = PAGE) -> None:
    text = path.read_text()
    start, stop = text.index(BEGIN), text.index(END) + len(END)
    path.write_text(text[:start] + render(read_records()) + text[stop:])


# --------------------------------------------------------------------- runs


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.learning_objectives",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--table", action="store_true", help="write the tables, fit nothing")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, metavar="SET")
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=[*METHODS, MCMC],
        default=[*METHODS, MCMC],
        metavar="METHOD",
    )
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, metavar="R")
    parser.add_argument("--seconds", type=float, default=np.inf, help="stop after that long")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    if options.table:
        write_tables()
    else:
        run(
            options.sets,
            options.methods,
            range(options.repetitions),
            seconds=options.seconds,
        )


if __name__ == "__main__":
    main()
