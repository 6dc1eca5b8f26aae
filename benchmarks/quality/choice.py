"""Candidates for the default kernel and its hyperprior.

``python -m benchmarks.quality.choice`` runs them by Laplace's method, ``--inference ep`` by EP.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from benchmarks.quality.models import columns
from benchmarks.quality.run import run
from gpclass import GaussianProcessClassifier
from gpclass.learning import HyperPrior, MaximiseEvidence
from gpclass.learning.hyperpriors import WeakHyperPrior

RESULTS: Final = Path(__file__).resolve().parents[1] / "results"
SETS: Final = [
    "new_thyroid",
    "crabs_sex",
    "wine",
    "heart_hungarian",
    "planes",
    "pima",
    "ionosphere",
    "nycflights",
    "breast_cancer",
    "boston",
    "glass",
    "auto_mpg_origin",
    "boston_corrected",
    "iris",
    "crabs_species",
    "skin",
]

WIDE = (1e-6, 1e8)


def squash(Z: Any) -> Any:
    return Z / np.sqrt(1.0 + (Z / 3.0) ** 2)


class Grouped(HyperPrior):
    """Length-scales of the columns normal (sd w) about a common one, itself normal (sd u)."""

    def __init__(self, rest: WeakHyperPrior, lengths: slice, m: float, w: float, u: float) -> None:
        self.rest, self.lengths, self.m, self.w, self.u = rest, lengths, m, w, u

    def log_density(self, theta: Any) -> Any:
        """Logarithm of the density, and its gradient."""
        value, gradient = self.rest.log_density(theta)
        z = theta[self.lengths] - self.m
        d, mean = len(z), z.mean()
        away = z - mean
        spread = self.w**2 / d + self.u**2
        value -= 0.5 * away @ away / self.w**2 + 0.5 * mean**2 / spread
        gradient = gradient.copy()
        gradient[self.lengths] -= away / self.w**2 + mean / (d * spread)
        return value, gradient


class Terms:
    """A sum of kernels with the entries of its prior, in the order of theta."""

    def __init__(self, Z: Any) -> None:
        self.Z = Z
        self.kernel: Any = None
        self.entries: list[tuple[float, float, float]] = []

    def add(self, kernel: Any, entries: list[tuple[float, float, float]]) -> None:
        """Add a term and its entries: centre, width and deviation."""
        self.kernel = kernel if self.kernel is None else self.kernel + kernel
        self.entries += entries

    def prior(self) -> WeakHyperPrior:
        """Prior of independent entries."""
        centre, width, deviation = np.array(self.entries).T
        return WeakHyperPrior(centre, np.diag(width**-2.0), deviation, 0.5 * np.isfinite(deviation))


def half(s: float) -> tuple[float, float, float]:
    return 0.0, np.inf, s


def normal(m: float, w: float) -> tuple[float, float, float]:
    return m, w, np.inf


def candidate(inference: str, **given: Any) -> Any:
    def make(X: Any, y: Any) -> Any:
        steps = [columns()] + ([FunctionTransformer(squash)] if given.get("squash") else [])
        Z = make_pipeline(*steps).fit_transform(X)
        total = float(np.unique(Z, axis=0).var(axis=0).sum())
        length = given.get("factor", 1.0) * np.sqrt(total)
        d, width = Z.shape[1], given.get("width", np.sqrt(3.0))
        terms = Terms(Z)
        start = length if given.get("start") is None else given["start"] * np.sqrt(total)
        bounds = (1e-4 * start, 1e4 * start)
        ard = given.get("ard")
        one = given.get("radial", Matern)
        scale = np.full(d, start) if ard else start
        radial = (
            one(scale, bounds, nu=given.get("nu", 2.5)) if one is Matern else one(scale, bounds)
        )
        lengths = [normal(np.log(length), width)] * (d if ard else 1)
        signal = half(given.get("signal", 10.0))
        terms.add(ConstantKernel(given.get("C", 1.0), WIDE) * radial, [signal, *lengths])
        if given.get("linear"):
            s = given["linear"] / np.sqrt(total)
            v = given.get("linear_start", 0.1) ** 2 * given["linear"] ** 2 / total
            terms.add(ConstantKernel(v, (1e-8 * v, 1e8 * v)) * DotProduct(0.0, "fixed"), [half(s)])
        if given.get("constant"):
            terms.add(ConstantKernel(given.get("c", 1.0), WIDE), [half(given["constant"])])
        prior = terms.prior() if given.get("prior", True) else None
        if given.get("grouped"):
            terms.entries[1 : 1 + d] = [(0.0, np.inf, np.inf)] * d
            prior = Grouped(
                terms.prior(), slice(1, 1 + d), np.log(length), given["grouped"], np.sqrt(3.0)
            )
        if given.get("own"):
            flat = terms.prior()
            two = np.array([len(np.unique(z)) == 2 for z in Z.T])
            own = np.where(two, *given["own"]) ** 2
            precision = np.zeros_like(flat.precision)
            covariance = np.diag(own) + 3.0
            precision[1 : 1 + d, 1 : 1 + d] = np.linalg.inv(covariance)
            prior = replace(flat, precision=precision)
        model = GaussianProcessClassifier(
            terms.kernel, inference=inference, learning=MaximiseEvidence(hyperprior=prior)
        )
        return make_pipeline(*steps, model)

    return make


NEW: Final = {
    "ard": True,
    "factor": 2.0,
    "linear": 10.0,
    "linear_start": 0.3,
    "constant": 10.0,
    "C": 5.0,
    "c": 10.0,
}
S8: Final = NEW | {"own": (0.5, 1.0), "start": 1.0, "linear_start": 0.1, "C": 3.0, "c": 3.0}
CANDIDATES: Final[dict[str, dict[str, Any]]] = {
    "rbf": {"radial": RBF, "prior": False},
    "matern": {"prior": False},
    "rbf, prior": {"radial": RBF},
    "matern, prior": {},
    "matern+lin+c, no prior": {"linear": 10.0, "constant": 10.0, "prior": False},
    "matern+lin+c": {"linear": 10.0, "constant": 10.0},
    "rbf+lin+c": {"radial": RBF, "linear": 10.0, "constant": 10.0},
    "matern ard": {"ard": True, "width": 1.0},
    "matern ard+lin+c": {"ard": True, "width": 1.0, "linear": 10.0, "constant": 10.0},
    "rbf ard+lin+c": {"radial": RBF, "ard": True, "width": 1.0, "linear": 10.0, "constant": 10.0},
    "matern ard g.5+lin+c": {"ard": True, "grouped": 0.5, "linear": 10.0, "constant": 10.0},
    "matern ard g1+lin+c": {"ard": True, "grouped": 1.0, "linear": 10.0, "constant": 10.0},
    "matern ard far+lin+c": {
        "ard": True,
        "factor": 4.1,
        "width": 1.7,
        "start": 1.5,
        "linear": 10.0,
        "constant": 10.0,
    },
    "matern ard g1+lin3+c": {
        "ard": True,
        "grouped": 1.0,
        "linear": 3.0,
        "constant": 3.0,
        "signal": 5.0,
    },
    "matern ard g1.5+lin+c": {"ard": True, "grouped": 1.5, "linear": 10.0, "constant": 10.0},
    "matern ard g1 s20+lin+c": {
        "ard": True,
        "grouped": 1.0,
        "linear": 20.0,
        "constant": 20.0,
        "signal": 20.0,
    },
    "matern ard g1 far2+lin+c": {
        "ard": True,
        "grouped": 1.0,
        "factor": 2.0,
        "start": 1.0,
        "linear": 10.0,
        "constant": 10.0,
    },
    "matern3/2 ard g1+lin+c": {
        "ard": True,
        "nu": 1.5,
        "grouped": 1.0,
        "linear": 10.0,
        "constant": 10.0,
    },
    "g.7": NEW | {"own": (0.7, 0.7)},
    "g.5/1": NEW | {"own": (0.5, 1.0)},
    "g.5/1 S8": S8,
    "g.5/1 S8 lin100": S8 | {"linear": 100.0, "linear_start": 0.01},
    "g.5/1 S8 all30": S8 | {"linear": 30.0, "linear_start": 0.033, "signal": 30.0},
    "g.3/1": NEW | {"own": (0.3, 1.0)},
    "g.7 squash": NEW | {"own": (0.7, 0.7), "squash": True},
    "matern ard g1": {"ard": True, "grouped": 1.0},
    "rbf ard g1+lin+c": {
        "ard": True,
        "radial": RBF,
        "grouped": 1.0,
        "linear": 10.0,
        "constant": 10.0,
    },
    "matern ard g1+lin+c, squash": {
        "ard": True,
        "grouped": 1.0,
        "linear": 10.0,
        "constant": 10.0,
        "squash": True,
    },
    "matern ard+lin+c, squash": {
        "ard": True,
        "width": 1.0,
        "linear": 10.0,
        "constant": 10.0,
        "squash": True,
    },
    "matern+lin+c, squash": {"linear": 10.0, "constant": 10.0, "squash": True},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inference", default="laplace")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--models", nargs="*", default=list(CANDIDATES))
    parser.add_argument("--tables", nargs="*", default=list(SETS))
    parser.add_argument("--seconds", type=float, default=np.inf)
    given = parser.parse_args()
    models = {name: candidate(given.inference, **CANDIDATES[name]) for name in given.models}
    path = RESULTS / f"choice_{given.inference}.jsonl"
    done = run(models, given.tables, 1, given.folds, path, given.seconds)
    raise SystemExit(0 if done else 3)


if __name__ == "__main__":
    main()
