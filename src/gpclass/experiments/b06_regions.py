"""B06 Figure 6.12: two classes in the plane, Laplace's boundary beside the optimal one."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.stats import multivariate_normal

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

# Center and covariance of the blue class, and of the two halves of the red one.
BLUE: Final = (((0.0, -0.1), ((0.6, 0.3), (0.3, 0.4))),)
RED: Final = (
    ((-1.2, 0.9), ((0.2, 0.0), (0.0, 0.4))),
    ((1.2, 0.9), ((0.2, 0.0), (0.0, 0.4))),
)
REACH, CELLS = 2.5, 61


def draw(parts: Any, n: int, rng: np.random.Generator) -> Any:
    """Rows of a mixture of equal parts."""
    which = rng.integers(len(parts), size=n)
    rows = [rng.multivariate_normal(center, cov, size=n) for center, cov in parts]
    return np.stack(rows)[which, np.arange(n)]


def truth(X: Any) -> Any:
    """Probability of the blue class, both classes being as frequent."""
    blue, red = (
        np.mean([multivariate_normal.pdf(X, center, cov) for center, cov in parts], axis=0)
        for parts in (BLUE, RED)
    )
    return blue / (blue + red)


def regions(n: int, n_test: int, seed: int) -> dict[str, Any]:
    """Error of Laplace with learnt hyperparameters, of the optimal boundary; both surfaces."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([draw(BLUE, n // 2, rng), draw(RED, n // 2, rng)])
    y = np.repeat([1, 0], n // 2)
    X_test = np.concatenate([draw(BLUE, n_test, rng), draw(RED, n_test, rng)])
    y_test = np.repeat([1, 0], n_test)
    model = GaussianProcessClassifier(
        squared_exponential(1.0, 1.0, learnt=True), likelihood="logit", inference="laplace"
    ).fit(X, y)
    x = np.linspace(-REACH, REACH, CELLS)
    grid = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
    best = float(((truth(X_test) > 0.5) != y_test).mean())
    ours = float((model.predict(X_test) != y_test).mean())
    kept = seed == 0
    return {
        "optimal": best,
        "ours": ours,
        "close": ours - best < 0.02,
        "X": np.round(X, 3) if kept else [],
        "proba": np.round(model.predict_proba(grid)[:, 1], 3) if kept else [],
    }


def pieces(size: Size) -> Iterable[Piece]:
    """One piece a draw of the points."""
    for seed in range(10 if size == "full" else 2):
        yield Piece(f"draw-{seed}", regions, {"n": 200, "n_test": 5000, "seed": seed}, cost=1.5)


TEXTS: Final = {"close": "the boundary is near the optimal one: under 2 % more errors"}


def found(results: Results) -> Mapping[Place, Found | float | bool]:
    """The claim that the figure makes, and the errors behind it."""
    draws = list(results.values())
    cells: dict[Place, Found | float | bool] = {**claims(draws, TEXTS)}
    for row, key in (("Laplace", "ours"), ("optimal boundary", "optimal")):
        cells[row, "test error (%)"] = over_draws([100.0 * one[key] for one in draws])
    return cells


def figures(results: Results) -> Mapping[str, "Figure"]:
    """Data with both boundaries, and the predicted probability."""
    one = results["draw-0"]
    X, x = np.array(one["X"]), np.linspace(-REACH, REACH, CELLS)
    grid = np.stack(np.meshgrid(x, x), axis=-1)
    proba = np.reshape(one["proba"], (CELLS, CELLS))
    figure, axes = panels(1, 2)
    a, b = axes.flat
    half = len(X) // 2
    a.plot(*X[:half].T, "o", color="#0072B2", markerfacecolor="none", markersize=4)
    a.plot(*X[half:].T, "x", color="#D55E00", markersize=4)
    a.contour(x, x, truth(grid), levels=[0.5], colors="#009E73")
    b.pcolormesh(x, x, proba, cmap="RdBu", vmin=0.0, vmax=1.0, rasterized=True)
    for ax in (a, b):
        ax.contour(x, x, proba, levels=[0.5], colors="black")
        ax.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), aspect="equal")
    return {
        "Data with the optimal boundary (green) and Laplace's (black); the probability of the "
        "blue class": figure
    }


EXPERIMENT = Experiment(
    name="b06-6.12",
    title="Two classes in the plane: Laplace's boundary beside the optimal one",
    source="B06 Figure 6.12, p. 319",
    settings="The figure prints no numbers and our copy of the section does not describe the data: "
    "200 points of two classes, one a normal density and one a mixture of two, with means and "
    "covariances of our choice. Laplace with the logistic likelihood, squared exponential, l and "
    "sigma_f by the evidence. The optimal boundary is that of the densities. Errors are of 10,000 "
    "further points; ten draws, the first in the figure. The evidence (6.90) and its gradient "
    "(6.91 to 6.94, of which 6.91 and 6.94 have W and C in the wrong order) are compared with ours "
    "in `tests/test_papers.py`.",
    published=tuple(Published(claim, "holds", True) for claim in TEXTS.values()),
    pieces=pieces,
    found=found,
    figures=figures,
)
