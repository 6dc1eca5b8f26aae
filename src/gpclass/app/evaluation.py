"""Models side by side on one table, by cross-validation on the same stratified folds."""

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TextIO, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.gaussian_process import GaussianProcessClassifier as SklearnClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.utils.multiclass import type_of_target
from threadpoolctl import threadpool_limits

from gpclass.app.tables import require_pandas
from gpclass.estimator.classifier import GaussianProcessClassifier
from gpclass.estimator.inputs import TableEncoder
from gpclass.estimator.weights import check_target
from gpclass.exceptions import CostWarning
from gpclass.metrics import Floats, brier_score, information_bits

# Columns of the scores, in the order in which they are shown.
SCORES = ("log_loss", "brier", "error", "information", "log_evidence", "seconds")


@final
class _InnerFolds:
    """Stratified folds: five, or fewer where a class has fewer rows (scikit-learn would warn)."""

    def __init__(self, random_state: int) -> None:
        self.random_state = random_state

    def split(self, X: Any, y: Any, groups: Any = None) -> Iterator[Any]:
        smallest = int(np.unique(y, return_counts=True)[1].min())
        if smallest < 2:
            raise ValueError("cross-validation inside a fold needs two rows of each class.")
        folds = StratifiedKFold(min(5, smallest), shuffle=True, random_state=self.random_state)
        yield from folds.split(X, y)

    # scikit-learn demands it of an object given as cv
    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        return 5 if y is None else min(5, int(np.unique(y, return_counts=True)[1].min()))


def default_models(
    random_state: int = 0, *, gp_parameters: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Our classifier, with arguments ``gp_parameters``, and the models that it is compared with.

    "scikit-learn GP" has a kernel that it learns; "as it comes" is ``GaussianProcessClassifier()``;
    the penalty of "logistic regression" is chosen by cross-validated log loss. These three see the
    columns that ours makes of a table (`TableEncoder`).

    Examples
    --------
    >>> from gpclass.app.evaluation import default_models
    >>> list(default_models())
    ['gpclass', 'scikit-learn GP', 'scikit-learn GP, as it comes', 'logistic regression']
    """
    gp = GaussianProcessClassifier(random_state=random_state).set_params(**(gp_parameters or {}))
    # scikit-learn's default kernel is fixed, and much worse on 30 standardised columns (log loss
    # 0.58 against 0.09 on breast_cancer) than the same kernel learnt, which is the fair opponent.
    learnt = SklearnClassifier(1.0 * RBF(1.0), random_state=random_state)
    # From scikit-learn 1.8 on, leaving these arguments out warns; older versions lack them.
    current = {"l1_ratios": (0.0,), "use_legacy_attributes": False}
    known = LogisticRegressionCV().get_params()
    options = {k: v for k, v in current.items() if "use_legacy_attributes" in known}
    logistic = LogisticRegressionCV(
        Cs=np.logspace(-4, 4, 17),
        cv=_InnerFolds(random_state),
        scoring="neg_log_loss",
        max_iter=1000,
        **options,
    )
    rivals = {
        "scikit-learn GP": learnt,
        "scikit-learn GP, as it comes": SklearnClassifier(random_state=random_state),
        "logistic regression": logistic,
    }
    behind = {name: make_pipeline(TableEncoder(), model) for name, model in rivals.items()}
    return {"gpclass": gp} | behind


class ModelScores(NamedTuple):
    """Scores of one model, a row a fold, and how many fits gave each of the ``warnings``.

    The columns are mean negative log probability of the observed class in nats (log_loss);
    `gpclass.metrics.brier_score`; fraction of wrong decisions (error); information in bits above
    the training part's frequencies (`gpclass.metrics.information_bits`); the fitted model's
    log_evidence, NaN where it has none; wall-clock seconds of fit and prediction.
    """

    folds: Any
    warnings: dict[str, int]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Scores and out-of-fold probabilities of several models on one table.

    ``probabilities`` (n, C) of each model are those by the fit that did not see the row, ``y`` (n,)
    the observed classes, ``classes`` (C,) those of the columns, and ``fold`` (n,) the fold in which
    each row was predicted.
    """

    models: dict[str, ModelScores]
    probabilities: dict[str, Floats]
    y: NDArray[Any]
    classes: NDArray[Any]
    fold: NDArray[np.intp]
    random_state: int

    @property
    def n_splits(self) -> int:
        """Number of folds."""
        return int(self.fold.max()) + 1

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists for JSON; a score that a model does not have is None."""

        def plain(value: float) -> float | None:
            return float(value) if np.isfinite(value) else None

        return {
            "n": int(self.y.size),
            "classes": self.classes.tolist(),
            "class_counts": [int((self.y == c).sum()) for c in self.classes],
            "folds": self.n_splits,
            "seed": self.random_state,
            "models": {
                name: {
                    score: {
                        "mean": plain(values.mean()),
                        "standard_error": plain(values.sem()),
                        "folds": [plain(value) for value in values],
                    }
                    for score, values in scores.folds.items()
                }
                | {"warnings": scores.warnings}
                for name, scores in self.models.items()
            },
        }


def check_classes(y: ArrayLike, *, name: str = "y", fewest: int = 1) -> NDArray[Any]:
    """Check that a column ``y``, called ``name`` in messages, can be a class; return its classes.

    ValueError if it is continuous, has one class or hundreds, or one of fewer than `fewest` rows.
    """
    y = np.asarray(y)
    kind = type_of_target(y, input_name=name)
    if kind not in ("binary", "multiclass"):
        raise ValueError(f"the target {name} is continuous; classes are expected.")
    classes, counts = np.unique(y, return_counts=True)
    if classes.size < 2:
        raise ValueError(
            f"the target {name} has one class only ({classes[0]!s}); at least two are needed."
        )
    check_target(classes.size, y.size, f"the target {name}")
    if counts.min() < fewest:
        smallest = classes[counts.argmin()]
        raise ValueError(
            f"the class {smallest!s} of the target {name} has {counts.min()} "
            f"row{'s' if counts.min() > 1 else ''}, but {fewest} are needed, one for each fold; "
            "take fewer folds or leave the class out."
        )
    return classes


def compare(
    models: Mapping[str, BaseEstimator],
    X: Any,
    y: ArrayLike,
    *,
    n_splits: int = 10,
    random_state: int = 0,
    blas_threads: int | None = 1,
    progress: Callable[[str, int, int], None] | None = None,
) -> Comparison:
    """Cross-validate named models on the same stratified folds.

    Parameters
    ----------
    models : mapping of str to classifier
        Unfitted classifiers with `predict_proba`; each is cloned for each fold.
    X, y : array-like or DataFrame of shape (n, d), array-like of shape (n,)
    n_splits, random_state : int, default=10, 0
        Number of folds, at most the size of the smallest class, and their seed.
    blas_threads : int or None, default=1
        Threads of linear algebra in every fit alike; None leaves them as they are.
    progress : callable, default=None
        ``progress(name, done, total)`` before each fit of a named model, and at the end without
        name.

    Raises
    ------
    ValueError
        If there is no model, the number of folds is out of range, or `y` cannot be a class.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from gpclass.app.evaluation import compare
    >>> comparison = compare({"Bayes": GaussianNB()}, *load_iris(return_X_y=True), n_splits=5)
    >>> round(float(comparison.models["Bayes"].folds["error"].mean()), 2)
    0.04
    """
    DataFrame = require_pandas().DataFrame
    if not models:
        raise ValueError("there is no model to compare.")
    if n_splits < 2:
        raise ValueError(f"the number of folds must be at least 2, got {n_splits}.")
    y = np.asarray(y)
    classes = check_classes(y, fewest=n_splits)
    splitter = StratifiedKFold(n_splits, shuffle=True, random_state=random_state)
    parts = list(splitter.split(np.zeros(y.size), y))
    fold = np.empty(y.size, dtype=np.intp)
    values: dict[str, list[tuple[float, ...]]] = {name: [] for name in models}
    proba = {name: np.empty((y.size, classes.size)) for name in models}
    noted: dict[str, Counter[str]] = {name: Counter() for name in models}
    done = 0
    # Folds outside, models inside: what else the machine does meanwhile falls on all models alike.
    for k, (train, test) in enumerate(parts):
        fold[test] = k
        for name, model in models.items():
            if progress is not None:
                progress(name, done, n_splits * len(models))
            # At the size of a fold, threads wait for each other more than they share: the whole
            # breast_cancer comparison took 16 s with one and 220 s with two on two busy cores.
            with (
                _kept_warnings(noted[name]),
                threadpool_limits(blas_threads, user_api="blas"),
            ):
                p, evidence, seconds = _fit_and_predict(model, X, y, train, test)
            proba[name][test] = p
            values[name].append((*_scores(y[train], y[test], p, classes), evidence, seconds))
            done += 1
    if progress is not None:
        progress("", done, done)
    scores = {
        name: ModelScores(DataFrame(rows, columns=list(SCORES)), dict(noted[name]))
        for name, rows in values.items()
    }
    return Comparison(scores, proba, y, classes, fold, random_state)


@contextmanager
def _kept_warnings(noted: Counter[str]) -> Iterator[None]:
    """Count the warnings of one fit, each once; what a fit will cost is shown at once, if new."""
    caught: set[str] = set()
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def keep(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, CostWarning):
                if not any(text.startswith(category.__name__) for text in noted):
                    shown(message, category, filename, lineno)
                message = "said before the fit"
            caught.add(f"{category.__name__}: {' '.join(str(message).split())}")

        warnings.simplefilter("always")
        warnings.showwarning = keep
        yield
    noted.update(caught)


def _fit_and_predict(
    model: BaseEstimator, X: Any, y: NDArray[Any], train: NDArray[np.intp], test: NDArray[np.intp]
) -> tuple[Floats, float, float]:
    """Fit on the training rows; return test probabilities, log evidence and wall-clock seconds."""
    rows = X.iloc if hasattr(X, "iloc") else np.asarray(X)
    start = time.perf_counter()
    fitted = clone(model).fit(rows[train], y[train])
    p = np.asarray(fitted.predict_proba(rows[test]), dtype=np.float64)
    seconds = time.perf_counter() - start
    last = fitted[-1] if hasattr(fitted, "steps") else fitted
    return p, float(getattr(last, "log_marginal_likelihood_value_", np.nan)), seconds


def _scores(
    y_train: NDArray[Any], y_test: NDArray[Any], p: Floats, classes: NDArray[Any]
) -> tuple[float, float, float, float]:
    """Return log loss, Brier score, error rate and information of one fold."""
    frequencies = [(y_train == c).sum() for c in classes]
    return (
        float(log_loss(y_test, p, labels=classes)),
        brier_score(y_test, p, labels=classes),
        float(np.mean(classes[p.argmax(axis=1)] != y_test)),
        information_bits(y_test, p, labels=classes, baseline=frequencies),
    )
