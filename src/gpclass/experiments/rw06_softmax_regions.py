"""RW06 Figure 3.13 and exercise 3.10.3: the decision regions of the softmax of three classes."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.special import softmax

from gpclass.displays.drawing import COLOURS
from gpclass.experiments.form import (
    Experiment,
    Found,
    Piece,
    Place,
    Published,
    Results,
    Size,
    panels,
)
from gpclass.likelihoods.probabilities.gaussian import softmax_probabilities
from gpclass.linalg import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOLDS: Final = "holds"
BOUNDARY: Final = "p(C1) = 1/3 on the curve exp(z2) + exp(z3) = 2"
ANY: Final = "with mean zero, the covariance alone can make each class the most probable"
BY_Z: Final = "the same of z, with the covariance T cov(f) T'"
PRINTED: Final = "z = T f for the T that is printed"
T: Final = np.array([[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])
T_PRINTED: Final = np.array([[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]])


def probabilities(z2: Array, z3: Array) -> Array:
    """Those of the three classes, in the last axis (3.88)."""
    return np.asarray(softmax(np.stack([np.zeros_like(z2), z2, z3], axis=-1), axis=-1))


def averages(*, variance: float, samples: int, seed: int) -> dict[str, Any]:
    """``E[softmax(f)]`` for f of mean zero where one class has the variance and the others 1.

    By cubature, by samples of f, with their standard errors, and by samples of z.
    """
    rng = np.random.default_rng(seed)
    found = {}
    for wide in range(3):
        variances = np.where(np.arange(3) == wide, variance, 1.0)
        f = rng.standard_normal((samples, 3)) * np.sqrt(variances)
        z = rng.multivariate_normal(np.zeros(2), T @ np.diag(variances) @ T.T, samples)
        by_f, by_z = softmax(f, axis=1), probabilities(*z.T)
        found[f"C{wide + 1}"] = {
            "cubature": softmax_probabilities(np.zeros((1, 3)), np.diag(variances)[None])[0],
            "samples": by_f.mean(axis=0),
            "error": by_f.std(axis=0) / np.sqrt(samples),
            "of_z": by_z.mean(axis=0),
        }
    return found


def pieces(size: Size) -> Iterator[Piece]:
    """One, of a second."""
    samples = 1_000_000 if size == "full" else 20_000
    yield Piece("averages", averages, {"variance": 9.0, "samples": samples, "seed": 0})


def found(results: Results) -> Mapping[Place, Found | float | bool]:
    """The claims of the exercise."""
    z2 = np.linspace(-5.0, 0.69, 50)
    on_curve = probabilities(z2, np.log(2.0 - np.exp(z2)))[:, 0]
    f = np.array([0.3, -1.0, 2.0])
    z = f[1:] - f[0]
    cells: dict[Place, Found | float | bool] = {
        (BOUNDARY, HOLDS): bool(np.abs(on_curve - 1.0 / 3.0).max() < 1e-12),
        (PRINTED, HOLDS): bool(np.allclose(T_PRINTED @ f, z)),
        ("z = T f for T = (-1, 1, 0; -1, 0, 1)", HOLDS): bool(np.allclose(T @ f, z)),
    }
    if "averages" in results:
        each = results["averages"].values()
        for row, key in ((ANY, "cubature"), (BY_Z, "of_z")):
            likeliest = [int(np.argmax(one[key])) for one in each]
            cells[row, HOLDS] = likeliest == [0, 1, 2]
        apart = [np.abs(np.subtract(one["cubature"], one["samples"])) for one in each]
        errors = [one["error"] for one in each]
        cells["cubature against samples of f", "largest difference"] = Found(
            float(np.max(apart)), float(np.max(errors))
        )
        for wide, one in results["averages"].items():
            cells[f"variance 9 of {wide}, 1 of the others", f"P({wide})"] = max(one["cubature"])
    return cells


def figures(results: Results) -> Mapping[str, "Figure"]:
    """Regions of the most probable class, and where each class has one third."""
    z2, z3 = np.meshgrid(np.linspace(-3.0, 3.0, 301), np.linspace(-3.0, 3.0, 301))
    P = probabilities(z2, z3)
    figure, axes = panels(1, 1, 4.6)
    ax = axes[0, 0]
    ax.contourf(
        z2, z3, P.argmax(axis=-1), levels=[-0.5, 0.5, 1.5, 2.5], colors=COLOURS[:3], alpha=0.3
    )
    for c in range(3):
        ax.contour(z2, z3, P[..., c], levels=[1.0 / 3.0], colors=COLOURS[c], linestyles="--")
    for (x, y), c in zip(((-2.0, -2.0), (2.0, -1.0), (-1.0, 2.0)), (1, 2, 3), strict=True):
        ax.text(x, y, f"C{c}")
    ax.set(xlabel="$z_2 = f_2 - f_1$", ylabel="$z_3 = f_3 - f_1$")
    return {"The most probable class; dashed, where a class has probability one third": figure}


EXPERIMENT = Experiment(
    name="rw06-3.13",
    title="Decision regions of the softmax of three classes",
    source="RW06 Figure 3.13, exercise 3.10.3",
    settings="The exercise leaves the covariances open: one class has variance 9, the others 1, "
    "independent. Averages are by cubature, and by samples of f and of z.",
    published=tuple(Published(row, HOLDS, True) for row in (BOUNDARY, ANY, BY_Z, PRINTED)),
    pieces=pieces,
    found=found,
    figures=figures,
    remarks={
        PRINTED: "The rows of the T that is printed are f1 - f3 and f2 - f3, and z was defined "
        "less f1; with either the conclusion is the same."
    },
)
