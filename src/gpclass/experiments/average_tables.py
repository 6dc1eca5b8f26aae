"""What averaging over hyperparameters, and learning by leave-one-out, gain on small tables."""

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from sklearn.metrics import log_loss

from gpclass.estimator.classifier import GaussianProcessClassifier
from gpclass.experiments.draws import mean_and_error
from gpclass.experiments.form import Experiment, Found, Piece, Place, Results, Size, Table
from gpclass.experiments.paper_tables import stratified_folds
from gpclass.experiments.raw_tables import columns_and_classes, data_of
from gpclass.metrics import brier_score

BINARY: Final = ("crabs_sex", "crabs_species")
# Training parts of fewer than 200 rows.
TABLES: Final = (*BINARY, "iris", "wine", "new_thyroid", "glass_types")
LEARNING: Final = ("evidence", "ccd", "loo")
WHAT: Final = ("log_loss", "brier", "loo", "nodes", "fit_s", "predict_s")


def score(table: Any, name: str, learning: str, folds_run: int) -> dict[str, list[float]]:
    """Scores of the default model without a temperature, fold by fold, and CPU seconds."""
    found: dict[str, list[float]] = {what: [] for what in WHAT}
    X, y = columns_and_classes(table, name)
    for train, test in stratified_folds(y)[:folds_run]:
        start = time.process_time()
        model = GaussianProcessClassifier(learning=learning, calibration=None)
        model.fit(X.iloc[train], y[train])
        middle = time.process_time()
        P = model.predict_proba(X.iloc[test])
        end = time.process_time()
        values = (
            log_loss(y[test], P, labels=model.classes_),
            brier_score(y[test], P, labels=model.classes_),
            model.loo_log_loss_,
            len(model.models_[0].learned.nodes),
            middle - start,
            end - middle,
        )
        for what, value in zip(WHAT, values, strict=True):
            found[what].append(float(value))
    return found


def pieces(size: Size) -> Iterator[Piece]:
    """Each table and learner; leave-one-out on two classes alone, where it takes seconds."""
    quick = size == "quick"
    for name in BINARY[:1] if quick else TABLES:
        for learning in LEARNING if name in BINARY else LEARNING[:2]:
            arguments = {"name": name, "learning": learning, "folds_run": 1 if quick else 5}
            yield Piece(f"{name} {learning}", score, arguments, data_of(name), 30.0)


def of(results: Results) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Table, learner and scores of what was run."""
    for key, one in results.items():
        name, learning = key.split()
        yield name, learning, one


def gain(results: Results, name: str, one: Mapping[str, Any]) -> tuple[float, float]:
    """Log loss less that of the evidence on the same folds, with its standard error."""
    base = results[f"{name} evidence"]["log_loss"]
    return mean_and_error(np.subtract(one["log_loss"], base))


def found(results: Results) -> Mapping[Place, Found | float | bool]:
    """Differences of the log loss from learning by the evidence."""
    cells: dict[Place, Found | float | bool] = {}
    for name, learning, one in of(results):
        if learning != "evidence" and f"{name} evidence" in results:
            cells[name, f"{learning} less evidence, log loss"] = Found(*gain(results, name, one))
    return cells


def tables(results: Results) -> Mapping[str, Table]:
    """Means over the folds."""
    rows = []
    for name, learning, one in of(results):
        mean, error = gain(results, name, one)
        means = {what: float(np.mean(one[what])) for what in WHAT}
        rows.append(
            [
                name,
                learning,
                f"{means['log_loss']:.4f}",
                "" if learning == "evidence" else f"{mean:+.4f} ± {error:.4f}",
                f"{means['brier']:.4f}",
                f"{means['loo']:.4f}",
                f"{means['nodes']:.0f}",
                f"{means['fit_s']:.2f}",
                f"{means['predict_s']:.2f}",
            ]
        )
    head = ("table", "learning", "log loss", "difference", "Brier", "leave-one-out", "settings")
    caption = "Means over five folds; CPU seconds of a fit and of the predictions:"
    return {"tables": (caption, (*head, "fit, s", "predict, s"), rows)}


SETTINGS: Final = """\
The default model (EP) without its temperature, on tables whose training parts have fewer than 200
rows; five stratified folds (seed 0). "difference" is from `"evidence"` on the same folds, with its
standard error; "settings" are those of the hyperparameters that predictions average over; Brier
scores are on the scale from 0 to 1.
"""

EXPERIMENT = Experiment(
    name="average-tables",
    title="Averages over hyperparameters and leave-one-out on small tables",
    source="No paper has these numbers",
    settings=SETTINGS,
    published=(),
    pieces=pieces,
    found=found,
    tables=tables,
)
