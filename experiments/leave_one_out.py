"""Leave-one-out from the sites beside real refits, at the same hyperparameters.

``python -m experiments.leave_one_out`` runs what is missing, a JSON line a table and method;
``--page`` prints the table of ``docs/leave-one-out.md``.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from experiments.quality.page import markdown
from experiments.quality.run import read
from experiments.quality.tables import load
from gpclass import GaussianProcessClassifier

RESULTS: Final = Path(__file__).resolve().parent / "results" / "leave_one_out.jsonl"
ROWS: Final = 120
BINARY: Final = {
    "EP": {},
    "Laplace, logit": {"inference": "laplace", "likelihood": "logit"},
    "Laplace, probit": {"inference": "laplace"},
    "PL": {"inference": "pl"},
    "VI, logit": {"inference": "vi", "likelihood": "logit"},
    "tangent bound": {"inference": "bound", "likelihood": "logit"},
}
MANY: Final = {
    "nested EP": {},
    "softmax, Laplace": {"inference": "laplace", "likelihood": "logit"},
    "differences, EP": {"multi_class": "differences"},
    "differences, VI": {"inference": "vi", "likelihood": "logit"},
    "one against the rest, EP": {"multi_class": "one_vs_rest"},
}
TABLES: Final = {"crabs_sex": BINARY, "heart_hungarian": BINARY, "iris": MANY, "wine": MANY}


def judge(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Compare on 120 rows, with the kernel that the default learns from them."""
    table = load(name)
    X, _, y, _ = train_test_split(
        table.X, table.y, train_size=ROWS, stratify=table.y, random_state=0
    )
    learnt = GaussianProcessClassifier().fit(X, y)
    X, y = learnt.X_train_, learnt.y_train_

    def fixed() -> GaussianProcessClassifier:
        return GaussianProcessClassifier(learnt.kernel_, optimizer=None, **settings)

    rows = np.arange(len(y))
    start = time.process_time()
    model = fixed().fit(X, y)
    middle = time.process_time()
    P = model.loo_proba_[rows, y]
    end = time.process_time()
    Q = np.array(
        [fixed().fit(X[rows != i], y[rows != i]).predict_proba(X[[i]])[0, y[i]] for i in rows]
    )
    gaps = np.abs(np.log(P) - np.log(Q))
    return {
        "mean": float(gaps.mean()),
        "largest": float(gaps.max()),
        "sites": float(-np.log(P).mean()),
        "refits": float(-np.log(Q).mean()),
        "seen": float(-np.log(model.predict_proba(X)[rows, y]).mean()),
        "fit_s": middle - start,
        "sites_s": end - middle,
        "refits_s": time.process_time() - end,
    }


def page(path: Path) -> str:
    """Markdown of all records."""
    rows = [
        [
            one["table"],
            one["method"],
            f"{one['mean']:.4f}",
            f"{one['largest']:.3f}",
            f"{one['sites']:.4f}",
            f"{one['refits']:.4f}",
            f"{one['seen']:.4f}",
            f"{one['sites_s']:.3f}",
            f"{one['refits_s']:.1f}",
        ]
        for one in read(path)
    ]
    head = [
        "table",
        "method",
        "mean difference",
        "largest",
        "log loss",
        "by refits",
        "of seen rows",
    ]
    return markdown([*head, "s", "refits, s"], rows)


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so many")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    if given.page:
        print(page(given.results))
        return
    done = set(pd.DataFrame(read(given.results), columns=["table", "method"]).apply(tuple, axis=1))
    end = time.monotonic() + given.seconds
    for name, methods in TABLES.items():
        for method, settings in methods.items():
            if (name, method) in done or time.monotonic() > end:
                continue
            with threadpool_limits(1):
                record = {"table": name, "method": method} | judge(name, settings)
            with given.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            print(record, flush=True)


if __name__ == "__main__":
    main()
