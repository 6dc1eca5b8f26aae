"""Scores that scikit-learn lacks: bits, Brier score for any number of classes, calibration."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]


def check_probabilities(
    y_true: ArrayLike | None, y_prob: ArrayLike, labels: ArrayLike | None = None
) -> tuple[Integers | None, Floats, NDArray[Any]]:
    """Validate labels (n,) and predicted class probabilities (n, C) or (n,) together.

    One column, or a vector, is the probability of the second of two classes. ``labels`` are the
    classes in the order of the columns: by default the sorted values of ``y_true``, or 0..C-1 where
    that is None. Returns the column of each observed class, the probabilities in float64 with a
    column for each class, and the classes. ValueError where the probabilities are not finite, leave
    [0, 1] or do not sum to one in a row, lengths differ, or a label has no column.
    """
    proba = check_array(y_prob, ensure_2d=False, dtype=None, input_name="y_prob")
    # Rows of float32 or float16 sum to one only to the precision of that type.
    tolerance = 1e-8
    if np.issubdtype(proba.dtype, np.floating):
        tolerance = max(tolerance, 4.0 * float(np.finfo(proba.dtype).eps) ** 0.75)
    proba = proba.astype(np.float64)
    if proba.ndim > 2:
        raise ValueError(f"y_prob must have one or two dimensions, got shape {proba.shape}.")
    if proba.min() < 0.0 or proba.max() > 1.0:
        raise ValueError(
            f"y_prob must hold probabilities in [0, 1], got values from {proba.min():.6g} to "
            f"{proba.max():.6g}."
        )
    if proba.ndim == 1 or proba.shape[1] == 1:
        positive = proba.ravel()
        proba = np.column_stack([1.0 - positive, positive])
    worst = float(np.abs(proba.sum(axis=1) - 1.0).max())
    if worst > tolerance:
        raise ValueError(f"each row of y_prob must sum to one; the worst is off by {worst:.3g}.")
    n_classes = proba.shape[1]
    if y_true is None:
        classes = np.arange(n_classes) if labels is None else column_or_1d(labels)
        codes = None
    else:
        y = column_or_1d(y_true)
        check_consistent_length(y, proba)
        check_classification_targets(y)
        classes = np.unique(y) if labels is None else column_or_1d(labels)
        codes = _codes(y, classes)
    if classes.size != n_classes:
        raise ValueError(
            f"y_prob has {n_classes} columns for {classes.size} classes; pass labels=, the classes "
            "in the order of the columns (classes_ of the classifier)."
        )
    return codes, proba, classes


def _codes(y: NDArray[Any], classes: NDArray[Any]) -> Integers:
    """Return the position of each label in `classes`, which need not be sorted."""
    order = np.argsort(classes)
    ordered = classes[order]
    if np.unique(ordered).size != ordered.size:
        raise ValueError("labels must hold each class once.")
    position = np.minimum(np.searchsorted(ordered, y), ordered.size - 1)
    unknown = ordered[position] != y
    if unknown.any():
        raise ValueError(
            f"y_true has the label {y[unknown][0]!s}, which is not among the labels "
            f"{', '.join(map(str, classes))}."
        )
    codes: Integers = order[position]
    return codes


def _weights(sample_weight: ArrayLike | None, n: int) -> Floats:
    """Return weights of shape (n,) that sum to one."""
    if sample_weight is None:
        return np.full(n, 1.0 / n)
    weights = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), got {weights.shape}.")
    return _normalised(weights, "sample_weight")


def _normalised(numbers: Floats, name: str) -> Floats:
    if numbers.min() < 0.0 or numbers.sum() <= 0.0:
        raise ValueError(f"{name} must hold non-negative numbers that are not all zero.")
    return np.asarray(numbers / numbers.sum())


def information_bits(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    baseline: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Information about the classes in bits, in excess of predicting the class frequencies.

    .. math:: \frac1n \sum_i \log_2 p(y_i \mid x_i) - \frac1n \sum_i \log_2 \pi_{y_i}

    with the baseline :math:`\pi`, the best prediction that does not use the inputs. Zero bits says
    that the inputs carry no information. Perfect prediction has the entropy of the classes (one bit
    for two balanced ones). A negative value is worse than the baseline. This is the measure
    of RW06 section 3.7, Figures 3.7 to 3.12.

    Parameters
    ----------
    y_true, y_prob, labels
        As in `check_probabilities`.
    baseline : array-like of shape (C,), default=None
        Class probabilities or counts of the training set in the order of `labels`; they are scaled
        to sum to one. By default the (weighted) frequencies in `y_true`.
    sample_weight : array-like of shape (n,), default=None
        Weights of the rows in both averages.

    Returns
    -------
    bits : float
        The information. Probabilities below the float64 epsilon count as that epsilon, as in
        :func:`sklearn.metrics.log_loss`, so that a class which was ruled out costs 52 bits and not
        infinitely many.

    Raises
    ------
    ValueError
        If the probabilities are not valid, or the baseline gives a class of `y_true` no
        probability.

    References
    ----------
    RW06, section 3.7.2.

    Examples
    --------
    The baseline of RW06 section 3.7 (3s and 5s, 406 and 361 for training, 418 and 355 to test) is
    what a perfect classifier is above it:

    >>> import numpy as np
    >>> from gpclass.metrics import information_bits
    >>> y = np.repeat([3, 5], [418, 355])
    >>> round(information_bits(y, (y == 5).astype(float), baseline=[406, 361]), 4)
    0.9956
    """
    codes, proba, classes = check_probabilities(y_true, y_prob, labels)
    assert codes is not None
    weights = _weights(sample_weight, codes.size)
    if baseline is None:
        counts = np.bincount(codes, weights=weights, minlength=classes.size)
        reference = np.asarray(counts, dtype=np.float64)
    else:
        reference = check_array(baseline, ensure_2d=False, dtype=np.float64, input_name="baseline")
        if reference.shape != classes.shape:
            raise ValueError(
                f"baseline must have one value for each of the {classes.size} classes, got shape "
                f"{reference.shape}."
            )
        reference = _normalised(reference, "baseline")
    weighted = weights > 0.0
    if (reference[codes[weighted]] == 0.0).any():
        missing = classes[codes[weighted][reference[codes[weighted]] == 0.0][0]]
        raise ValueError(
            f"the baseline gives the class {missing!s} no probability, but it is in y_true."
        )
    eps = np.finfo(np.float64).eps
    model = np.log2(np.clip(proba[np.arange(codes.size), codes], eps, 1.0))
    simple = np.log2(reference[codes[weighted]])
    return float(weights @ model - weights[weighted] @ simple)


def brier_score(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Brier score for any number of classes, from 0 (perfect) to 1.

    .. math:: \frac1{2n} \sum_i \sum_c \left(p_{ic} - [y_i = c]\right)^2

    The factor one half makes the score of two classes equal to
    :func:`sklearn.metrics.brier_score_loss` and keeps every number of classes on the scale [0, 1];
    Brier's own definition, without it, is twice this value.

    Parameters
    ----------
    y_true, y_prob, labels
        As in `check_probabilities`, which raises a ValueError.
    sample_weight : array-like of shape (n,), default=None
        Weights of the rows.

    Notes
    -----
    scikit-learn 1.6, the oldest version that we run with, has the score for two classes only.

    References
    ----------
    G. W. Brier, Verification of forecasts expressed in terms of probability, Monthly Weather Review
    78, 1950.

    Examples
    --------
    >>> from gpclass.metrics import brier_score
    >>> round(brier_score(["a", "b", "c"], [[1, 0, 0], [0, 0.5, 0.5], [0.2, 0.2, 0.6]]), 4)
    0.1233
    """
    codes, proba, classes = check_probabilities(y_true, y_prob, labels)
    assert codes is not None
    residual = proba - np.eye(classes.size)[codes]
    weights = _weights(sample_weight, codes.size)
    return float(0.5 * weights @ (residual**2).sum(axis=1))


class Bins(NamedTuple):
    """Predictions of one event a row: its probability, whether it came, and the row's bin.

    The event is the second of two classes, or that the most probable of more is right.
    """

    prob: Floats
    hit: NDArray[np.bool_]
    place: Integers
    classes: NDArray[Any]

    @classmethod
    def of(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        labels: ArrayLike | None,
        n_bins: int,
        strategy: str,
    ) -> "Bins":
        """Bins of equal counts ("quantile", fewer where predictions are tied) or equal width."""
        codes, proba, classes = check_probabilities(y_true, y_prob, labels)
        assert codes is not None
        if n_bins < 1:
            raise ValueError(f"n_bins must be at least 1, got {n_bins}.")
        if classes.size == 2:
            prob, hit = proba[:, 1], codes == 1
        else:
            prob, hit = proba.max(axis=1), proba.argmax(axis=1) == codes
        if strategy == "quantile":
            edges = np.unique(np.quantile(prob, np.linspace(0.0, 1.0, n_bins + 1)))
        elif strategy == "uniform":
            edges = np.linspace(0.0, 1.0, n_bins + 1)
        else:
            raise ValueError(f"strategy must be 'quantile' or 'uniform', got {strategy!r}.")
        return cls(prob, hit, np.searchsorted(edges[1:-1], prob, side="right"), classes)

    def averages(self) -> tuple[Integers, Floats, Floats]:
        """Cases, frequency of the event and mean probability in each bin that has cases."""
        counts = np.bincount(self.place)
        used = counts > 0
        hits = np.bincount(self.place[self.hit], minlength=len(counts))[used]
        sums = np.bincount(self.place, weights=self.prob)[used]
        counts = counts[used]
        return counts, hits / counts, sums / counts


def expected_calibration_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    n_bins: int = 10,
    strategy: str = "quantile",
) -> float:
    r"""Mean distance of frequencies and predicted probabilities in bins (ECE), from 0 to 1.

    .. math:: \sum_b \frac{n_b}{n} \left| \bar y_b - \bar p_b \right|

    For two classes p is the probability of the second, for more that of the most probable class, as
    in `gpclass.displays.ReliabilityDisplay`.

    Parameters
    ----------
    y_true, y_prob, labels
        As in `check_probabilities`, which raises a ValueError.
    n_bins : int, default=10
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins with equal counts, or of equal width.

    Notes
    -----
    It is biased upwards: a perfectly calibrated classifier is expected to have about
    :math:`\sum_b \frac{n_b}{n} \sqrt{2 \bar p_b (1 - \bar p_b) / (\pi n_b)}`, which is .07 with 200
    cases in 10 bins of probabilities from 0 to 1. So it ranks classifiers on one test set at
    most; `squared_calibration_error` has no such bias. And it is no proper score: predicting the
    frequencies of the classes for all rows has an ECE of zero.

    References
    ----------
    C. Guo, G. Pleiss, Y. Sun & K. Weinberger, On calibration of modern neural networks, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.metrics import expected_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=200)
    >>> round(expected_calibration_error(rng.uniform(size=200) < p, p), 3)  # calibrated
    0.053
    """
    counts, frequency, mean = Bins.of(y_true, y_prob, labels, n_bins, strategy).averages()
    return float(counts @ np.abs(frequency - mean) / counts.sum())


def squared_calibration_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    n_bins: int = 10,
    strategy: str = "quantile",
) -> float:
    r"""Mean squared distance of frequencies and probabilities in bins, without its bias.

    .. math:: \sum_b \frac{n_b}{n} \left[ \left(\bar y_b - \bar p_b\right)^2
        - \frac{\bar y_b (1 - \bar y_b)}{n_b - 1} \right]

    The second term is the variance of the frequency, which the plain square would add. The
    expectation, for given bins, is that of infinitely many cases: 0 for a calibrated classifier,
    whose value is below zero as often as above. Bins with one case are left out, as they have no
    such estimate.

    Parameters
    ----------
    y_true, y_prob, labels, n_bins, strategy
        As in `expected_calibration_error`.

    Raises
    ------
    ValueError
        Also where no bin has two cases.

    References
    ----------
    A. Kumar, P. Liang & T. Ma, Verified uncertainty calibration, 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.metrics import squared_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=200)
    >>> y = rng.uniform(size=200) < p
    >>> round(squared_calibration_error(y, p), 4)  # calibrated
    -0.002
    >>> round(squared_calibration_error(y, p**3), 4)
    0.0497
    """
    counts, frequency, mean = Bins.of(y_true, y_prob, labels, n_bins, strategy).averages()
    several = counts > 1
    if not several.any():
        raise ValueError(f"no bin has two cases: take fewer than {n_bins} bins.")
    counts, frequency, mean = counts[several], frequency[several], mean[several]
    terms = (frequency - mean) ** 2 - frequency * (1.0 - frequency) / (counts - 1)
    return float(counts @ terms / counts.sum())
