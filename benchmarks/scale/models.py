"""What is compared on large tables, each at its documented settings."""

import os
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from benchmarks.quality import models
from benchmarks.quality.models import columns, with_categories
from benchmarks.scale.tables import Split
from gpclass import GaussianProcessClassifier
from gpclass.kernels import median_distance

# Seconds of learning so far, CPU seconds of all threads so far, probabilities of the test rows and
# their classes.
Answer = tuple[float, float, Any, Any]
SUBSAMPLE: Final = 2000
# Rows and points that a kernel is learnt by, which then stays.
FEW: Final = 5000
FEW_POINTS: Final = 300
THREADS: Final = int(os.environ.get("OMP_NUM_THREADS", "2"))


def _fitted(
    model: Any, split: Split, X: Any = None, y: Any = None, **weights: Any
) -> Iterator[Answer]:
    start, cpu = time.perf_counter(), time.process_time()
    model.fit(split.X if X is None else X, split.y if y is None else y, **weights)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    yield seconds, cpu, model.predict_proba(split.X_test), model.classes_


def ours(split: Split, m: int) -> Iterator[Answer]:
    """The default with inducing points, the variational form."""
    model = GaussianProcessClassifier(inference="vi", inducing=m, random_state=0, verbose=1)
    yield from _fitted(model, split)


def ours_for_images(split: Split, m: int) -> Iterator[Answer]:
    """One length-scale, learnt from `FEW` rows; then all rows and points with that kernel."""
    start, cpu = time.perf_counter(), time.process_time()
    kernel = ConstantKernel(10.0) * RBF(median_distance(split.X[:SUBSAMPLE]))
    settings: dict[str, Any] = {
        "inference": "vi",
        "likelihood": "logit",
        "random_state": 0,
        "verbose": 1,
    }
    few = GaussianProcessClassifier(kernel, inducing=min(m, FEW_POINTS), **settings)
    few.fit(split.X[:FEW], split.y[:FEW])
    model = GaussianProcessClassifier(few.kernel_, optimizer=None, inducing=m, **settings)
    model.fit(split.X, split.y)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    yield seconds, cpu, model.predict_proba(split.X_test), model.classes_


def ours_once(split: Split, m: int) -> Iterator[Answer]:
    """The same bound, with equal rows given once: their number is the weight."""
    frame = pd.DataFrame(split.X).assign(label=split.y)
    counts = frame.groupby(list(frame.columns), sort=False, dropna=False).size()
    rows = counts.index.to_frame(index=False)
    X, y = rows.drop(columns="label"), rows["label"].to_numpy()
    model = GaussianProcessClassifier(inference="vi", inducing=m, random_state=0, verbose=1)
    weights = counts.to_numpy(dtype=np.float64)
    yield from _fitted(model, split, X, y, sample_weight=weights)


def ours_fitc(split: Split, m: int) -> Iterator[Answer]:
    """The default with inducing points: EP on FITC."""
    yield from _fitted(GaussianProcessClassifier(inducing=m, random_state=0, verbose=1), split)


def exact(split: Split, m: int) -> Iterator[Answer]:
    """The exact default on a subsample; with many classes one length-scale, one against the rest.

    The default's joint EP takes minutes an evaluation with 2,000 rows and ten classes.
    """
    rows = np.random.default_rng(0).permutation(len(split.y))[:SUBSAMPLE]
    X = split.X.iloc[rows] if hasattr(split.X, "iloc") else split.X[rows]
    model = GaussianProcessClassifier(verbose=1)
    if len(np.unique(split.y)) > 2:
        kernel = ConstantKernel(10.0) * RBF(median_distance(X))
        model.set_params(kernel=kernel, multi_class="one_vs_rest")
    yield from _fitted(model, split, X, split.y[rows])


def logistic(split: Split, m: int) -> Iterator[Answer]:
    """Logistic regression on standardised and one-hot columns."""
    yield from _fitted(_with_columns(split, LogisticRegression(max_iter=1000)), split)


def boosting(split: Split, m: int) -> Iterator[Answer]:
    """scikit-learn's histogram gradient boosting."""
    model: Any = HistGradientBoostingClassifier(random_state=0)
    if hasattr(split.X, "columns"):
        model.set_params(categorical_features="from_dtype")
        model = make_pipeline(FunctionTransformer(with_categories), model)
    yield from _fitted(model, split)


def catboost(split: Split, m: int) -> Iterator[Answer]:
    """CatBoost."""
    yield from _fitted(models.catboost(split.X, split.y, threads=THREADS), split)


def gpboost(split: Split, m: int) -> Iterator[Answer]:
    """GPBoost's Gaussian process with Vecchia's approximation and Laplace's method; two classes.

    With 5,000 rows of the sines and 200 points its FITC ends at an error of 50 % (probit) or stops
    with a matrix that is not positive definite (logit); GPBoost 1.8.0.
    """
    gpb = import_module("gpboost")
    scaler = columns() if hasattr(split.X, "columns") else None
    X, X_test = _as_numbers(scaler, split)
    classes, y = np.unique(split.y, return_inverse=True)
    if len(classes) > 2:
        raise ValueError("GPBoost has Gaussian processes of two classes only")
    start, cpu = time.perf_counter(), time.process_time()
    model = gpb.GPModel(
        gp_coords=X,
        cov_function="matern_ard",
        cov_fct_shape=2.5,
        likelihood="bernoulli_probit",
        gp_approx="vecchia",
        seed=0,
    )
    model.fit(y=y.astype(float))
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    p = model.predict(gp_coords_pred=X_test, predict_response=True, predict_var=False)["mu"]
    yield seconds, cpu, np.stack([1.0 - p, p], axis=1), classes


def svgp(split: Split, m: int) -> Iterator[Answer]:
    """GPyTorch's SVGP as in its documentation: Adam at 0.01, batches of 1024; after each epoch."""
    from benchmarks.scale.svgp import learn

    scaler = columns() if hasattr(split.X, "columns") else None
    X, X_test = _as_numbers(scaler, split)
    classes, y = np.unique(split.y, return_inverse=True)
    for seconds, cpu, P in learn(X, y, X_test, len(classes), m):
        yield seconds, cpu, P, classes


def _as_numbers(scaler: Any, split: Split) -> tuple[Any, Any]:
    if scaler is not None:
        X = scaler.fit_transform(split.X)
        return X, scaler.transform(split.X_test)
    centre, width = split.X.mean(axis=0), split.X.std(axis=0)
    if split.X.shape[1] > 100:  # grey values have one scale
        width = np.full_like(width, np.sqrt(np.mean(width**2)))
    width[width == 0.0] = 1.0
    return (split.X - centre) / width, (split.X_test - centre) / width


def _with_columns(split: Split, model: Any) -> Any:
    return make_pipeline(columns(), model) if hasattr(split.X, "columns") else model


MODELS: Final[dict[str, Callable[[Split, int], Iterator[Answer]]]] = {
    "gpclass": ours,
    "gpclass, one length-scale": ours_for_images,
    "gpclass, equal rows once": ours_once,
    "gpclass, EP on FITC": ours_fitc,
    "gpclass, exact on 2,000 rows": exact,
    "logistic regression": logistic,
    "histogram boosting": boosting,
    "CatBoost": catboost,
    "GPBoost": gpboost,
    "GPyTorch SVGP": svgp,
}
