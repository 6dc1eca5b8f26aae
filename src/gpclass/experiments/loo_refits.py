"""Leave-one-out from the sites beside real refits, at the same hyperparameters."""

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from sklearn.model_selection import train_test_split

from gpclass.estimator.classifier import GaussianProcessClassifier
from gpclass.experiments.form import Experiment, Found, Piece, Place, Results, Size, Table
from gpclass.experiments.raw_tables import columns_and_classes, data_of

ROWS: Final = 120
Settings = dict[str, dict[str, Any]]
BINARY: Final[Settings] = {
    "EP": {},
    "Laplace, logit": {"inference": "laplace", "likelihood": "logit"},
    "Laplace, probit": {"inference": "laplace"},
    "PL": {"inference": "pl"},
    "VI, logit": {"inference": "vi", "likelihood": "logit"},
    "tangent bound": {"inference": "bound", "likelihood": "logit"},
}
MANY: Final[Settings] = {
    "nested EP": {},
    "softmax, Laplace": {"inference": "laplace", "likelihood": "logit"},
    "differences, EP": {"multi_class": "differences"},
    "differences, VI": {"inference": "vi", "likelihood": "logit"},
    "one against the rest, EP": {"multi_class": "one_vs_rest"},
}
TABLES: Final = {"crabs_sex": BINARY, "heart_hungarian": BINARY, "iris": MANY, "wine": MANY}


def compare(table: Any, name: str, method: str, n_rows: int) -> dict[str, Any]:
    """Both ways on some rows, with the kernel that the default learns from them."""
    X, y = columns_and_classes(table, name)
    X, _, y, _ = train_test_split(X, y, train_size=n_rows, stratify=y, random_state=0)
    learnt = GaussianProcessClassifier().fit(X, y)
    X, y, settings = learnt.X_train_, learnt.y_train_, (BINARY | MANY)[method]

    def fixed() -> GaussianProcessClassifier:
        return GaussianProcessClassifier(learnt.kernel_, optimizer=None, **settings)

    rows = np.arange(len(y))
    model = fixed().fit(X, y)
    start = time.process_time()
    P = model.loo_proba_[rows, y]
    middle = time.process_time()
    Q = np.array(
        [fixed().fit(X[rows != i], y[rows != i]).predict_proba(X[[i]])[0, y[i]] for i in rows]
    )
    end = time.process_time()
    gaps = np.abs(np.log(P) - np.log(Q))
    return {
        "mean": gaps.mean(),
        "largest": gaps.max(),
        "sites": -np.log(P).mean(),
        "refits": -np.log(Q).mean(),
        "seen": -np.log(model.predict_proba(X)[rows, y]).mean(),
        "sites_s": middle - start,
        "refits_s": end - middle,
    }


def pieces(size: Size) -> Iterator[Piece]:
    """Each table and method."""
    quick = size == "quick"
    for name in ("crabs_sex", "iris") if quick else TABLES:
        for method in list(TABLES[name])[: 2 if quick else None]:
            arguments = {"name": name, "method": method, "n_rows": 24 if quick else ROWS}
            yield Piece(f"{name}, {method}", compare, arguments, data_of(name), 10.0)


def found(results: Results) -> Mapping[Place, Found | float | bool]:
    """The largest differences of each method over the tables."""
    cells: dict[Place, Found | float | bool] = {}
    for method in BINARY | MANY:
        mine = [one for key, one in results.items() if key.partition(", ")[2] == method]
        if mine:
            cells[method, "largest mean difference"] = max(one["mean"] for one in mine)
            cells[method, "largest difference"] = max(one["largest"] for one in mine)
    return cells


def tables(results: Results) -> Mapping[str, Table]:
    """Every table and method."""
    head = ("table", "method", "mean difference", "largest", "log loss", "by refits")
    formats = {
        "mean": ".4f",
        "largest": ".3f",
        "sites": ".4f",
        "refits": ".4f",
        "seen": ".4f",
        "sites_s": ".3f",
        "refits_s": ".1f",
    }
    rows = [
        [*key.split(", ", 1), *(format(one[what], digits) for what, digits in formats.items())]
        for key, one in results.items()
    ]
    caption = "Differences of the log probabilities, log losses, and CPU seconds:"
    return {"refits": (caption, (*head, "of seen rows", "s", "refits, s"), rows)}


SETTINGS: Final = """\
120 rows of each table (stratified, seed 0), with the kernel that the default learns from them,
held fixed. The differences are of $\\log p(y_i \\mid y_{-i})$ between the sites and a fit of the
other 119 rows; "of seen rows" is the log loss on the training rows themselves. The formulas are in
[](../leave-one-out.md).
"""

EXPERIMENT = Experiment(
    name="loo-refits",
    title="Leave-one-out from the sites, beside real refits",
    source="RW06 eq. 3.56; no paper has these numbers",
    settings=SETTINGS,
    published=(),
    pieces=pieces,
    found=found,
    tables=tables,
)
