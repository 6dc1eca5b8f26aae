"""Tables of numbers from raw frames, for models that take nothing else."""

from typing import Any

from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler


def encoded(model: Any) -> Pipeline:
    """Put a model behind what a careful user would do to a frame.

    Numbers: missing ones at the median, with a column that says so, then standardised; dates are
    numbers. All else: one column a level, where missing is a level.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> from gpclass.app.preparation import encoded
    >>> table = pd.DataFrame({"age": [31, None, 47, 60], "town": ["Ulm", None, "Hof", "Ulm"]})
    >>> model = encoded(LogisticRegression()).fit(table, ["ill", "well", "ill", "ill"])
    >>> model.predict(pd.DataFrame({"age": [None], "town": ["Bonn"]})).tolist()
    ['well']
    """
    numbers = make_pipeline(
        FunctionTransformer(_days),
        SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True),
        StandardScaler(),
    )
    numeric = ["number", "datetime", "datetimetz"]
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include=numeric)),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude=numeric)),
        sparse_threshold=0.0,
    )
    return make_pipeline(columns, model)


def _days(frame: Any) -> Any:
    """The frame with its dates as days since 1970, missing ones as NaN."""
    return frame.apply(
        lambda column: (
            column.astype("int64").where(column.notna()) if column.dtype.kind == "M" else column
        )
    )
