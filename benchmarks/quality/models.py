"""The classifiers that are compared, each set up for a raw table as a careful user would."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier as SklearnClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from gpclass import GaussianProcessClassifier
from gpclass.inference import Laplace
from gpclass.kernels import median_distance

Maker = Callable[[Any, Any], Any]
# Distances between two levels of a one-hot category are then 1.
ONE_HOT: Final = float(np.sqrt(0.5))


def _scaled_levels(X: Any) -> Any:
    return ONE_HOT * X


def columns() -> ColumnTransformer:
    """Standardised numbers with indicators of missing entries, then one-hot categories."""
    numeric = make_pipeline(
        StandardScaler(), SimpleImputer(strategy="constant", fill_value=0.0, add_indicator=True)
    )
    levels = make_pipeline(
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
        FunctionTransformer(_scaled_levels),
    )
    return ColumnTransformer(
        [("numbers", numeric, _is_number), ("levels", levels, _is_level)],
        verbose_feature_names_out=False,
    )


def _is_number(frame: pd.DataFrame) -> list[str]:
    return [c for c in frame.columns if pd.api.types.is_numeric_dtype(frame[c])]


def _is_level(frame: pd.DataFrame) -> list[str]:
    return [c for c in frame.columns if not pd.api.types.is_numeric_dtype(frame[c])]


def _folds(y: Any, most: int = 5) -> StratifiedKFold:
    """Inner folds: five, or as many as the smallest class has rows, at least two."""
    smallest = int(np.unique(y, return_counts=True)[1].min())
    return StratifiedKFold(max(2, min(most, smallest)), shuffle=True, random_state=0)


def _ours(**arguments: Any) -> Maker:
    def make(X: Any, y: Any) -> Any:
        return GaussianProcessClassifier(**arguments)

    return make


def _one_scale(X: Any, y: Any) -> Any:
    """The default before: one variance, and one length-scale from the median distance."""
    length = median_distance(columns().fit_transform(X))
    kernel = ConstantKernel(1.0, (1e-3, 1e5)) * RBF(length, (1e-3 * length, 1e3 * length))
    return make_pipeline(columns(), GaussianProcessClassifier(kernel))


def _sklearn_gp(X: Any, y: Any) -> Any:
    return make_pipeline(columns(), SklearnClassifier(1.0 * RBF(1.0), random_state=0))


def _logistic(X: Any, y: Any) -> Any:
    model = LogisticRegressionCV(
        Cs=np.logspace(-4, 4, 9),
        cv=_folds(y),
        scoring="neg_log_loss",
        max_iter=1000,
        l1_ratios=(0.0,),
        use_legacy_attributes=False,
    )
    return make_pipeline(columns(), model)


def _svc(X: Any, y: Any) -> Any:
    grid = GridSearchCV(
        SVC(), {"C": np.logspace(-1, 3, 5), "gamma": ["scale", 0.01, 0.1]}, cv=_folds(y)
    )
    return make_pipeline(columns(), CalibratedClassifierCV(grid, cv=_folds(y)))


def _forest(X: Any, y: Any) -> Any:
    return make_pipeline(columns(), RandomForestClassifier(500, random_state=0))


def with_categories(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype(dict.fromkeys(_is_level(frame), "category"))


def _boosting(X: Any, y: Any) -> Any:
    grid = GridSearchCV(
        HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0),
        {"learning_rate": [0.03, 0.1]},
        scoring="neg_log_loss",
        cv=_folds(y, most=3),
    )
    return make_pipeline(FunctionTransformer(with_categories), grid)


def catboost(X: Any, y: Any, threads: int = 1) -> Any:
    """CatBoost, with the levels of a frame as such."""
    arguments: dict[str, Any] = {
        "verbose": False,
        "random_seed": 0,
        "thread_count": threads,
        "allow_writing_files": False,
    }
    maker = import_module("catboost").CatBoostClassifier
    if not isinstance(X, pd.DataFrame):
        return maker(**arguments)
    model = maker(cat_features=_is_level(X), **arguments)
    return make_pipeline(FunctionTransformer(with_named_levels), model)


def with_named_levels(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(**{c: frame[c].astype(str).fillna("missing") for c in _is_level(frame)})


MODELS: Final[dict[str, Maker]] = {
    "gpclass": _ours(),
    "gpclass, Laplace": _ours(inference="laplace"),
    "gpclass, variational": _ours(inference=Laplace(marginals="variational")),
    "gpclass, one RBF": _one_scale,
    "scikit-learn GP": _sklearn_gp,
    "logistic regression": _logistic,
    "SVC": _svc,
    "random forest": _forest,
    "histogram boosting": _boosting,
    "CatBoost": catboost,
}
