"""RW06 Figure 3.3: log likelihoods of one case and their derivatives."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

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
from gpclass.likelihoods import get_likelihood

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEP = 1e-4


def curves(likelihood: str) -> dict[str, Any]:
    """Log likelihood and two derivatives for z from -2 to 2, their errors, and far to the left."""
    given = get_likelihood(likelihood)

    def at(z: Any) -> tuple[Any, ...]:
        z = np.asarray(z, dtype=float)
        found = given.derivatives(np.ones_like(z), z)
        return given.log_prob(np.ones_like(z), z), found.first, found.second

    z = np.linspace(-2.0, 2.0, 81)
    values, slopes, curvatures = at(z)
    above, below = at(z + STEP), at(z - STEP)
    wide = at(np.linspace(-50.0, 50.0, 1001))[2]
    far = at([-50.0])
    return {
        "z": z,
        "log_likelihood": values,
        "first": slopes,
        "second": curvatures,
        # central differences of the row above each
        "errors": [
            np.abs((above[k] - below[k]) / (2.0 * STEP) - exact).max()
            for k, exact in ((0, slopes), (1, curvatures))
        ],
        "concave": bool((wide <= 0.0).all()),
        "far_first": far[1][0],
        "far_second": far[2][0],
    }


def pieces(size: Size) -> Iterable[Piece]:
    """One piece a likelihood."""
    for name in ("logit", "probit"):
        yield Piece(name, curves, {"likelihood": name}, cost=0.1)


CONCAVE = "both likelihoods are log concave"
LINEAR = "for large negative z the log logistic is linear: slope 1, no curvature at -50"
QUADRATIC = "there the log cumulative Gaussian has a quadratic penalty: curvature -1 at -50"


def found(results: Results) -> Mapping[Place, Found | float | bool]:
    """The claims of the caption, and the derivatives against central differences."""
    logit, probit = results["logit"], results["probit"]
    cells: dict[Place, Found | float | bool] = {
        (CONCAVE, "holds"): logit["concave"] and probit["concave"],
        (LINEAR, "holds"): abs(logit["far_first"] - 1.0) < 1e-9 and abs(logit["far_second"]) < 1e-9,
        (QUADRATIC, "holds"): abs(probit["far_second"] + 1.0) < 1e-3,
    }
    for name, one in results.items():
        for order, error in zip(("first", "second"), one["errors"], strict=True):
            cells[f"{name}, {order} derivative", "error of central differences"] = error
    return cells


def figures(results: Results) -> Mapping[str, "Figure"]:
    """Panels (a) and (b)."""
    figure, axes = panels(1, 2)
    for ax, (name, one) in zip(axes.flat, results.items(), strict=True):
        styles = {"log likelihood": "-", "1st derivative": "--", "2nd derivative": "-."}
        keys = ("log_likelihood", "first", "second")
        for (label, style), key in zip(styles.items(), keys, strict=True):
            ax.plot(one["z"], one[key], style, color="black", label=label)
        ax.set(xlabel="latent times target, z = y f", title=name, ylim=(-3, 2))
    axes.flat[0].legend(frameon=False)
    return {"Log likelihood and derivatives of the logistic and the cumulative Gaussian": figure}


EXPERIMENT = Experiment(
    name="rw06-3.3",
    title="The log likelihood of a case and its derivatives",
    source="RW06 Figure 3.3, section 3.4",
    settings="z from -2 to 2 as in the figure. The derivatives are those of "
    f"`Likelihood.derivatives`; beside them their errors against central differences, step {STEP}.",
    published=tuple(Published(claim, "holds", True) for claim in (CONCAVE, LINEAR, QUADRATIC)),
    pieces=pieces,
    found=found,
    figures=figures,
)
