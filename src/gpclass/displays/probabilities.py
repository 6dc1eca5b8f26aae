"""Displays of predicted class probabilities beside the classes that were observed."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binomtest
from sklearn.base import BaseEstimator

from gpclass.decision.costs import ErrorRejectCurve, error_reject_curve
from gpclass.displays.drawing import axes_of
from gpclass.metrics import Bins, Floats, Integers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _estimator_probabilities(estimator: BaseEstimator, X: Any) -> tuple[Floats, Any, str]:
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(f"{type(estimator).__name__} has no predict_proba.")
    return estimator.predict_proba(X), estimator.classes_, type(estimator).__name__


@dataclass(eq=False)
class ReliabilityDisplay:
    """Reliability diagram: how often predictions of a given probability come true.

    Make it with :meth:`from_predictions` or :meth:`from_estimator`. For two classes it shows the
    frequency of the second class against its predicted probability; for more, the accuracy against
    the probability of the most probable class (top-label calibration).

    Parameters
    ----------
    prob_true, prob_pred : ndarray of shape (n_bins,)
        Observed frequency and mean predicted probability in each bin that has cases.
    counts : ndarray of shape (n_bins,)
        Number of cases in each bin.
    lower, upper : ndarray of shape (n_bins,)
        Wilson interval of the observed frequency, at the confidence asked for.
    prob : ndarray of shape (n,)
        The predicted probabilities behind the bins.
    event : str
        What the probabilities are of, for the axis labels.
    name : str or None
        Label of the curve.

    Attributes
    ----------
    ax_, figure_, line_ : matplotlib Axes, Figure and Line2D
        What the last call to :meth:`plot` drew on, and the curve.

    References
    ----------
    A. Niculescu-Mizil and R. Caruana, Predicting good probabilities with supervised learning, 2005.
    E. B. Wilson, Probable inference, the law of succession, and statistical inference, 1927.

    Examples
    --------
    >>> import numpy as np
    >>> from gpclass.displays import ReliabilityDisplay
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=2000)
    >>> y = rng.uniform(size=2000) < p
    >>> bins = ReliabilityDisplay.bin_predictions(y, p, n_bins=4)
    >>> bins.counts.tolist(), np.round(bins.prob_true, 1).tolist()
    ([500, 500, 500, 500], [0.1, 0.4, 0.6, 0.9])
    """

    prob_true: Floats
    prob_pred: Floats
    counts: Integers
    lower: Floats
    upper: Floats
    prob: Floats = field(repr=False)
    event: str
    name: str | None = None

    @classmethod
    def bin_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        labels: ArrayLike | None = None,
        n_bins: int = 10,
        strategy: str = "quantile",
        confidence: float = 0.95,
        name: str | None = None,
    ) -> Self:
        """Bin the predictions without drawing them (which needs no matplotlib).

        Parameters
        ----------
        y_true, y_prob, labels
            As in `gpclass.decision.error_reject_curve`.
        n_bins : int, default=10
            Number of bins; a bin without cases is left out.
        strategy : {"quantile", "uniform"}, default="quantile"
            Bins with equal counts (fewer where predictions are tied), or of equal width.
        confidence : float, default=0.95
            Confidence of the binomial intervals.
        name : str, default=None
            Label of the curve.
        """
        if not 0.0 < confidence < 1.0:
            raise ValueError(f"confidence must be between 0 and 1, got {confidence}.")
        bins = Bins.of(y_true, y_prob, labels, n_bins, strategy)
        two = bins.classes.size == 2
        event = f"class {bins.classes[1]!s}" if two else "the most probable class"
        counts, frequency, prob_pred = bins.averages()
        hits = np.rint(frequency * counts).astype(int)
        intervals = [
            binomtest(k, n).proportion_ci(confidence, "wilson")
            for k, n in zip(hits.tolist(), counts.tolist(), strict=True)
        ]
        lower, upper = np.array(intervals).T
        return cls(frequency, prob_pred, counts, lower, upper, bins.prob, event, name)

    @classmethod
    def from_predictions(
        cls, y_true: ArrayLike, y_prob: ArrayLike, *, ax: "Axes | None" = None, **options: Any
    ) -> Self:
        """Bin predictions, with the options of `bin_predictions`, and draw them on axes ``ax``."""
        return cls.bin_predictions(y_true, y_prob, **options).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: Any,
        y: ArrayLike,
        *,
        ax: "Axes | None" = None,
        **options: Any,
    ) -> Self:
        """Predict rows that were not used to fit, bin the predictions and draw them.

        The options are those of `bin_predictions`. TypeError without `predict_proba`.
        """
        proba, classes, name = _estimator_probabilities(estimator, X)
        options = {"labels": classes, "name": name} | options
        return cls.from_predictions(y, proba, ax=ax, **options)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        name: str | None = None,
        ref_line: bool = True,
        interval: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Draw the diagram, in the style ``kwargs`` of ``Axes.plot``.

        ``ref_line`` is the diagonal of calibrated probabilities, ``interval`` draws the intervals.
        """
        ax = axes_of(ax)
        label = self.name if name is None else name
        style = dict[str, Any](marker="o", markersize=5, linewidth=1.5, zorder=3) | kwargs
        if ref_line:
            ax.plot([0, 1], [0, 1], color="0.55", linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        (self.line_,) = ax.plot(self.prob_pred, self.prob_true, label=label, **style)
        if interval:
            colour = self.line_.get_color()
            ax.vlines(self.prob_pred, self.lower, self.upper, color=colour, alpha=0.45, linewidth=1)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        ax.set_xlabel(f"Predicted probability of {self.event}")
        ax.set_ylabel(f"Observed frequency of {self.event}")
        if label is not None:
            ax.legend(loc="upper left", frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(eq=False)
class ErrorRejectDisplay:
    """Error-reject curve: the error rate of what is left as the least certain cases are rejected.

    Make it with :meth:`from_predictions` or :meth:`from_estimator`.

    Parameters
    ----------
    curve : ErrorRejectCurve
    name : str or None
        Label of the curve.

    Attributes
    ----------
    ax_, figure_, line_ : matplotlib Axes, Figure and Line2D
        What the last call to :meth:`plot` drew on, and the curve.

    References
    ----------
    RW06, section 3.7.3, Figure 3.10.

    Examples
    --------
    >>> from gpclass.displays import ErrorRejectDisplay
    >>> from gpclass.decision.costs import error_reject_curve
    >>> display = ErrorRejectDisplay(error_reject_curve([0, 1, 1], [0.2, 0.4, 0.9]), name="GP")
    >>> round(display.curve.area, 3)
    0.111
    """

    curve: ErrorRejectCurve
    name: str | None = None

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        labels: ArrayLike | None = None,
        name: str | None = None,
        ax: "Axes | None" = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the `error_reject_curve` of predictions; the rest is as in `plot`."""
        return cls(error_reject_curve(y_true, y_prob, labels=labels), name).plot(ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: Any,
        y: ArrayLike,
        *,
        ax: "Axes | None" = None,
        **kwargs: Any,
    ) -> Self:
        """Predict rows that were not used to fit, and draw the curve as in `plot`."""
        proba, classes, name = _estimator_probabilities(estimator, X)
        kwargs = {"name": name} | kwargs
        return cls.from_predictions(y, proba, labels=classes, ax=ax, **kwargs)

    def plot(self, ax: "Axes | None" = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the curve, both axes in per cent, in the style ``kwargs`` of ``Axes.plot``."""
        ax = axes_of(ax)
        label = self.name if name is None else name
        # The error rate is that of a whole group of accepted cases, so it changes in steps.
        style: dict[str, Any] = {"linewidth": 1.5, "drawstyle": "steps-post"} | kwargs
        (self.line_,) = ax.plot(
            100 * self.curve.reject_fraction, 100 * self.curve.error_rate, label=label, **style
        )
        ax.set(xlabel="Cases rejected (%)", ylabel="Error rate of the accepted cases (%)")
        ax.set_xlim(-2, 102)
        # High enough for every curve that shares the axes, and a line at zero not on the frame.
        top = max(float(np.max(line.get_ydata())) for line in ax.get_lines())
        ax.set_ylim(-0.02 * (top or 1), 1.05 * (top or 1))
        if label is not None:
            ax.legend(loc="upper right", frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
