"""Rows, their weights (powers of the likelihood terms) and the classes that they have."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing, check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, _num_samples, column_or_1d

from gpclass.estimator.inputs.columns import missing_in

Array = NDArray[np.float64]

# Weights are counts of rows; in a sum with one of more than this, float64 loses a weight of 1.
LARGEST_WEIGHT: Final = 1e15


class Rows(NamedTuple):
    """Which rows of a table are used, as what class, and with what weight.

    ``weights`` (N,) and ``used`` (n,), the numbers of rows of positive weight, are None where all
    rows count alike. ``classes`` (C,) are the sorted labels, ``codes`` (n,) their indices.
    """

    weights: Array | None
    used: NDArray[np.intp] | None
    classes: NDArray[Any]
    codes: NDArray[np.intp]


def used_rows(
    X: Any, y: NDArray[Any], sample_weight: ArrayLike | None, class_weight: object
) -> Rows:
    """Read labels and weights; raises as `row_weights` and `check_target`, and for one class."""
    gaps = missing_in(y).sum()
    if gaps:
        raise ValueError(f"Input y contains NaN or other missing labels in {gaps} of its rows")
    check_classification_targets(y)
    weights = row_weights(X, y, sample_weight, class_weight)
    used = None if weights is None or (weights > 0).all() else np.flatnonzero(weights > 0)
    classes, codes = np.unique(y if used is None else y[used], return_inverse=True)
    check_classes(classes, len(codes), some_left_out=used is not None)
    return Rows(weights, used, classes, codes)


def check_classes(classes: NDArray[Any], n_rows: int, *, some_left_out: bool) -> None:
    """Refuse one class, and as `check_target`."""
    if len(classes) < 2:
        raise ValueError(
            "GaussianProcessClassifier requires 2 or more distinct classes; got "
            f"{len(classes)} class (only {classes.tolist()})"
            + (" among the rows of positive weight" if some_left_out else "")
        )
    check_target(len(classes), n_rows)


def check_target(n_classes: int, n_rows: int, name: str = "y") -> None:
    """Refuse a target that looks like an id or a number: above 20 rows, less than 1.5 a class."""
    if n_rows > 20 and n_classes > n_rows / 1.5:
        raise ValueError(
            f"{name} has {n_classes} classes in {n_rows} rows, as an id or a number has, and not a "
            "class: take another target, or put it into a few groups"
        )


def row_weights(
    X: Any, y: NDArray[Any], sample_weight: ArrayLike | None, class_weight: object
) -> Array | None:
    """Sample weights times class weights, shape (n,); None where there are neither.

    ValueError or TypeError for negative, infinite or NaN weights, or labels that do not occur.
    """
    if sample_weight is None and class_weight is None:
        return None
    weights = np.ones(len(y))
    if sample_weight is not None:
        try:
            checked = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        except (TypeError, ValueError) as error:
            raise ValueError(f"sample_weight cannot be used: {error}") from error
        weights = np.array(checked)
    if class_weight is not None:
        weights *= class_weights(class_weight, y, weights)
    check_largest(float(weights.max(initial=0.0)))
    return weights


def check_largest(weight: float) -> None:
    """ValueError for a weight beside which float64 loses a row of weight one."""
    if weight > LARGEST_WEIGHT:
        raise ValueError(
            f"sample_weight times class_weight reaches {weight:.3g}; weights are counts of rows, "
            f"and next to one above {LARGEST_WEIGHT:g} float64 loses a weight of 1"
        )


def class_weights(class_weight: object, y: NDArray[Any], weights: Array) -> Array:
    """Weight of each row's class, shape (n,); raises as `row_weights`.

    "balanced" is ``total / (C * mass of the class)``, so a row of weight 2 counts as two rows.
    """
    classes, codes = np.unique(y, return_inverse=True)
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(
                f"class_weight={class_weight!r} does not exist; the values that do are: None, "
                "'balanced', or a dict of class labels and weights"
            )
        mass = np.bincount(codes, weights=weights / max(1.0, float(weights.max(initial=0.0))))
        present = mass > 0
        factor = np.ones(len(classes))
        factor[present] = mass.sum() / (present.sum() * mass[present])
        return factor[codes]
    if not isinstance(class_weight, Mapping):
        raise TypeError(
            "class_weight must be None, 'balanced' or a dict of class labels and weights, got "
            f"{class_weight!r}"
        )
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    # a fold may lack a class that has a weight; a class without one suggests a misspelt label
    if unknown and not all(label in class_weight for label in labels):
        raise ValueError(f"class_weight has labels {unknown} that are not in y, which has {labels}")
    try:
        factor = np.array([class_weight.get(label, 1.0) for label in labels], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"class_weight must hold numbers, got {dict(class_weight)}") from error
    if not np.isfinite(factor).all() or (factor < 0).any():
        raise ValueError(f"class_weight must be finite and not negative, got {dict(class_weight)}")
    return np.asarray(factor[codes])


def votes_as_rows(X: Any, votes: Any, classes: Any = None) -> tuple[Any, NDArray[Any], Array]:
    """Rows, labels and weights of rows that have several votes, or labels as probabilities.

    A row is written once for each class that it has votes for, with the votes as its weight: a
    power of the likelihood of that class.

    Parameters
    ----------
    X : array-like or DataFrame of n rows
    votes : array-like of shape (n, C)
        Counts, or probabilities: finite, not negative. Rows without any vote are left out.
    classes : array-like of shape (C,), default=None
        Labels of the columns of ``votes``; 0 to C - 1 by default.

    Returns
    -------
    X, y, sample_weight : rows of X, ndarray of shape (N,), ndarray of shape (N,)
        What `GaussianProcessClassifier.fit` takes.

    Raises
    ------
    ValueError
        For votes of another shape, or that are negative or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.estimator.weights import votes_as_rows
    >>> X, y, weight = votes_as_rows(np.array([[1.5], [2.5]]), [[1.0, 0.0], [0.25, 0.75]])
    >>> X.ravel(), y, weight
    (array([1.5, 2.5, 2.5]), array([0, 0, 1]), array([1.  , 0.25, 0.75]))
    """
    given = check_array(votes, dtype=np.float64, input_name="votes")
    n, n_classes = given.shape
    if _num_samples(X) != n:
        raise ValueError(f"votes has {n} rows, and X has {_num_samples(X)}")
    labels = np.arange(n_classes) if classes is None else column_or_1d(classes)
    if len(labels) != n_classes:
        raise ValueError(f"votes has {n_classes} columns for {len(labels)} classes")
    if (given < 0).any():
        raise ValueError(f"votes must not be negative, got {given.min():.3g}")
    rows, columns = np.nonzero(given)
    return _safe_indexing(X, rows), labels[columns], given[rows, columns]
