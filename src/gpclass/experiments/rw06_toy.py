"""RW06 Figure 3.5: a toy problem on the unit square at three length-scales."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpclass import GaussianProcessClassifier
from gpclass.experiments.draws import claims, over_draws, squared_exponential
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

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCALES: Final = (0.1, 0.2, 0.3)
CELLS: Final = 41


def data(n: int, seed: int) -> tuple[Any, Any, list[int]]:
    """Points of the unit square, +1 towards the SW but for a lone -1, and the reverse in the NE."""
    X = np.random.default_rng(seed).uniform(size=(n, 2))
    y = np.where(X.sum(axis=1) < 1.0, 1, -1)
    centers = ((0.25, 0.25), (0.75, 0.75))
    lone = [int(((X - center) ** 2).sum(axis=1).argmin()) for center in centers]
    y[lone] *= -1
    return X, y, lone


def toy(n: int, seed: int, variance: float, scales: Sequence[float]) -> dict[str, Any]:
    """Predictions of Laplace with the logistic response on a grid, and at the points."""
    X, y, lone = data(n, seed)
    x = np.linspace(0.0, 1.0, CELLS)
    grid = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
    surfaces, fit, borders = [], [], []
    for scale in scales:
        model = GaussianProcessClassifier(
            squared_exponential(scale, variance**0.5),
            optimizer=None,
            likelihood="logit",
            inference="laplace",
        ).fit(X, y)
        p = model.predict_proba(grid)[:, 1].reshape(CELLS, CELLS)
        surfaces.append(p)
        fit.append(model.predict(X) == y)
        side = p > 0.5
        crossings = (side[1:] != side[:-1]).sum() + (side[:, 1:] != side[:, :-1]).sum()
        borders.append(crossings / CELLS)
    return {
        "all_right": bool(fit[0].all()),
        "lone_wrong": bool(not fit[-1][lone].any()),
        "others_right": bool(np.delete(fit[-1], lone).all()),
        "shorter": borders[0] > borders[1] > borders[2],
        "largest": np.max(surfaces),
        "smallest": np.min(surfaces),
        "surfaces": np.round(surfaces, 3) if seed == 0 else [],
    }


def pieces(size: Size) -> Iterable[Piece]:
    """One piece a draw of the points."""
    for seed in range(20 if size == "full" else 3):
        arguments = {"n": 20, "seed": seed, "variance": 9.0, "scales": SCALES}
        yield Piece(f"draw-{seed}", toy, arguments, cost=0.3)


TEXTS: Final = {
    "all_right": "l = 0.1: the labels of all points are agreed with",
    "lone_wrong": "l = 0.3: the two lone points are misclassified",
    "shorter": "the decision boundary is longer, the shorter l is",
}


def found(results: Results) -> Mapping[Place, Found | float | bool]:
    """The claims of section 3.7.1 over draws, and the two values of the caption."""
    draws = list(results.values())
    cells: dict[Place, Found | float | bool] = {**claims(draws, TEXTS)}
    cells["predictive probability", "largest"] = over_draws([one["largest"] for one in draws])
    cells["predictive probability", "smallest"] = over_draws([one["smallest"] for one in draws])
    return cells


def figures(results: Results) -> Mapping[str, "Figure"]:
    """The four panels, of the points of seed 0."""
    X, y, _ = data(20, 0)
    x = np.linspace(0.0, 1.0, CELLS)
    figure, axes = panels(2, 2)
    surfaces = results["draw-0"]["surfaces"]
    for ax, scale, surface in zip(axes.flat[1:], SCALES, surfaces, strict=True):
        lines = ax.contour(x, x, surface, levels=[0.25, 0.3, 0.7, 0.75], colors="grey")
        ax.clabel(lines, fontsize=8)
        ax.contour(x, x, surface, levels=[0.5], colors="black", linewidths=2.5)
        ax.set_title(f"l = {scale}")
    for ax in axes.flat:
        ax.plot(*X[y > 0].T, "o", color="black", markerfacecolor="white")
        ax.plot(*X[y < 0].T, "o", color="black")
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=[], yticks=[])
    return {"Points (a) and predictive probabilities at three length-scales (b to d)": figure}


EXPERIMENT = Experiment(
    name="rw06-3.5",
    title="A toy problem on the unit square at three length-scales",
    source="RW06 Figure 3.5, p. 61",
    settings="Laplace, logistic response, squared exponential with a signal variance of 9 and l = "
    "0.1, 0.2, 0.3: as in the caption. The points are not printed. Ours have the same "
    "description: 20, uniform on the square, +1 (open) below its diagonal and -1 (closed) above, "
    "but for the points nearest to (0.25, 0.25) and (0.75, 0.75), which have the label of the "
    "other corner. The figure has the points of seed 0; claims are judged over draws 0 to 19, and "
    "hold where they hold in most of them.",
    published=(
        *(Published(claim, "holds", True) for claim in TEXTS.values()),
        Published("predictive probability", "largest", 0.84, 0.01),
        Published("predictive probability", "smallest", 0.19, 0.01),
    ),
    pieces=pieces,
    found=found,
    figures=figures,
)
