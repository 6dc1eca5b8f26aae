"""Whole fits of small tables, by this library and by scikit-learn, with the same kernel."""

import warnings
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier as Theirs
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel

from benchmarks.figures import Figures, Limit, seconds, times
from benchmarks.multiclass import labels_of
from benchmarks.problems import make_problem, starting_kernel
from benchmarks.turns import Contestant, median, ratio, take_turns
from gpclass import GaussianProcessClassifier as Ours

COLUMNS: Final = 10
# rows, and whether there is one length-scale a column; scikit-learn's fits of more take minutes
SIZES: Final = (
    (50, False),
    (100, False),
    (200, False),
    (500, False),
    (1000, False),
    (50, True),
    (100, True),
    (200, True),
    (500, True),
)
CLASSES: Final = (2, 3)
METHODS: Final = ("ep", "laplace")
ROWS: Final = tuple(f"{C}-{n}-{'ard' if ard else 'iso'}" for C in CLASSES for n, ard in SIZES)


def _kernel(ard: bool) -> Kernel:
    return starting_kernel(COLUMNS) if ard else ConstantKernel(1.0) * RBF(np.sqrt(COLUMNS))


def _contestant(name: str, model: Any, X: Any, y: Any, repeat: int | None = None) -> Contestant:
    def fit(_: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)

    return Contestant(name, fit, repeat=repeat)


def run(repeat: int, dry: bool, rows: Sequence[str] = ROWS) -> Figures:
    """Each of our methods in turns with scikit-learn's fit from the same start."""
    figures = Figures(
        f"Whole fits, {COLUMNS} columns, the same kernel and start",
        ("classes", "n", "length-scales", *METHODS, "scikit-learn", "sklearn / ep", "/ laplace"),
        notes=[
            "more than two classes: ours are one joint model, scikit-learn's one against the rest",
            "no row should be slower than scikit-learn's",
        ],
    )
    for row in rows[:: len(SIZES)] if dry else rows:
        classes, size, scales = row.split("-")
        n_classes, n, ard = int(classes), min(int(size), 40) if dry else int(size), scales == "ard"
        problem = make_problem(n, COLUMNS)
        y = problem.y if n_classes == 2 else labels_of(problem.X, n_classes)
        kernel = _kernel(ard)
        slow = n >= 500
        contestants = [
            _contestant(name, Ours(kernel, inference=name), problem.X, y) for name in METHODS
        ]
        once = 1 if slow else None
        contestants.append(_contestant("scikit-learn", Theirs(kernel), problem.X, y, once))
        spent = take_turns(contestants, min(repeat, 2) if slow else repeat)
        gains = [ratio(spent, "scikit-learn", name) for name in METHODS]
        figures.rows.append(
            (
                classes,
                str(n),
                scales,
                *(seconds(median(spent, name)) for name in (*METHODS, "scikit-learn")),
                *(times(gain) for gain in gains),
            )
        )
        figures.records.append(
            {"classes": n_classes, "n": n, "ard": ard, "seconds": spent, "ratios": gains}
        )
        figures.limits.extend(
            Limit(f"{row}: scikit-learn's time by ours, {name}", gain, 1.0, at_most=False)
            for name, gain in zip(METHODS, gains, strict=True)
        )
    return figures
