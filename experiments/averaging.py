"""What averaging over hyperparameters, and learning by leave-one-out, gain on small tables.

``python -m experiments.averaging`` runs what is missing, a JSON line a table, fold and learner;
``--page`` prints the table of ``docs/leave-one-out.md``.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any, Final

import pandas as pd
from threadpoolctl import threadpool_limits

from experiments.quality.page import markdown
from experiments.quality.run import read, scores, splits
from experiments.quality.tables import load
from gpclass import GaussianProcessClassifier

RESULTS: Final = Path(__file__).resolve().parent / "results" / "averaging.jsonl"
# Tables of the quality experiment whose training parts have fewer than 200 rows.
TABLES: Final = ["crabs_sex", "crabs_species", "iris", "wine", "new_thyroid", "glass"]
BINARY: Final = ("crabs_sex", "crabs_species")


def judge(learning: Any, name: str, fold: int) -> dict[str, Any]:
    """Scores of the default model on one fold; seconds of the process for fit and prediction."""
    table = load(name)
    _, train, test = list(splits(table, 1))[fold]
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(1):
        warnings.simplefilter("always")
        start = time.process_time()
        model = GaussianProcessClassifier(learning=learning, calibration=None)
        model.fit(table.X.iloc[train], table.y[train])
        fitted = time.process_time()
        P = model.predict_proba(table.X.iloc[test])
        end = time.process_time()
    found = scores(P, model.classes_, table.y[test])
    found |= {"fit": fitted - start, "predict": end - fitted, "loo": model.loo_log_loss_}
    nodes = model.models_[0].learned.nodes
    effective = 1.0 / sum(node.weight**2 for node in nodes)
    kinds = sorted({w.category.__name__ for w in caught})
    return found | {"nodes": len(nodes), "effective": effective, "warnings": kinds}


def page(path: Path) -> str:
    """Markdown: means over the folds of each table, differences from the evidence on the same."""
    frame = pd.DataFrame(read(path))
    rows = []
    for name in [name for name in TABLES if name in set(frame.table)]:
        of = {
            k: part.set_index("fold") for k, part in frame[frame.table == name].groupby("learning")
        }
        for learning in ("evidence", "ccd", "loo"):
            if learning not in of:
                continue
            one, base = of[learning], of["evidence"]
            gain = (one.log_loss - base.log_loss).dropna()
            error = gain.std() / len(gain) ** 0.5
            rows.append(
                [
                    name,
                    learning,
                    f"{one.log_loss.mean():.4f}",
                    "" if learning == "evidence" else f"{gain.mean():+.4f} ± {error:.4f}",
                    f"{one.brier.mean():.4f}",
                    f"{one.loo.mean():.4f}",
                    f"{one.nodes.mean():.0f}",
                    f"{one.fit.mean():.2f}",
                    f"{one.predict.mean():.2f}",
                ]
            )
    head = ["table", "learning", "log loss", "difference", "Brier", "leave-one-out", "settings"]
    return markdown([*head, "fit, s", "predict, s"], rows)


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="*", default=TABLES)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so many")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    if given.page:
        print(page(given.results))
        return
    done = {(r["table"], r["fold"], r["learning"]) for r in read(given.results)}
    end = time.monotonic() + given.seconds
    for fold in range(5):
        for name in given.tables:
            for learning in ("evidence", "ccd", "loo")[: 3 if name in BINARY else 2]:
                if (name, fold, learning) in done or time.monotonic() > end:
                    continue
                record = {"table": name, "fold": fold, "learning": learning}
                record |= judge(learning, name, fold)
                with given.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
                print({k: v for k, v in record.items() if k != "gaps"}, flush=True)


if __name__ == "__main__":
    main()
