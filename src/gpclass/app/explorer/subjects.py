"""What is explored: a two-class problem of a named data set, a file, or a fitted model."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel

from gpclass.inference import METHODS, Laplace
from gpclass.learning import BinaryProblem
from gpclass.likelihoods import LIKELIHOODS, Probit
from gpclass.linalg import Array
from gpclass.priors import Dense, DensePrior, PriorForm

# More rows than these are test rows: an answer should come within the time of a blink.
MOST_ROWS: Final = 800
# Logarithms to both sides of where a slider starts.
REACH: Final = 3.0
# Picture sizes of the tables whose columns are pixels.
DIGITS: Final = "usps_3v5"
PICTURES: Final = {"digits": (8, 8), DIGITS: (16, 16), "usps": (16, 16)}


class Parameter(NamedTuple):
    """One slider: ``scale`` times an entry of theta, since sigma_f is the root of a variance."""

    label: str
    start: float
    low: float
    high: float
    scale: float = 1.0


@final
@dataclass(frozen=True, eq=False)
class Subject:
    """A two-class problem, and what the page says of it.

    Parameters
    ----------
    title : str
    problem : BinaryProblem
        Where the sliders start; the label +1 is the second of `classes`.
    classes : tuple of two str
    parameters : tuple of Parameter
        One for each entry of theta of the kernel.
    columns : tuple of str
        Names of the columns of the problem's inputs; empty where these are no matrix.
    X_new, y_new : ndarray of shape (m, d), (m,), default=None
        Test rows and their labels, -1 and +1; without them rows are left out one at a time.
    picture : tuple of two int, default=None
        Height and width where the columns are the pixels of a picture.
    """

    title: str
    problem: BinaryProblem = field(repr=False)
    classes: tuple[str, str]
    parameters: tuple[Parameter, ...]
    columns: tuple[str, ...] = field(repr=False)
    X_new: Array | None = field(default=None, repr=False)
    y_new: Array | None = field(default=None, repr=False)
    picture: tuple[int, int] | None = None

    def theta(self, values: tuple[float, ...]) -> Array:
        """Theta of the kernel at values of the sliders."""
        pairs = zip(values, self.parameters, strict=True)
        return np.array([value / one.scale for value, one in pairs])


@final
@dataclass(frozen=True, eq=False)
class KeptDistances(PriorForm):
    """The prior of ``ConstantKernel * RBF`` from squared distances that are found once.

    ``own`` (n, n) are those of the training rows, ``new`` (n, m) those to the rows ``X_new``.
    """

    own: Array
    new: Array
    X_new: Array

    @classmethod
    def of(cls, X: Array, X_new: Array) -> "KeptDistances":
        """Find them."""
        return cls(cdist(X, X, "sqeuclidean"), cdist(X, X_new, "sqeuclidean"), X_new)

    def make(self, kernel: Kernel, X: Any, jitter: float) -> DensePrior:
        """Scale and exponentiate the distances of the training rows."""
        K = _covariance(kernel, self.own)
        K.flat[:: len(K) + 1] += jitter
        return DensePrior(K, kernel)

    def pull(self, kernel: Kernel, X: Any, prior: DensePrior, G: Array) -> Array:
        """Gradient by the kernel's theta."""
        return Dense().pull(kernel, X, prior, G)

    def points(self, X: Any) -> Any:
        """The training rows."""
        return X

    def cross(self, kernel: Kernel, X: Any, X_new: Any) -> tuple[Array, Array]:
        """Of the kept rows by their distances; of others by the kernel."""
        if X_new is not self.X_new:
            return Dense().cross(kernel, X, X_new)
        variances = np.full(len(X_new), kernel.k1.constant_value)
        return _covariance(kernel, self.new), variances


def _covariance(kernel: Any, squared: Array) -> Array:
    K: Array = np.multiply(squared, -0.5 / kernel.k2.length_scale**2)
    np.exp(K, out=K)
    K *= kernel.k1.constant_value
    return K


def subject(name: str, target: str | None = None, positive: str | None = None) -> Subject:
    """What `gpclass explore` was asked for.

    Parameters
    ----------
    name : str
        A model file that ends in .skops, or what `gpclass.app.datasets.load_dataset` takes.
        "usps_3v5" has the test rows of RW06 section 3.7.
    target : str, default=None
        The class column of a file.
    positive : str, default=None
        Of more than two classes the one that is set against the rest; None: the last.

    Raises
    ------
    ValueError
        For a model that is not of two classes, and for a table with text or gaps.

    Examples
    --------
    >>> from gpclass.app.explorer.subjects import subject
    >>> iris = subject("iris", positive="versicolor")
    >>> iris.classes, [one.label for one in iris.parameters]
    (('not versicolor', 'versicolor'), ['log signal deviation', 'log length-scale'])
    """
    if name.endswith(".skops"):
        return _of_model(Path(name), positive)
    if name == DIGITS:
        return _of_digits()
    return _of_table(name, target, positive)


def families(problem: BinaryProblem) -> tuple[str, str]:
    """Names of a problem's method and likelihood; ValueError where the page offers none of them."""
    names = []
    for one, known in ((problem.inference, METHODS), (problem.likelihood, LIKELIHOODS)):
        name = next((name for name, kind in known.items() if type(one) is kind), None)
        if name is None:
            raise ValueError(
                f"the model has {type(one).__name__}, and the explorer offers {', '.join(known)}."
            )
        names.append(name)
    return names[0], names[1]


def _of_model(path: Path, positive: str | None) -> Subject:
    from gpclass.app.model_file import load_model
    from gpclass.estimator.labels import labels_of_theta
    from gpclass.estimator.summary import names_of_columns

    model: Any = load_model(path)
    known = [str(one) for one in model.classes_]
    if len(known) > 2 and len(model.models_) != len(known):
        raise ValueError(
            f"{path} has {len(known)} classes in one model, and the explorer shows two: fit with "
            "--multi-class one_vs_rest, or explore the data set by its name."
        )
    place = 0 if len(known) == 2 else _place(known, positive)
    problem = model.models_[place].problem
    if not isinstance(problem, BinaryProblem):
        raise ValueError(
            f"{path} has one model of all {len(known)} classes, and the explorer shows two: fit "
            "with --multi-class one_vs_rest, or explore the data set by its name."
        )
    families(problem)
    X = problem.inputs
    n_kernel = problem.hyperparameters.n_kernel
    if n_kernel == 0:
        raise ValueError(f"the kernel of {path} has no free hyperparameter to move.")
    labels = labels_of_theta(model, problem)[:n_kernel]
    parameters = tuple(
        Parameter(f"log {label}", *_range(float(value), low, high))
        for label, value, (low, high) in zip(labels, problem.theta, problem.bounds, strict=False)
    )
    classes = (known[0], known[1]) if len(known) == 2 else _against(known[place])
    matrix = isinstance(X, np.ndarray) and X.ndim == 2
    columns = tuple(map(str, names_of_columns(model, X))) if matrix else ()
    return Subject(path.stem, problem, classes, parameters, columns)


def _range(start: float, low: float, high: float) -> tuple[float, float, float]:
    """A start within its bounds, and the ends of its slider."""
    start = float(np.clip(start, low, high))
    return round(start, 3), round(max(start - REACH, low), 3), round(min(start + REACH, high), 3)


def _of_digits() -> Subject:
    from gpclass.app.reproduce import load
    from gpclass.experiments.usps import LAPLACE_BEST, Digits

    data = Digits.of(load("usps"))
    columns = tuple(f"pixel {j % 16 + 1}, {j // 16 + 1}" for j in range(data.X.shape[1]))
    length, deviation = LAPLACE_BEST
    return _by_distances(
        "USPS digits, 3 against 5", data.X, data.y, (data.X_test, data.y_test), ("5", "3"),
        columns, (deviation, length), PICTURES[DIGITS],
    )  # fmt: skip


def _of_table(name: str, target: str | None, positive: str | None) -> Subject:
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    from gpclass.app.datasets import load_dataset
    from gpclass.app.evaluation import check_classes

    dataset = load_dataset(name, target)
    known = [str(one) for one in check_classes(dataset.y, name=dataset.target)]
    numbers = all(kind.kind in "iufb" for kind in dataset.X.dtypes)
    if not numbers or dataset.X.isna().any(axis=None):
        raise ValueError(
            f"{dataset.name} has columns of text or with gaps, which the explorer takes from a "
            f"fitted model alone: gpclass fit {name} --out model.skops, gpclass explore model.skops"
        )
    picture = PICTURES.get(dataset.name)
    X = dataset.X.to_numpy(np.float64)
    X = StandardScaler().fit_transform(X) if picture is None else X / X.std()
    second = known[_place(known, positive)] if positive or len(known) > 2 else known[1]
    y = np.where(dataset.y.astype(str) == second, 1.0, -1.0)
    other = [one for one in known if one != second]
    classes = (other[0], second) if len(known) == 2 else _against(second)
    new = None
    if len(y) > MOST_ROWS:
        X, X_new, y, y_new = train_test_split(
            X, y, train_size=MOST_ROWS, stratify=y, random_state=0
        )
        new = (X_new[:MOST_ROWS], y_new[:MOST_ROWS])
    starts = (1.0, round(0.5 * float(np.log(X.shape[1])), 2))
    return _by_distances(dataset.name, X, y, new, classes, dataset.feature_names, starts, picture)


def _place(known: list[str], positive: str | None) -> int:
    if positive is None:
        return len(known) - 1
    if positive not in known:
        raise ValueError(f"--class {positive} is none of the classes {', '.join(known)}.")
    return known.index(positive)


def _against(name: str) -> tuple[str, str]:
    return f"not {name}", name


def _by_distances(
    title: str,
    X: Array,
    y: NDArray[Any],
    new: tuple[Array, NDArray[Any]] | None,
    classes: tuple[str, str],
    columns: tuple[str, ...],
    starts: tuple[float, float],
    picture: tuple[int, int] | None,
) -> Subject:
    """One length-scale for all columns; ``starts`` are log sigma_f and log l."""
    kernel = ConstantKernel(np.exp(2.0 * starts[0])) * RBF(np.exp(starts[1]))
    X_new, y_new = (X[:0], None) if new is None else (new[0], new[1].astype(np.float64))
    form = KeptDistances.of(X, X_new)
    labels = y.astype(np.float64)
    problem = BinaryProblem(kernel, X, labels, Probit(), Laplace(), prior_form=form)
    parameters = (
        Parameter("log signal deviation", *_range(starts[0], -np.inf, np.inf), 0.5),
        Parameter("log length-scale", *_range(starts[1], -np.inf, np.inf)),
    )
    return Subject(
        title, problem, classes, parameters, tuple(map(str, columns)),
        None if new is None else X_new, y_new, picture,
    )  # fmt: skip
