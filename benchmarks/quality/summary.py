"""What the records say: means with standard errors, calibration errors, ranks and differences."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.stats import friedmanchisquare, studentized_range

SCORES: Final = ("log_loss", "brier", "error", "seconds")


def frame_of(records: Sequence[dict[str, Any]], models: Sequence[str]) -> pd.DataFrame:
    """Records of the tables that every model has seen in the same folds."""
    frame = pd.DataFrame(list(records))
    frame = frame[frame.model.isin(models)]
    seen = frame.groupby(["table", "fold"]).model.nunique()
    complete = seen[seen == len(models)].index
    return frame[pd.MultiIndex.from_frame(frame[["table", "fold"]]).isin(complete)]


def by_table(frame: pd.DataFrame, score: str, how: str = "mean") -> pd.DataFrame:
    """Mean (or "sem") over the folds, a row a table and a column a model."""
    return frame.pivot_table(index="table", columns="model", values=score, aggfunc=how, sort=False)


def calibration_errors(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean distance of confidence and accuracy over the bins, all test rows of a table together."""
    found = {
        key: np.abs(np.sum([*part.gaps], axis=0)).sum() / part.n_test.sum()
        for key, part in frame.groupby(["table", "model"], sort=False)
    }
    return pd.Series(found).unstack(sort=False)


def mean_ranks(scores: pd.DataFrame) -> pd.Series:
    """Mean rank of each model over the tables; 1 is the best, ties share theirs."""
    return scores.rank(axis=1).mean()


def critical_difference(n_models: int, n_tables: int, level: float = 0.05) -> float:
    """Difference of two mean ranks that Nemenyi's test calls significant (Demsar 2006).

    >>> round(critical_difference(5, 14), 3)
    1.63
    """
    q = studentized_range.ppf(1.0 - level, n_models, np.inf) / np.sqrt(2.0)
    return float(q * np.sqrt(n_models * (n_models + 1) / (6.0 * n_tables)))


def friedman(scores: pd.DataFrame) -> float:
    """Probability of ranks that differ so much if the models were alike (Friedman's test)."""
    return float(friedmanchisquare(*(scores[model] for model in scores)).pvalue)


def differences(frame: pd.DataFrame, model: str, other: str) -> pd.DataFrame:
    """Log loss of a model less that of another: mean over the folds and its standard error.

    Training parts overlap, so the standard error is too small rather than too large.
    """
    folds = frame.pivot_table(
        index=["table", "fold"], columns="model", values="log_loss", sort=False
    )
    change = (folds[model] - folds[other]).groupby("table", sort=False)
    return pd.DataFrame({"mean": change.mean(), "error": change.sem()})
