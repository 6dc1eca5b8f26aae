"""How far the joint models of many classes are from Monte Carlo, in evidence and probabilities."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import train_test_split

from gpclass.experiments.form import Experiment, Found, Piece, Place, Results, Size, Table
from gpclass.experiments.truth import (
    anneal,
    chains,
    described,
    estimate_text,
    from_prior_cells,
    gap_in_errors,
    signed,
)
from gpclass.inference.nested import nested_ep
from gpclass.inference.softmax import SoftmaxLaplace
from gpclass.inference.softmax_variational import SoftmaxVariational
from gpclass.likelihoods.classes import (
    ClassLikelihood,
    MultinomialProbitLikelihood,
    SoftmaxLikelihood,
)
from gpclass.likelihoods.probabilities.gaussian import argmax_probabilities, softmax_probabilities
from gpclass.linalg import Array
from gpclass.montecarlo import (
    SamplePosterior,
    annealed_importance_sampling,
    elliptical_slice_sampling,
    nested_ep_sites,
)
from gpclass.priors.classes import ClassPrior

SETS: Final = ("iris", "new_thyroid")
ROWS, ROWS_NEW = 100, 50
DEVIATIONS: Final = (1.0, 3.0, 10.0)
LIKELIHOODS: Final[dict[str, ClassLikelihood]] = {
    "softmax": SoftmaxLikelihood(),
    "multinomial probit": MultinomialProbitLikelihood(),
}
METHODS: Final = {"softmax": "Laplace", "multinomial probit": "nested EP"}
CHAINS, FIRST_TEMPERATURES, MOST_TEMPERATURES = 60, 300, 2000
# A move of the probit costs fifty of the softmax: the integral over u of every row.
SAMPLES: Final = {"softmax": 16000, "multinomial probit": 4000}
SLICE_CHAINS, BURN, THIN = 40, 300, 15


class Split(NamedTuple):
    """Training and held-out rows, standardised by the training rows, and the length-scale."""

    X: Array
    codes: Any
    X_new: Array
    length: float


def split(table: Any) -> Split:
    """100 rows to learn from and 50 to predict at, each with the classes in proportion."""
    X = np.asarray(table.X, dtype=np.float64)
    codes = np.unique(table.y, return_inverse=True)[1]
    train, held = train_test_split(
        np.arange(len(X)), train_size=ROWS, test_size=ROWS_NEW, stratify=codes, random_state=0
    )
    X = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    return Split(X[train], codes[train], X[held], float(np.median(pdist(X[train]))))


def measure(
    table: Any,
    likelihood: str,
    deviation: float,
    n_samples: int,
    n_burn: int,
    most_temperatures: int,
    from_prior: bool,
) -> dict[str, Any]:
    """The method and the truth for one problem."""
    data, model = split(table), LIKELIHOODS[likelihood]
    kernel = deviation**2 * RBF(data.length)
    K, K_cross, k_diag = kernel(data.X), kernel(data.X, data.X_new), kernel.diag(data.X_new)
    prior = ClassPrior(K, 3)
    q: Any
    average: Any
    if likelihood == "softmax":
        q, average = SoftmaxLaplace()(prior, data.codes), softmax_probabilities
        start = nested_ep_sites(prior, data.codes, model)
        ones = np.ones(len(data.codes))
        better = SoftmaxVariational()(prior, data.codes, ones, q.posterior)
        posteriors = {"method": q.posterior, "variational": better}
    else:
        q, average = nested_ep(prior, data.codes), argmax_probabilities
        start = q.class_sites
        posteriors = {"method": q.posterior}

    def annealed(begin: Any, seed: int) -> dict[str, float]:
        estimate = anneal(
            lambda n: annealed_importance_sampling(
                prior,
                data.codes,
                model,
                start=begin,
                n_chains=CHAINS,
                n_temperatures=n,
                random_state=seed,
            ),
            FIRST_TEMPERATURES,
            most_temperatures,
        )
        return described(estimate)

    estimate = annealed(start, 1)
    result: dict[str, Any] = {
        "n": len(data.codes),
        "method": {
            "error": q.log_evidence - estimate["log_evidence"],
            "outcome": q.outcome.name,
        },
        "truth": estimate,
    }
    if from_prior:
        result["truth_from_prior"] = annealed("prior", 2)
    draws = elliptical_slice_sampling(
        prior,
        data.codes,
        model,
        init=start,
        n_samples=n_samples,
        n_burn=n_burn,
        n_chains=SLICE_CHAINS,
        thin=THIN,
        random_state=3,
    )
    whole = SamplePosterior.from_samples(prior, draws.samples)
    by_chain = np.array(
        [
            chain.probabilities(model, K_cross, k_diag, n_draws=1, random_state=c)
            for c, chain in enumerate(chains(draws, whole))
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
    return result


def pieces(size: Size) -> Iterator[Piece]:
    """Each model, set and signal deviation."""
    quick = size == "quick"
    for likelihood in LIKELIHOODS:
        for name in SETS[:1] if quick else SETS:
            for deviation in DEVIATIONS[:1] if quick else DEVIATIONS:
                arguments = {
                    "likelihood": likelihood,
                    "deviation": deviation,
                    "n_samples": 80 if quick else SAMPLES[likelihood],
                    "n_burn": 10 if quick else BURN,
                    "most_temperatures": 1 if quick else MOST_TEMPERATURES,
                    "from_prior": deviation == DEVIATIONS[-1],
                }
                key = f"{name} {likelihood} {deviation:g}"
                yield Piece(key, measure, arguments, (name,), 100.0)


def problems(results: Results) -> list[tuple[str, str, float, Mapping[str, Any]]]:
    """Model, set and deviation of those that were run, with what was found."""
    keys = ((k, n, d, f"{n} {k} {d:g}") for k in LIKELIHOODS for n in SETS for d in DEVIATIONS)
    return [(k, n, d, results[key]) for k, n, d, key in keys if key in results]


def found(results: Results) -> Mapping[Place, Found | float | bool]:
    """The largest errors of each model, and how well the truth is known."""
    cells: dict[Place, Found | float | bool] = {}
    every = problems(results)
    for likelihood, method in METHODS.items():
        mine = [one for k, _, _, one in every if k == likelihood]
        if mine:
            row = f"{likelihood}, {method}"
            cells[row, "largest error of the log evidence"] = max(
                abs(one["method"]["error"]) for one in mine
            )
            cells[row, "largest mean error of probabilities"] = max(
                one["method"]["mean"] for one in mine
            )
    better = [one["variational"]["mean"] for *_, one in every if "variational" in one]
    if better:
        row = "softmax, variational marginals"
        cells[row, "largest mean error of probabilities"] = max(better)
    gaps = [abs(gap_in_errors(one)) for *_, one in every if "truth_from_prior" in one]
    if gaps:
        cells["annealing from the prior", "largest gap, standard errors"] = max(gaps)
    return cells


# Of probabilities.
ERRORS: Final = ("largest error", "mean error")


def tables(results: Results) -> Mapping[str, Table]:
    """Errors of every problem, and annealing from the prior."""
    rows, strong = [], []
    for likelihood, name, deviation, one in problems(results):
        method, noise = one["method"], one["sampling"]
        rows.append(
            [
                likelihood,
                f"{name}, {one['n']}",
                f"{deviation:g}",
                estimate_text(one["truth"]),
                METHODS[likelihood],
                signed(method["error"]),
                *_errors(method["largest"], method["mean"]),
                *_errors(noise["largest_error"], noise["mean_error"]),
            ]
        )
        if "variational" in one:
            errors = _errors(one["variational"]["largest"], one["variational"]["mean"])
            rows.append(["", "", "", "", "variational marginals", "", *errors, "", ""])
        if "truth_from_prior" in one:
            strong.append([likelihood, name, *from_prior_cells(one)])
    head = ("model", "rows", "σ_f", "log evidence", "method", "its error, nats")
    return {
        "truth": (
            "The log evidence and its standard error, errors of the method, and of the sampling:",
            (*head, *ERRORS, *(f"{one}, of the sampling" for one in ERRORS)),
            rows,
        ),
        "from the prior": (
            "At the strongest signal, annealing that starts from the prior instead:",
            (
                "model",
                "rows",
                "from nested EP",
                "from the prior",
                "effective chains",
                "gap / error",
            ),
            strong,
        ),
    }


def _errors(largest: float, mean: float) -> tuple[str, str]:
    return f"{largest:.4f}", f"{mean:.4f}"


SETTINGS: Final = """\
- *Tables.* `iris` and `new_thyroid`: 100 rows to learn from and 50 to predict at, classes in
  proportion (`train_test_split(..., stratify=y, random_state=0)`), columns standardised by the
  training rows.
- *Kernel.* $\\sigma_f^2$ times an RBF whose length-scale is the median distance of the training
  rows, fixed, and the same for all classes: this is about the approximation, not about learning.
- *True evidence.* `annealed_importance_sampling`, 60 chains that start from the Gaussian of nested
  EP (`nested_ep_sites`; for the softmax it is that of the multinomial probit with the latents
  rescaled), with as many temperatures as a standard error of 0.02 takes (at most 2000). The ± is
  that standard error.
- *True probabilities.* `elliptical_slice_sampling`, 40 chains, 16000 draws for the softmax and 4000
  for the multinomial probit, and an antithetic pair of new latents for each draw. "Of the sampling"
  is the standard error that the spread of the chains shows. **An error that is not above it has not
  been resolved.**
- *Errors.* Of the evidence: the method's less the truth. Of the probabilities: the largest absolute
  difference over the new rows and classes, and the mean.
"""


EXPERIMENT = Experiment(
    name="truth-joint",
    title="How far the joint models are from the truth, three classes",
    source="No paper has these numbers",
    settings=SETTINGS,
    published=(),
    pieces=pieces,
    found=found,
    tables=tables,
)
