"""RW06 Figure 3.4: a likelihood term under a Gaussian cavity, and the Gaussian of its moments."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

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
from gpclass.likelihoods import Probit

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def match(mean: float, variance: float, label: float, points: int) -> dict[str, Any]:
    """Moments of cavity times likelihood: ours, and by sums on a grid."""
    moments = Probit().tilted_moments(np.array([label]), np.array([mean]), np.array([variance]))
    f = np.linspace(mean - 12.0 * variance**0.5, mean + 12.0 * variance**0.5, points)
    cavity = norm.pdf(f, mean, variance**0.5)
    tilted = norm.cdf(label * f) * cavity
    total = tilted.sum()
    center = (f * tilted).sum() / total
    # of the site, by division (3.59)
    tau = 1.0 / moments.variance[0] - 1.0 / variance
    return {
        "ours": [np.exp(moments.log_z[0]), moments.mean[0], moments.variance[0]],
        "grid": [total * (f[1] - f[0]), center, ((f - center) ** 2 * tilted).sum() / total],
        "site_precision": tau,
        "f": f[:: points // 400],
        "cavity": cavity[:: points // 400],
        "tilted": (tilted / (total * (f[1] - f[0])))[:: points // 400],
    }


def pieces(size: Size) -> Iterable[Piece]:
    """One piece, of milliseconds, at every size."""
    arguments = {"mean": 1.0, "variance": 9.0, "label": 1.0, "points": 40_000}
    yield Piece("match", match, arguments)


def found(results: Results) -> Mapping[Place, Found | float | bool]:
    """The moments, and the two claims of the text around the figure."""
    one = results["match"]
    apart = np.abs(np.subtract(one["ours"], one["grid"])).max()
    z, mean, variance = one["ours"]
    return {
        ("the moments of (3.58) are those of cavity times likelihood", "holds"): bool(apart < 1e-8),
        ("the site has a positive variance", "holds"): one["site_precision"] > 0.0,
        ("zeroth moment of the product", "value"): z,
        ("its mean", "value"): mean,
        ("its variance", "value"): variance,
        ("largest difference from sums on a grid", "value"): float(apart),
    }


def figures(results: Results) -> Mapping[str, "Figure"]:
    """Panels (a) and (b)."""
    one = results["match"]
    _, mean, variance = one["ours"]
    f = np.array(one["f"])
    curves = {
        "likelihood": (norm.cdf(f), "-."),
        "cavity": (one["cavity"], ":"),
        "posterior": (one["tilted"], "-"),
        "its Gaussian": (norm.pdf(f, mean, variance**0.5), "--"),
    }
    figure, axes = panels(1, 2)
    for ax, xlim, ylim in zip(axes.flat, ((-5, 10), (-3, 8)), ((0, 1), (0, 0.22)), strict=True):
        for name, (values, style) in curves.items():
            ax.plot(f, values, style, label=name, color="black")
        ax.set(xlabel="latent f", xlim=xlim, ylim=ylim)
    axes.flat[0].legend(frameon=False)
    return {"One likelihood term, all of it (a) and enlarged (b)": figure}


EXPERIMENT = Experiment(
    name="rw06-3.4",
    title="One likelihood term under the cavity N(1, 9), and the match of its moments",
    source="RW06 Figure 3.4, section 3.6",
    settings="Probit likelihood of a label +1, cavity N(1, 9): both as in the caption. The sums "
    "that the moments are compared with are over 40,000 points within 12 standard deviations.",
    published=(
        Published("the moments of (3.58) are those of cavity times likelihood", "holds", True),
        Published("the site has a positive variance", "holds", True, where="below (3.59)"),
    ),
    pieces=pieces,
    found=found,
    figures=figures,
)
