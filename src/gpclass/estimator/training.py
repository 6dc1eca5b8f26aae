"""The training table, in memory or a Dask collection, as inputs, rows and classes."""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets

from gpclass.blocks import Block, ClusterBlocks, RowBlocks
from gpclass.estimator.arguments import Parts
from gpclass.estimator.inputs import Inputs, inputs_of
from gpclass.estimator.inputs.collections import (
    Collection,
    Partition,
    is_collection,
    weights_of,
)
from gpclass.estimator.weights import Rows, check_classes, check_largest, class_weights, used_rows
from gpclass.inference import Variational
from gpclass.inference.joint import JOINT
from gpclass.linalg import Array

# Rows of a collection that are kept in memory: starts, leave-one-out and summaries are theirs.
KEPT: Final = 20_000


class Training(NamedTuple):
    """What a kind of X learnt, rows for the kernels, their labels, which are used, and a source.

    Of a collection X, y and rows are a sample in memory, and ``source`` has all rows; None: they
    are all.
    """

    inputs: Inputs
    X: Any
    y: NDArray[Any]
    rows: Rows
    source: RowBlocks | None


def training_table(
    estimator: BaseEstimator,
    parts: Parts,
    seen: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
) -> Training:
    """Check a table and learn what its kind learns; ``seen`` gets its columns.

    ValueError as of the kind of X and of `used_rows`, and for a collection that the parts of the
    estimator do not take.
    """
    if is_collection(X) or is_collection(y):
        return _of_collection(estimator, parts, seen, X, y, sample_weight)
    inputs = inputs_of(estimator.kernel, X)
    X, y = inputs.fit(seen, X, y)
    rows = used_rows(X, y, sample_weight, estimator.class_weight)
    return Training(inputs, inputs.rescale(X, rows.used), y, rows, None)


def _of_collection(
    estimator: BaseEstimator, parts: Parts, seen: BaseEstimator, X: Any, y: Any, sample_weight: Any
) -> Training:
    if estimator.inducing is None or not isinstance(parts.inference, Variational):
        raise ValueError(
            "X is a Dask collection, which is fitted by inducing points and sums over blocks of "
            "rows: set inference='vi' and inducing=500, or inducing='auto'"
        )
    table = Collection(seen, X, y, sample_weight)
    found = [one.labels for one in table.surveys if len(one.labels)]
    if len({isinstance(one[0], str) for one in found}) > 1:
        raise ValueError("y has text in some partitions and numbers in others: give it one type")
    labels = np.concatenate(found) if found else np.empty(0)
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    left_out = table.n_rows < sum(one.n for one in table.surveys)
    check_classes(classes, table.n_rows, some_left_out=left_out)
    if len(classes) > 2 and parts.multi_class not in JOINT:
        raise ValueError(
            f"multi_class={parts.multi_class!r} of a Dask collection is not there; "
            "'joint' is, the model of all classes"
        )
    factors = np.ones(len(classes))
    if estimator.class_weight is not None:
        each = np.concatenate([one.masses for one in table.surveys])
        masses = np.bincount(codes, each).astype(np.float64)
        factors = class_weights(estimator.class_weight, classes, masses)
        _check_class_weights(factors, classes)
    table.rescale()
    inputs, n_columns = table.inputs, len(getattr(table.inputs, "kinds", ())) or seen.n_features_in_
    source = ClusterBlocks(
        table.blocks_of(block_of, inputs, seen, classes, factors),
        [one.used for one in table.surveys],
        n_bytes=8.0 * table.n_rows * (n_columns + 2),
    )
    sample = source.sample(KEPT, 0)
    binary = len(classes) == 2
    own = (sample.y > 0).astype(np.intp) if binary else sample.y
    weights = None if (sample.weights == 1.0).all() else sample.weights
    rows = Rows(weights, None, classes, own)
    return Training(inputs, sample.X, classes[own], rows, source)


def _check_class_weights(factors: Array, classes: NDArray[Any]) -> None:
    """Refuse class weights of zero, whose rows would be left out, and as `row_weights`."""
    if (factors == 0.0).any():
        raise ValueError(
            f"class_weight is 0 for {classes[factors == 0.0].tolist()}, which a Dask collection "
            "does not take: leave these rows out of it"
        )
    check_largest(float(factors.max()))


def block_of(
    part: Partition, inputs: Inputs, seen: BaseEstimator, classes: NDArray[Any], factors: Array
) -> Block:
    """Rows of positive weight of a partition, as kernels and terms take them."""
    weights = weights_of(part)
    used, y = weights > 0, np.asarray(part.y)
    codes = np.searchsorted(classes, y.reshape(len(y))[used])
    labels = 2.0 * codes - 1.0 if len(classes) == 2 else codes
    if not used.any():
        return Block(np.zeros((0, 1)), labels, weights[used])
    return Block(inputs.transform(seen, part.X)[used], labels, weights[used] * factors[codes])
