"""Runs of the quality experiment: one JSON line a table, fold and model, written when it is done.

``python -m benchmarks.quality.run`` goes on where the last run stopped.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.model_selection import RepeatedStratifiedKFold
from threadpoolctl import threadpool_limits

from benchmarks.quality.models import MODELS, Maker
from benchmarks.quality.tables import TABLES, Table, load

RESULTS: Final = Path(__file__).resolve().parents[1] / "results" / "quality.jsonl"
FOLDS: Final = 5
BINS: Final = 10
SMALLEST: Final = 1e-15


def splits(table: Table, repetitions: int) -> Iterator[tuple[int, Any, Any]]:
    """Number, training and test rows of each fold: the same for every model."""
    folds = RepeatedStratifiedKFold(n_splits=FOLDS, n_repeats=repetitions, random_state=0)
    with warnings.catch_warnings():
        # a class may have fewer rows than there are folds
        warnings.simplefilter("ignore", UserWarning)
        for k, (train, test) in enumerate(folds.split(table.X, table.y)):
            yield k, train, test


def scores(P: Any, classes: Any, y: Any) -> dict[str, Any]:
    """Scores of probabilities P (m, C), and confidences less accuracies summed in each bin."""
    P = np.clip(P, SMALLEST, 1.0)
    P /= P.sum(axis=1, keepdims=True)
    truth = (np.asarray(y)[:, None] == classes).astype(float)
    # a class that training lacked has probability 0
    found = np.where(truth.any(axis=1), (P * truth).sum(axis=1), SMALLEST)
    top, right = P.max(axis=1), truth[np.arange(len(P)), P.argmax(axis=1)]
    bins = np.minimum((top * BINS).astype(int), BINS - 1)
    return {
        "log_loss": float(-np.log(found).mean()),
        "brier": float((((P - truth) ** 2).sum(axis=1) + (~truth.any(axis=1))).mean()),
        "error": float(1.0 - right.mean()),
        "gaps": np.round(np.bincount(bins, top - right, minlength=BINS), 6).tolist(),
    }


def judge(maker: Maker, table: Table, train: Any, test: Any) -> dict[str, Any]:
    """Fit to the training rows and score the test rows; seconds of both on one core."""
    X, y = table.X.iloc[train], table.y[train]
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(1):
        warnings.simplefilter("always")
        start = time.perf_counter()
        model = maker(X, y).fit(X, y)
        P = model.predict_proba(table.X.iloc[test])
        seconds = time.perf_counter() - start
    found = scores(P, model.classes_, table.y[test])
    found |= {"seconds": round(seconds, 4), "n": len(train), "n_test": len(test)}
    temperature = getattr(model, "temperature_", None)
    if temperature is not None:
        bare = scores(P**temperature, model.classes_, table.y[test])["log_loss"]
        found |= {"temperature": round(temperature, 4), "log_loss_without": bare}
    kinds = sorted({w.category.__name__ for w in caught})
    return found | {"warnings": kinds} | _learnt(model)


def _learnt(model: Any) -> dict[str, Any]:
    """What ours learnt: theta, what ended on a bound, evaluations."""
    last = model[-1] if hasattr(model, "steps") else model
    report = getattr(last, "optimizer_report_", None)
    if report is None or not report.runs:
        return {}
    runs = [one.run for one in report.runs]
    return {
        "kernel": str(last.kernel_),
        "theta": np.round(runs[0].end, 3).tolist(),
        "on_bounds": sorted({i for run in runs for i in run.at_bounds}),
        "evaluations": int(sum(run.n_evaluations for run in runs)),
        "log_evidence": float(last.log_marginal_likelihood_value_),
    }


def read(path: Path) -> list[dict[str, Any]]:
    """All records so far."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run(
    models: Mapping[str, Maker],
    tables: list[str],
    repetitions: int,
    folds: int,
    path: Path,
    limit: float,
) -> bool:
    """Run what is missing, for about ``limit`` seconds; whether nothing is left."""
    done = {(r["table"], r["fold"], r["model"]) for r in read(path)}
    path.parent.mkdir(exist_ok=True)
    end = time.monotonic() + limit
    for k in range(folds):
        for name in tables:
            wanted = [m for m in models if (name, k, m) not in done]
            if not wanted:
                continue
            table = load(name)
            _, train, test = list(splits(table, repetitions))[k]
            for model in wanted:
                if time.monotonic() > end:
                    return False
                record = {"table": name, "fold": k, "model": model}
                record |= judge(models[model], table, train, test)
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
                print(
                    f"{name:24s} {k:2d} {model:22s} log loss {record['log_loss']:.3f} "
                    f"{record['seconds']:7.2f} s",
                    flush=True,
                )
    return True


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="four small tables, one fold")
    parser.add_argument("--repetitions", type=int, default=1, help="of five folds")
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--seconds", type=float, default=np.inf, help="stop after so many")
    given = parser.parse_args()
    tables, folds = given.tables, FOLDS * given.repetitions
    if given.quick:
        tables, folds = ["iris", "crabs_sex", "pima", "new_thyroid"], 1
    models = {name: MODELS[name] for name in given.models}
    done = run(models, tables, given.repetitions, folds, given.results, given.seconds)
    print("complete" if done else "not complete: run it again to go on", flush=True)
    raise SystemExit(0 if done else 3)


if __name__ == "__main__":
    main()
