"""Decisions from class probabilities (RW06 section 3.2): expected loss and the reject option."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from gpclass.metrics import Floats, Integers, check_probabilities

REJECT = -1
"""The index that :func:`decide` returns for a case that it declines to classify."""


def decide(
    y_prob: ArrayLike, loss: ArrayLike | None = None, reject_cost: float | None = None
) -> Integers:
    r"""Decisions of least expected loss.

    .. math:: \hat c_i = \arg\min_j \sum_k p_{ik} L_{kj}

    Parameters
    ----------
    y_prob : array-like of shape (n, C) or (n,)
        Class probabilities; a vector is the probability of the second of two classes.
    loss : array-like of shape (C, C) or (C, C + 1), default=None
        ``loss[k, j]`` is the loss of deciding for class j when the class is k. A further column
        is the loss of rejecting a case of class k. By default 0 for the right class and 1 for any
        other, whose decision is the most probable class.
    reject_cost : float, default=None
        The loss of rejecting a case whatever its class, in place of the further column. With the
        default loss a case is rejected when its largest probability is below ``1 - reject_cost``.

    Returns
    -------
    decision : ndarray of shape (n,)
        The index of the class decided for (``classes_[decision]`` is its label), or ``REJECT``,
        which is -1, for a rejected case. Of decisions with equal expected loss the first class is
        taken, and rejecting comes last.

    Raises
    ------
    ValueError
        If the probabilities are not valid, the loss has another shape or is not finite, or
        rejecting is given twice.

    References
    ----------
    RW06, section 3.2.

    Examples
    --------
    A missed illness (second class) costs ten times a false alarm, an expert's opinion costs 0.5:

    >>> from gpclass.decision.costs import decide
    >>> decide([0.01, 0.08, 0.6, 0.9], loss=[[0, 1], [10, 0]], reject_cost=0.5)
    array([ 0, -1,  1,  1])
    """
    _, proba, _ = check_probabilities(None, y_prob)
    C = proba.shape[1]
    if loss is None:
        matrix = 1.0 - np.eye(C)
    else:
        matrix = check_array(loss, dtype=np.float64, input_name="loss")
        if matrix.shape not in ((C, C), (C, C + 1)):
            raise ValueError(
                f"loss must have shape ({C}, {C}), or ({C}, {C + 1}) with a column for rejecting, "
                f"got {matrix.shape}."
            )
    if reject_cost is not None:
        if matrix.shape[1] == C + 1:
            raise ValueError("give either the reject column of loss or reject_cost, not both.")
        if not np.isfinite(reject_cost):
            raise ValueError(f"reject_cost must be a finite number, got {reject_cost!r}.")
        matrix = np.column_stack([matrix, np.full(C, float(reject_cost))])
    decision: Integers = np.argmin(proba @ matrix, axis=1)
    decision[decision == C] = REJECT
    return decision


@dataclass(frozen=True, eq=False)
class ErrorRejectCurve:
    """Error rate of the accepted cases against the fraction of cases rejected.

    A case is accepted when its largest class probability is at least the threshold, so there is one
    point for each distinct value. The point where all is rejected has no error rate.

    Attributes
    ----------
    reject_fraction, error_rate, thresholds : ndarray of shape (m,)
        Fraction of the cases rejected, increasing from 0; fraction of the accepted cases whose most
        probable class is wrong; smallest largest-probability that is accepted, increasing.
    area : float
        Area under the curve (smaller is better): the mean, over k = 1, ..., n, of the error rate
        among the k cases with the largest probabilities, in expectation over the order of ties.
    n_cases : int
    """

    reject_fraction: Floats
    error_rate: Floats
    thresholds: Floats
    area: float
    n_cases: int

    def error_at(self, reject_fraction: float) -> float:
        """Error rate at the last point that rejects at most this; ValueError outside [0, 1]."""
        if not 0.0 <= reject_fraction <= 1.0:
            raise ValueError(f"reject_fraction must be in [0, 1], got {reject_fraction!r}.")
        last = int(np.searchsorted(self.reject_fraction, reject_fraction, side="right")) - 1
        return float(self.error_rate[last])


def error_reject_curve(
    y_true: ArrayLike, y_prob: ArrayLike, *, labels: ArrayLike | None = None
) -> ErrorRejectCurve:
    """Error rate of the accepted cases as the least certain ones are rejected.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        The observed classes.
    y_prob : array-like of shape (n, C) or (n,)
        Predicted probabilities, columns in the order of `labels`.
    labels : array-like of shape (C,), default=None
        The classes in the order of the columns; by default the sorted values of `y_true`.

    Raises
    ------
    ValueError
        If the probabilities are not valid.

    References
    ----------
    RW06, sections 3.2 and 3.7.3 (Figure 3.10); C. M. Bishop, Pattern Recognition and Machine
    Learning, 2006, section 1.5.3.

    Examples
    --------
    >>> from gpclass.decision.costs import error_reject_curve
    >>> curve = error_reject_curve([0, 0, 1, 1], [0.1, 0.55, 0.2, 0.9])
    >>> curve.reject_fraction, curve.error_rate
    (array([0.  , 0.25, 0.5 ]), array([0.5       , 0.33333333, 0.        ]))
    """
    codes, proba, _ = check_probabilities(y_true, y_prob, labels)
    assert codes is not None
    n = codes.size
    certainty = proba.max(axis=1)
    wrong = (proba.argmax(axis=1) != codes).astype(np.float64)
    # Most certain first: the k-th cumulative sum counts the errors among k accepted cases.
    thresholds, group, sizes = np.unique(-certainty, return_inverse=True, return_counts=True)
    group_errors = np.bincount(group, weights=wrong).astype(np.float64)
    accepted = np.cumsum(sizes)
    errors = np.cumsum(group_errors)
    # Expected errors among the first 1..n cases, ties in random order.
    expected = np.cumsum(np.repeat(group_errors / sizes, sizes))
    area = float(np.mean(expected / np.arange(1, n + 1)))
    rejected, error_rate = 1.0 - accepted / n, errors / accepted
    return ErrorRejectCurve(rejected[::-1], error_rate[::-1], -thresholds[::-1], area, n)
