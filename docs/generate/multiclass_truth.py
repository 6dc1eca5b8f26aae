"""Tables of docs/multiclass.md: the joint models of many classes against Monte Carlo.

    python docs/generate/multiclass_truth.py            measures what the file lacks, writes tables
    python docs/generate/multiclass_truth.py --table    writes them from multiclass_truth.json

Needs new_thyroid of GPCLASS_DATA. Every problem is saved as soon as it is done, so a run that was
stopped goes on where it was.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from blocks import table, write_block
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import train_test_split
from truth import described, signed

from gpclass.app.datasets import load_dataset
from gpclass.inference.nested import nested_ep
from gpclass.inference.softmax import SoftmaxLaplace
from gpclass.inference.softmax_variational import SoftmaxVariational
from gpclass.likelihoods.classes import (
    ClassLikelihood,
    MultinomialProbitLikelihood,
    SoftmaxLikelihood,
)
from gpclass.likelihoods.probabilities.gaussian import argmax_probabilities, softmax_probabilities
from gpclass.montecarlo import (
    SamplePosterior,
    Samples,
    annealed_importance_sampling,
    elliptical_slice_sampling,
    nested_ep_sites,
)
from gpclass.priors.classes import ClassPrior

Array = NDArray[np.float64]

RESULTS = Path(__file__).with_name("multiclass_truth.json")
PAGE = "multiclass.md"

SETS = ("iris", "new_thyroid")
ROWS, ROWS_NEW = 100, 50
DEVIATIONS = (1.0, 3.0, 10.0)
LIKELIHOODS: dict[str, ClassLikelihood] = {
    "softmax": SoftmaxLikelihood(),
    "multinomial probit": MultinomialProbitLikelihood(),
}
METHODS = {"softmax": "Laplace", "multinomial probit": "nested EP"}

WANTED_ERROR = 0.02
CHAINS, FIRST_TEMPERATURES, MOST_TEMPERATURES = 60, 300, 2000
# a move of the probit costs fifty of the softmax: the integral over u of every row
SAMPLES = {"softmax": 16000, "multinomial probit": 4000}
SLICE_CHAINS, BURN, THIN = 40, 300, 15


class Split(NamedTuple):
    """Training and held-out rows, standardised by the training rows, and the length-scale."""

    X: Array
    codes: NDArray[np.intp]
    X_new: Array
    length: float


def split(name: str) -> Split:
    """100 rows to learn from and 50 to predict at, each with the classes in proportion."""
    data = load_dataset(name)
    X, codes = np.asarray(data.X, dtype=float), np.unique(data.y, return_inverse=True)[1]
    train, held = train_test_split(
        np.arange(len(X)), train_size=ROWS, test_size=ROWS_NEW, stratify=codes, random_state=0
    )
    X = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    return Split(X[train], codes[train], X[held], float(np.median(pdist(X[train]))))


def anneal(
    prior: ClassPrior, codes: Any, likelihood: ClassLikelihood, start: Any, seed: int
) -> Any:
    """Anneal with enough temperatures for the standard error wanted, if that can be had."""
    n = FIRST_TEMPERATURES
    while True:
        found = annealed_importance_sampling(
            prior,
            codes,
            likelihood,
            start=start,
            n_chains=CHAINS,
            n_temperatures=n,
            random_state=seed,
        )
        if found.standard_error <= WANTED_ERROR or n >= MOST_TEMPERATURES:
            return found
        factor = (found.standard_error / (0.9 * WANTED_ERROR)) ** 2
        n = int(min(MOST_TEMPERATURES, max(1.5, factor) * n))


def measure(name: str, label: str, deviation: float) -> dict[str, Any]:
    """The method and the truth for one problem."""
    data, likelihood, began = split(name), LIKELIHOODS[label], time.perf_counter()
    kernel = deviation**2 * RBF(data.length)
    K, K_cross, k_diag = kernel(data.X), kernel(data.X, data.X_new), kernel.diag(data.X_new)
    prior = ClassPrior(K, 3)
    q: Any
    if label == "softmax":
        q, average = SoftmaxLaplace()(prior, data.codes), softmax_probabilities
        start = nested_ep_sites(prior, data.codes, likelihood)
    else:
        q, average = nested_ep(prior, data.codes), argmax_probabilities
        start = q.class_sites
    posteriors = {"method": q.posterior}
    if label == "softmax":
        ones = np.ones(len(data.codes))
        posteriors["variational"] = SoftmaxVariational()(prior, data.codes, ones, q.posterior)
    result: dict[str, Any] = {
        "n": len(data.codes),
        "n_new": len(data.X_new),
        "counts": np.bincount(data.codes).tolist(),
        "length": data.length,
        "method": {"log_evidence": q.log_evidence, "outcome": q.outcome.name},
        "truth": described(anneal(prior, data.codes, likelihood, start, seed=1)),
    }
    if deviation == max(DEVIATIONS):
        result["truth_from_prior"] = described(
            anneal(prior, data.codes, likelihood, "prior", seed=2)
        )
    draws = elliptical_slice_sampling(
        prior,
        data.codes,
        likelihood,
        init=start,
        n_samples=SAMPLES[label],
        n_burn=BURN,
        n_chains=SLICE_CHAINS,
        thin=THIN,
        random_state=3,
    )
    whole = SamplePosterior.from_samples(prior, draws.samples)
    by_chain = np.array(
        [
            SamplePosterior(
                Samples(np.ascontiguousarray(draws.a[..., c])), whole.prior
            ).probabilities(likelihood, K_cross, k_diag, n_draws=1, random_state=c)
            for c in range(SLICE_CHAINS)
        ]
    )
    truth = by_chain.mean(axis=0)
    noise = by_chain.std(axis=0, ddof=1) / np.sqrt(SLICE_CHAINS)
    for way, posterior in posteriors.items():
        error = np.abs(average(*posterior.predict(K_cross, k_diag)) - truth)
        result.setdefault(way, {}).update(largest=float(error.max()), mean=float(error.mean()))
    result["sampling"] = {
        "n_samples": int(draws.log_likelihood.size),
        "smallest_ess": float(draws.effective_sample_size.min()),
        "largest_rhat": float(draws.rhat.max()),
        "largest_error": float(noise.max()),
        "mean_error": float(noise.mean()),
        "seconds": draws.seconds,
    }
    result["seconds"] = time.perf_counter() - began
    return result


def key(name: str, label: str, deviation: float) -> str:
    """Name of a problem in the file."""
    return f"{name} {label} {deviation:g}"


def load() -> dict[str, Any]:
    """What was measured so far."""
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return found


def run() -> None:
    """Measure what is missing."""
    for label in LIKELIHOODS:
        for deviation in DEVIATIONS:
            for name in SETS:
                results, problem = load(), key(name, label, deviation)
                if problem in results:
                    continue
                found = measure(name, label, deviation)
                results[problem] = found
                RESULTS.write_text(json.dumps(results, indent=1) + "\n")
                truth, method, noise = found["truth"], found["method"], found["sampling"]
                print(
                    f"{problem}: {truth['log_evidence']:.3f} +- {truth['standard_error']:.4f} "
                    f"({truth['seconds']:.0f} s), {METHODS[label]} "
                    f"{method['log_evidence'] - truth['log_evidence']:+.3f}, probabilities off by "
                    f"{method['largest']:.4f}, {method['mean']:.4f} with noise "
                    f"{noise['largest_error']:.4f}, {noise['mean_error']:.4f} (ess "
                    f"{noise['smallest_ess']:.0f}, {noise['seconds']:.0f} s); "
                    f"{found['seconds']:.0f} s",
                    flush=True,
                )


def estimate(truth: dict[str, float]) -> str:
    """Log evidence and its standard error."""
    return f"{truth['log_evidence']:.3f} ± {truth['standard_error']:.4f}".replace("-", "−")


def truth_table(results: dict[str, Any]) -> str:
    """Errors of the evidence and of the probabilities, a row a problem."""
    rows = []
    for label in LIKELIHOODS:
        for name in SETS:
            for deviation in DEVIATIONS:
                found = results[key(name, label, deviation)]
                method, noise = found["method"], found["sampling"]
                rows.append(
                    [
                        label,
                        f"{name}, {found['n']}",
                        f"{deviation:g}",
                        estimate(found["truth"]),
                        METHODS[label],
                        signed(method["log_evidence"] - found["truth"]["log_evidence"]),
                        f"{method['largest']:.4f}, {method['mean']:.4f}",
                        f"{noise['largest_error']:.4f}, {noise['mean_error']:.4f}",
                    ]
                )
                if "variational" in found:
                    better = found["variational"]
                    errors = f"{better['largest']:.4f}, {better['mean']:.4f}"
                    rows.append(["", "", "", "", "variational marginals", "", errors, ""])
    head = [
        "model",
        "rows",
        "σ_f",
        "log evidence",
        "method",
        "its error, nats",
        "error of probabilities",
        "of the sampling",
    ]
    return table(head, rows)


def prior_table(results: dict[str, Any]) -> str:
    """Annealing from the prior against annealing from nested EP, at the strongest signal."""
    rows = []
    for label in LIKELIHOODS:
        for name in SETS:
            found = results[key(name, label, max(DEVIATIONS))]
            a, b = found["truth"], found["truth_from_prior"]
            error = float(np.hypot(a["standard_error"], b["standard_error"]))
            gap = (b["log_evidence"] - a["log_evidence"]) / error
            rows.append(
                [
                    label,
                    name,
                    estimate(a),
                    estimate(b),
                    f"{b['effective_chains']:.0f} of {b['n_chains']}",
                    f"{gap:+.1f}".replace("-", "−"),
                ]
            )
    head = ["model", "rows", "from nested EP", "from the prior", "effective chains", "gap / error"]
    return table(head, rows)


if __name__ == "__main__":
    if "--table" not in sys.argv[1:]:
        run()
    measured = load()
    write_block(PAGE, "truth", truth_table(measured))
    write_block(PAGE, "truth from the prior", prior_table(measured))
