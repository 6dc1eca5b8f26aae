"""RW06 Figure 3.2: a latent function drawn from a Gaussian process, and its class probability."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, logit

from gpclass.experiments.draws import over_draws, squared_exponential
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


def draw(length_scale: float, deviation: float, n_draws: int, seed: int) -> dict[str, Any]:
    """Draws of f on 200 points, the first one whole, and of pi at the middle of them all."""
    x = np.linspace(0.0, 10.0, 200)
    K = squared_exponential(length_scale, deviation)(x[:, None])
    rng = np.random.default_rng(seed)
    f = rng.multivariate_normal(np.zeros(len(x)), K, size=n_draws, method="eigh")
    pi = expit(f)
    return {
        "x": x if seed == 0 else [],
        "f": np.round(f[0], 4) if seed == 0 else [],
        "pi": np.round(pi[0], 4) if seed == 0 else [],
        "middle": pi[:, 100].mean(),
        "inside": bool(((pi > 0.0) & (pi < 1.0)).all()),
        "same": bool(np.allclose(logit(pi), f, rtol=0.0, atol=1e-8)),
    }


def pieces(size: Size) -> Iterable[Piece]:
    """Ten lots of draws, so that their mean has a standard error."""
    for seed in range(10):
        arguments = {"length_scale": 1.0, "deviation": 2.0, "seed": seed}
        yield Piece(
            f"draws-{seed}", draw, arguments | {"n_draws": 200 if size == "full" else 20}, cost=0.2
        )


INSIDE = "the squashed function is a probability everywhere"
SAME = "pi is a deterministic function of f: its logit is f again"


def found(results: Results) -> Mapping[Place, Found | float | bool]:
    """The two claims, and the mean of pi."""
    return {
        (INSIDE, "holds"): all(one["inside"] for one in results.values()),
        (SAME, "holds"): all(one["same"] for one in results.values()),
        ("mean of pi at one x over draws (1/2 by symmetry)", "value"): over_draws(
            [one["middle"] for one in results.values()]
        ),
    }


def figures(results: Results) -> Mapping[str, "Figure"]:
    """Panels (a) and (b)."""
    one = results["draws-0"]
    figure, axes = panels(1, 2)
    for ax, key, label in zip(
        axes.flat, ("f", "pi"), ("latent function f(x)", "class probability pi(x)"), strict=True
    ):
        ax.plot(one["x"], one[key], color="black")
        ax.set(xlabel="input x", ylabel=label)
    axes.flat[1].set_ylim(0, 1)
    return {"A latent function of the prior (a), and squashed by the logistic (b)": figure}


EXPERIMENT = Experiment(
    name="rw06-3.2",
    title="A latent function of the prior, and its class probability",
    source="RW06 Figure 3.2, section 3.3",
    settings="The paper gives neither the kernel nor its hyperparameters: squared exponential, "
    "l = 1 on inputs from 0 to 10, sigma_f = 2. 2000 draws, the first one of seed 0 in the figure.",
    published=(Published(INSIDE, "holds", True), Published(SAME, "holds", True)),
    pieces=pieces,
    found=found,
    figures=figures,
)
