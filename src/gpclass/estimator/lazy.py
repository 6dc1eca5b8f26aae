"""Predictions of Dask collections, which are computed when they are asked for."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpclass.estimator.inputs.collections import is_collection


def refuse_collection(X: Any) -> None:
    """TypeError for a collection where a table in memory is needed."""
    if is_collection(X):
        raise TypeError(
            "X is a Dask collection, of which predict and predict_proba are lazy; for anything "
            "else give rows in memory, such as X.head() or X[:100].compute()"
        )


def lazily(model: Any, method: str, X: Any) -> Any:
    """What a method of a fitted classifier says of a collection: an array of a Dask array's rows.

    Of a frame, class probabilities are a frame with a column a class, and classes are a series.
    """
    check_is_fitted(model, "models_")
    if getattr(X, "ndim", 0) != 2:
        raise TypeError(f"X is a {type(X).__name__}: give a Dask array or frame with two axes")
    predict = _Prediction(model, method)
    if not hasattr(X, "map_partitions"):
        X = X.rechunk({1: -1})
        meta = predict(np.empty((0, 1)))
        if method == "predict":
            return X.map_blocks(predict, drop_axis=1, meta=meta, dtype=meta.dtype)
        chunks = (X.chunks[0], (len(model.classes_),))
        return X.map_blocks(predict, chunks=chunks, meta=meta, dtype=meta.dtype)
    return X.map_partitions(predict.of_frame, meta=predict.of_frame(X._meta))


class _Prediction:
    """A method of a fitted classifier, also of no rows at all."""

    def __init__(self, model: Any, method: str) -> None:
        self._model, self._method = model, method

    def __call__(self, X: Any) -> Any:
        if len(X):
            return getattr(self._model, self._method)(X)
        classes = self._model.classes_
        return classes[:0] if self._method == "predict" else np.empty((0, len(classes)))

    def of_frame(self, X: Any) -> Any:
        import pandas as pd

        found = self(X)
        if self._method == "predict":
            return pd.Series(found, index=X.index, name="class")
        return pd.DataFrame(found, index=X.index, columns=self._model.classes_)
