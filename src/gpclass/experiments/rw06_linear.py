"""RW06 Figure 3.1: Bayesian linear logistic regression by a grid over the weights, and by us."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.special import expit, log_expit
from sklearn.gaussian_process.kernels import DotProduct

from gpclass import GaussianProcessClassifier
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

# The paper prints no coordinates: ours. The last cross lies between circles seen from the origin,
# so that no line through it separates the classes.
CIRCLES: Final = ((1.0, 2.0), (2.0, 0.5), (3.0, 2.0), (-1.0, 2.5), (2.5, -0.5))
CROSSES: Final = ((-2.0, -1.0), (-3.0, 0.5), (-0.5, -2.5), (-2.0, -3.0), (1.5, 1.0))
METHODS: Final = ("laplace", "ep", "pl", "vi")


def posterior(circles: Any, crosses: Any, points: int, reach: float, cells: int) -> dict[str, Any]:
    """Posterior of the weights on a grid, predictions from it (3.7), and those of the library."""
    X = np.array([*circles, *crosses], dtype=float)
    y = np.repeat([1.0, -1.0], [len(circles), len(crosses)])
    w = np.linspace(-reach, reach, points)
    W = np.stack(np.meshgrid(w, w), axis=-1).reshape(-1, 2)
    area = (w[1] - w[0]) ** 2
    prior = np.exp(-0.5 * (W**2).sum(axis=1)) / (2.0 * np.pi)
    joint = prior * np.exp(log_expit((X * y[:, None]) @ W.T).sum(axis=0))
    evidence = joint.sum() * area
    weights = joint / joint.sum()
    mean = weights @ W
    along = (W - mean) @ mean / np.linalg.norm(mean)
    skewness = (weights @ along**3) / (weights @ along**2) ** 1.5
    x = np.linspace(-5.0, 5.0, cells)
    grid = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
    proba = np.concatenate([expit(rows @ W.T) @ weights for rows in np.array_split(grid, 20)])
    u = mean / np.linalg.norm(mean)
    aside = 3.0 * u + 4.0 * np.array([-u[1], u[0]])
    bent = [float(expit(at @ W.T) @ weights) for at in (3.0 * u, aside)]
    surface = joint.reshape(points, points)
    inner = surface[1:-1, 1:-1]
    beside = [surface[:-2, 1:-1], surface[2:, 1:-1], surface[1:-1, :-2], surface[1:-1, 2:]]
    ours = {}
    for method in METHODS:
        model = GaussianProcessClassifier(
            DotProduct(0.0, "fixed"), optimizer=None, likelihood="logit", inference=method
        ).fit(X, y)
        p = model.predict_proba(grid)[:, 1]
        ours[method] = {
            "distance": float(np.abs(p - proba).max()),
            "evidence": float(model.log_marginal_likelihood_value_),
            "proba": np.round(p, 4),
        }
    step = max(1, points // 50)
    return {
        "mean": mean,
        "skewness": skewness,
        "maxima": int(np.all([inner > other for other in beside], axis=0).sum()),
        "bent": bent,
        "evidence": float(np.log(evidence)),
        "weights": w[::step],
        "posterior": np.round((weights / area).reshape(points, points)[::step, ::step], 4),
        "x": x,
        "proba": np.round(proba, 4),
        "ours": ours,
    }


def pieces(size: Size) -> Iterable[Piece]:
    """One piece; the quick grids are coarser."""
    points, cells = (201, 41) if size == "full" else (101, 11)
    arguments = {"circles": CIRCLES, "crosses": CROSSES, "reach": 5.0}
    yield Piece("posterior", posterior, arguments | {"points": points, "cells": cells})


UNIMODAL = "the posterior has one maximum"
SKEWED = "the posterior is not Gaussian: its skewness along the mean is above 0.1"
DIRECTION = "(1, 1) is a reasonable direction: within 20 degrees of the posterior mean"
BENT = "contours of the predictive are bent: less certain aside, at the same distance"


def found(results: Results) -> Mapping[Place, Found | float | bool]:
    """The claims of section 3.2, and how far the methods are from the grid."""
    one = results["posterior"]
    mean = np.array(one["mean"])
    cells: dict[Place, Found | float | bool] = {
        (UNIMODAL, "holds"): one["maxima"] == 1,
        (SKEWED, "holds"): one["skewness"] > 0.1,
        (DIRECTION, "holds"): bool(
            mean.sum() / (np.sqrt(2.0) * np.linalg.norm(mean)) > np.cos(np.radians(20.0))
        ),
        (BENT, "holds"): 0.5 < one["bent"][1] < one["bent"][0] - 0.02,
        ("grid", "log evidence"): one["evidence"],
    }
    for method, ours in one["ours"].items():
        cells[method, "log evidence"] = ours["evidence"]
        cells[method, "largest difference of p from the grid"] = ours["distance"]
    return cells


def figures(results: Results) -> Mapping[str, "Figure"]:
    """The four panels; (d) with EP's contours over those of the grid."""
    one = results["posterior"]
    w, x = np.array(one["weights"]), np.array(one["x"])
    figure, axes = panels(2, 2)
    a, b, c, d = axes.flat
    prior = np.exp(-0.5 * (w[:, None] ** 2 + w**2)) / (2.0 * np.pi)
    for ax, density in ((a, prior), (c, one["posterior"])):
        top = float(np.max(density))
        ax.contour(w, w, density, levels=top * np.array([0.05, 0.2, 0.4, 0.6, 0.8, 0.95]))
        ax.set(xlim=(-2.5, 2.5), ylim=(-2.5, 2.5), xlabel="$w_1$", ylabel="$w_2$")
    for ax in (b, d):
        ax.plot(*np.transpose(CIRCLES), "o", color="#0072B2", markerfacecolor="none")
        ax.plot(*np.transpose(CROSSES), "x", color="#D55E00")
        ax.set(xlim=(-5, 5), ylim=(-5, 5), xlabel="$x_1$", ylabel="$x_2$")
    levels = [0.1, 0.25, 0.5, 0.75, 0.9]
    shape = (len(x), len(x))
    lines = d.contour(x, x, np.reshape(one["proba"], shape), levels=levels, colors="black")
    d.clabel(lines, fontsize=8)
    ep = np.reshape(one["ours"]["ep"]["proba"], shape)
    d.contour(x, x, ep, levels=levels, colors="#009E73", linestyles=":")
    for ax, title in zip(axes.flat, ("prior", "data", "posterior", "predictive"), strict=True):
        ax.set_title(title)
    return {"Prior, data, posterior and predictive by the grid; dotted: EP": figure}


EXPERIMENT = Experiment(
    name="rw06-3.1",
    title="Linear logistic regression: posterior and predictive by a grid",
    source="RW06 Figure 3.1, section 3.2",
    settings="Two inputs, no bias, prior N(0, I) of the weights, logistic likelihood: as in the "
    "paper. Its points are not printed: ours are ten, not separable by a line through the origin, "
    "and typed in by hand. The posterior is summed on a grid of 201 x 201 weights in [-5, 5] "
    "(without the tails beyond, where the prior has a mass of 1e-6). The library's models have "
    "`DotProduct(0)` for a kernel, which is the same model. What *reasonable*, *bent* and "
    "*non-Gaussian* mean in numbers is our choice, and stands in the rows.",
    published=tuple(
        Published(claim, "holds", True) for claim in (UNIMODAL, SKEWED, DIRECTION, BENT)
    ),
    pieces=pieces,
    found=found,
    figures=figures,
)
