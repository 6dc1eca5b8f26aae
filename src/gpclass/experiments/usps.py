"""What the experiments on USPS digits share (RW06 section 3.7.3): rows, settings, surfaces."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from gpclass import GaussianProcessClassifier
from gpclass.displays.drawing import COLOURS
from gpclass.inference import METHODS
from gpclass.likelihoods import Probit
from gpclass.linalg import Array
from gpclass.metrics import information_bits
from gpclass.priors import DensePrior

# A table of the pieces: the arrays of usps_resampled.npz
DATA: Final = ("usps",)
# log l and log sigma_f where the book has the maxima: Figures 3.7 and 3.8
LAPLACE_BEST: Final = (2.85, 2.35)
EP_BEST: Final = (2.6, 4.1)
# Lines of the contour plots: nats below the largest evidence, and bits as in the book.
DROPS: Final = np.array([1.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0])
BITS: Final = (0.25, 0.5, 0.7, 0.8, 0.84, 0.86, 0.88, 0.89)
# Every so many rows in the quick size.
QUICK_STEP: Final = 8


class Digits(NamedTuple):
    """Rows to learn from, (n, 256), and to test on, (m, 256), and their labels."""

    X: Array
    y: NDArray[np.intp]
    X_test: Array
    y_test: NDArray[np.intp]

    @property
    def counts(self) -> NDArray[np.intp]:
        """Training rows of each class, in the order of the labels."""
        return np.unique(self.y, return_counts=True)[1]

    @classmethod
    def ten(cls, table: Mapping[str, Any], step: int = 1) -> "Digits":
        """Every ``step``-th row of all digits, labels 0 to 9."""
        parts = [table[key][::step] for key in ("X_train", "y_train", "X_test", "y_test")]
        X, y, X_test, y_test = parts
        return cls(
            X.astype(np.float64),
            y.astype(np.intp),
            X_test.astype(np.float64),
            y_test.astype(np.intp),
        )

    @classmethod
    def of(cls, table: Mapping[str, Any], step: int = 1) -> "Digits":
        """Every ``step``-th 3, label +1, and 5, label -1."""
        X, y, X_test, y_test = cls.ten(table)
        rows, new = (np.flatnonzero(np.isin(one, (3, 5)))[::step] for one in (y, y_test))
        labels, truth = np.where(y == 3, 1, -1), np.where(y_test == 3, 1, -1)
        return cls(X[rows], labels[rows], X_test[new], truth[new])


class Distances(NamedTuple):
    """Squared distances of the training rows, (n, n), and of them and the test rows, (n, m)."""

    own: Array
    cross: Array

    @classmethod
    def of(cls, data: Any) -> "Distances":
        """Compute them."""
        return cls(*(cdist(data.X, other, "sqeuclidean") for other in (data.X, data.X_test)))

    def covariances(self, theta: Sequence[float]) -> tuple[Array, Array]:
        """``sigma_f^2 exp(-r^2 / (2 l^2))`` of both, theta being log l and log sigma_f."""
        rate, variance = -0.5 * np.exp(-2.0 * theta[0]), np.exp(2.0 * theta[1])
        return variance * np.exp(rate * self.own), variance * np.exp(rate * self.cross)


class Point(NamedTuple):
    """One method at one setting: its approximation, latents of the test rows, P(+1) of them."""

    approximation: Any
    mean: Array
    variance: Array
    positive: Array

    @classmethod
    def at(
        cls,
        data: Digits,
        distances: Distances,
        method: str,
        theta: Sequence[float],
        init: Any = None,
    ) -> "Point":
        """Approximate with the probit likelihood, and predict the test rows."""
        K, K_cross = distances.covariances(theta)
        likelihood = Probit()
        found = METHODS[method]()(DensePrior(K), data.y.astype(np.float64), likelihood, init=init)
        variances = np.full(len(data.y_test), K[0, 0])
        mean, variance = found.posterior.predict(K_cross, variances)
        return cls(found, mean, variance, likelihood.predict_proba(mean, variance))


def bits_of(data: Digits, positive: ArrayLike) -> float:
    """Information of probabilities of +1, less that of the training frequencies (RW06 p. 65)."""
    return information_bits(data.y_test, positive, labels=[-1, 1], baseline=data.counts)


def errors_of(data: Digits, positive: ArrayLike) -> int:
    """Test rows whose more probable class is wrong."""
    return int(np.sum((np.asarray(positive) > 0.5) != (data.y_test > 0)))


def interval_of_bits(data: Digits, positive: Array) -> float:
    """Half the 95 % interval of the information: 1.96 standard errors of its mean."""
    p = np.where(data.y_test > 0, positive, 1.0 - positive)
    return float(1.96 * np.log2(p).std(ddof=1) / np.sqrt(len(p)))


def predictions(table: Any, *, method: str, theta: Sequence[float], step: int) -> dict[str, Any]:
    """Evidence, errors and bits at one setting, and the latent means and probabilities."""
    data = Digits.of(table, step)
    point = Point.at(data, Distances.of(data), method, theta)
    return {
        "log_evidence": point.approximation.log_evidence,
        "errors": errors_of(data, point.positive),
        "bits": bits_of(data, point.positive),
        "interval": interval_of_bits(data, point.positive),
        "labels": data.y_test,
        "frequency": float((data.y > 0).mean()),
        "train_mean": point.approximation.posterior.mean.round(4),
        "mean": point.mean.round(4),
        "positive": point.positive,
    }


def default(table: Any, *, step: int) -> dict[str, Any]:
    """The classifier without any argument."""
    data = Digits.of(table, step)
    model = GaussianProcessClassifier().fit(data.X, data.y)
    positive = model.predict_proba(data.X_test)[:, 1]
    return {
        "log_evidence": model.log_marginal_likelihood_value_,
        "errors": errors_of(data, positive),
        "bits": bits_of(data, positive),
        "positive": positive,
    }


def column(
    table: Any,
    *,
    method: str,
    log_length: float,
    log_deviations: Sequence[float],
    step: int,
) -> dict[str, Any]:
    """One log l of a `Surface`, each setting started from the sites of the one before.

    ``range`` has the least and the largest P(+1) of the test rows at the last setting.
    """
    data = Digits.of(table, step)
    distances = Distances.of(data)
    found: dict[str, Any] = {name: [] for name in Surface._fields[2:]}
    init = None
    for log_deviation in log_deviations:
        point = Point.at(data, distances, method, (log_length, log_deviation), init)
        init = point.approximation
        found["log_evidence"].append(init.log_evidence)
        found["bits"].append(bits_of(data, point.positive))
        found["errors"].append(errors_of(data, point.positive))
    return found | {"range": [point.positive.min(), point.positive.max()]}


class Surface(NamedTuple):
    """Values over a grid, (b, a) each: rows by log sigma_f (b,), columns by log l (a,)."""

    log_length: Array
    log_deviation: Array
    log_evidence: Array
    bits: Array
    errors: Array

    @classmethod
    def of(
        cls, log_lengths: Sequence[float], log_deviations: Sequence[float], columns: Sequence[Any]
    ) -> "Surface":
        """Put columns together."""
        values = (np.array([one[name] for one in columns]).T for name in cls._fields[2:])
        return cls(np.array(log_lengths), np.array(log_deviations), *values)

    @property
    def best(self) -> tuple[int, int]:
        """Row and column of the largest evidence."""
        return largest(self.log_evidence)

    def near(self, theta: Sequence[float]) -> tuple[int, int]:
        """Row and column of the setting of the grid that is nearest to theta."""
        places = (np.abs(self.log_deviation - theta[1]), np.abs(self.log_length - theta[0]))
        row, place = (int(gaps.argmin()) for gaps in places)
        return row, place


def largest(values: Array) -> tuple[int, int]:
    """Row and column of the largest value."""
    row, place = divmod(int(values.argmax()), values.shape[1])
    return row, place


def draw_surface(ax: Any, surface: Surface, values: Array, levels: Sequence[float]) -> None:
    """Contours over log l and log sigma_f, and a cross at the largest evidence."""
    seen = [level for level in levels if values.min() < level < values.max()]
    lines = ax.contour(
        surface.log_length, surface.log_deviation, values, levels=seen, colors=COLOURS[0],
        linewidths=1.0, linestyles="solid",
    )  # fmt: skip
    ax.clabel(lines, fontsize=7)
    row, place = surface.best
    ax.plot(surface.log_length[place], surface.log_deviation[row], "x", color=COLOURS[1])
    ax.set(xlabel="log l", ylabel="log $\\sigma_f$")


def draw_evidence_and_bits(axes: Any, surface: Surface, name: str = "") -> None:
    """Contours of both, the evidence at round values below its maximum."""
    levels = np.floor(surface.log_evidence.max()) - DROPS[::-1]
    draw_surface(axes[0], surface, surface.log_evidence, levels.tolist())
    draw_surface(axes[1], surface, surface.bits, BITS)
    axes[0].set_title(f"{name}log evidence")
    axes[1].set_title(f"{name}information about the test rows, bits")
