"""One problem of two classes: every method, and Monte Carlo as the truth."""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF

from gpclass.experiments.truth import anneal, chains, described
from gpclass.inference import EP, Laplace, PosteriorLinearisation, TangentBound, Variational
from gpclass.likelihoods import Likelihood, Logit, Probit
from gpclass.montecarlo import MonteCarlo, annealed_importance_sampling

Array = NDArray[np.float64]

LIKELIHOODS: Final[dict[str, Likelihood]] = {"probit": Probit(), "logit": Logit()}
METHODS: Final[dict[str, Any]] = {
    "EP": EP(),
    "PL": PosteriorLinearisation(),
    "VI": Variational(),
    "VI, EP energy": Variational(evidence="ep"),
    "Laplace": Laplace(),
    "bound, lower": TangentBound("lower"),
    "bound, upper": TangentBound("upper"),
}
FIRST_TEMPERATURES, PRIOR_TEMPERATURES = 1000, 4000
CHAINS: Final = 40


class Split(NamedTuple):
    """Training and held-out rows, standardised by the training rows; labels -1 and +1."""

    X: Array
    y: Array
    X_new: Array


def split(*tables: Any) -> Split:
    """About 200 rows to learn from; rows to predict at: those of the second table, or the rest."""
    X, y = np.asarray(tables[0].X, dtype=float), np.asarray(tables[0].y)
    labels = np.where(y == np.unique(y)[1], 1.0, -1.0)
    if len(tables) == 2:
        X_new = np.asarray(tables[1].X, dtype=float)
    else:
        rows = np.arange(len(X))
        out = rows >= 200 if len(X) > 200 else rows % 4 == 3
        X, labels, X_new = X[~out], labels[~out], X[out]
    mean, scale = X.mean(axis=0), X.std(axis=0)
    return Split((X - mean) / scale, labels, (X_new - mean) / scale)


def bernoulli_kl(p: Array, q: Array) -> Array:
    """KL(p || q) in nats."""
    p, q = (np.clip(one, 1e-300, 1.0 - 1e-16) for one in (p, q))
    return np.asarray(p * np.log(p / q) + (1.0 - p) * np.log((1.0 - p) / (1.0 - q)))


def measure(
    *tables: Any,
    likelihood: str,
    deviation: float,
    n_samples: int,
    most_temperatures: int,
    from_prior: bool,
) -> dict[str, Any]:
    """All methods and the truth for one problem; no predictions where `n_samples` is 0."""
    data, model = split(*tables), LIKELIHOODS[likelihood]
    kernel = deviation**2 * RBF(np.sqrt(data.X.shape[1]))
    K = kernel(data.X)
    labels = [m for m in METHODS if likelihood == "logit" or not m.startswith("bound")]
    found = {label: METHODS[label](K, data.y, model) for label in labels}
    truth = anneal(
        lambda n: annealed_importance_sampling(
            K, data.y, model, start=found["EP"], n_temperatures=n, random_state=1
        ),
        FIRST_TEMPERATURES,
        most_temperatures,
    )
    result: dict[str, Any] = {
        "n": len(data.y),
        "n_new": len(data.X_new),
        "truth": described(truth),
        "methods": {
            label: {"error": q.log_evidence - truth.log_evidence, "outcome": q.outcome.name}
            for label, q in found.items()
        },
    }
    if from_prior:
        prior = annealed_importance_sampling(
            K, data.y, model, n_temperatures=PRIOR_TEMPERATURES, random_state=2
        )
        result["truth_from_prior"] = described(prior)
    if n_samples:
        K_cross, k_diag = kernel(data.X, data.X_new), kernel.diag(data.X_new)
        q = MonteCarlo(evidence=False, random_state=3, n_samples=n_samples, n_chains=CHAINS)(
            K, data.y, model, init=found["EP"]
        )
        by_chain = np.exp(
            [
                chain.log_probabilities(model, K_cross, k_diag)[:, 1]
                for chain in chains(q.draws, q.posterior)
            ]
        )
        p = by_chain.mean(axis=0)
        result["sampling"] = {"outcome": q.outcome.name} | _noise(q.draws, by_chain)
        for label, approximation in found.items():
            mean, variance = approximation.posterior.predict(K_cross.copy(), k_diag)
            p_method = model.predict_proba(mean, variance)
            result["methods"][label] |= {
                "largest": float(np.abs(p_method - p).max()),
                "mean": float(np.abs(p_method - p).mean()),
                "kl": float(bernoulli_kl(p, p_method).mean()),
            }
    return result


def _noise(draws: Any, by_chain: Array) -> dict[str, Any]:
    """Errors that the spread of the chains shows."""
    p, error = by_chain.mean(axis=0), by_chain.std(axis=0, ddof=1) / np.sqrt(len(by_chain))
    return {
        "n_samples": int(draws.f.shape[1] * draws.f.shape[2]),
        "smallest_ess": float(draws.effective_sample_size.min()),
        "largest_error": float(error.max()),
        "mean_error": float(error.mean()),
        # expectation of KL(p + noise || p) for noise of this variance
        "kl_of_noise": float((error**2 / (2.0 * np.maximum(p * (1.0 - p), 1e-12))).mean()),
        "seconds": draws.seconds,
    }
