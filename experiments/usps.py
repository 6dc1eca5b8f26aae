"""All ten USPS digits: 4649 rows to train, 4649 to test (RW06 section 3.7.3's table and text).

``python -m experiments.usps softmax`` evaluates the evidence at RW06's hyperparameters, predicts,
and adds a record to ``experiments/results/usps.json``. ``nested`` does so by nested EP; with
``--learn`` it first maximises its evidence, on parts of the rows and then on all. Each evaluation
is recorded, and those on record are not made again. The data come from the folder that
GPCLASS_DATA names.
"""

import argparse
import json
import os
import resource
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss

from gpclass import GaussianProcessClassifier
from gpclass.inference import EP, Laplace
from gpclass.inference.joint import MultinomialProbit, Softmax
from gpclass.learning import JointProblem
from gpclass.likelihoods import Logit, Probit
from gpclass.metrics import information_bits

RESULTS: Final = Path(__file__).resolve().parent / "results" / "usps.json"
# RW06 section 3.7.3: the maximum of the Laplace evidence
LOG_LENGTH, LOG_DEVIATION = 2.35, 2.6
EVALUATION: Final = "nested evaluation"
# Rows that nested EP learns on first, and twice as many.
FEW_ROWS: Final = 800
MAX_STEPS: Final = 12
# The steps end at a predicted gain below MIN_GAIN nats; no parameter moves by more than MAX_STEP.
MIN_GAIN: Final = 0.01
MAX_STEP: Final = 1.0


def load() -> dict[str, Any]:
    folder = os.environ.get("GPCLASS_DATA")
    if not folder:
        raise SystemExit("GPCLASS_DATA must name the folder that has usps_resampled.npz")
    data = np.load(Path(folder) / "usps_resampled.npz")
    return {name: data[name] for name in ("X_train", "y_train", "X_test", "y_test")}


def read() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    return found


def record(entry: dict[str, Any]) -> None:
    """Add an entry to the file."""
    RESULTS.write_text(json.dumps([*read(), entry], indent=1) + "\n")


def kernel_of(theta: np.ndarray) -> Any:
    """Squared exponential of log length-scale and log signal deviation."""
    return ConstantKernel(np.exp(2 * theta[1]), (1e-8, 1e8)) * RBF(np.exp(theta[0]), (1e-5, 1e5))


def memory() -> float:
    """Largest resident size of the process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def bfgs_update(H: np.ndarray, s: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Inverse of the Hessian after a step s by which the gradient changed by y, if s^T y > 0."""
    if not s @ y > 0:
        return H
    rho = 1.0 / (s @ y)
    V = np.eye(len(s)) - rho * np.outer(s, y)
    return V @ H @ V.T + rho * np.outer(s, s)


class Ascent:
    """The evidence of nested EP on the first n rows, each evaluation started near the last."""

    def __init__(self, X: Any, y: Any, tol: float) -> None:
        self.X, self.y, self.tol, self.sites = X, y, tol, None

    def seen(self) -> list[dict[str, Any]]:
        """Evaluations on record."""
        return [e for e in read() if e["what"] == EVALUATION and e["n"] == len(self.y)]

    def evaluate(self, theta: np.ndarray) -> np.ndarray:
        """Gradient by log length-scale and log deviation, looked up where it is on record."""
        for entry in self.seen():
            if np.allclose(entry["theta"], theta, atol=1e-9):
                return np.array(entry["gradient"])
        problem = JointProblem(
            kernel_of(theta), self.X, self.y, 10, MultinomialProbit(), Probit(), EP(tol=self.tol)
        )
        begun = time.perf_counter()
        found = problem.evaluate(problem.theta, init=self.sites)
        self.sites = found.approximation.sites
        # theta of the kernel: log variance and log length-scale
        gradient = np.array([found.gradient[1], 2 * found.gradient[0]])
        entry = {
            "what": EVALUATION,
            "n": len(self.y),
            "theta": theta.tolist(),
            "log_evidence": found.log_evidence,
            "gradient": gradient.tolist(),
            "outcome": found.approximation.outcome.name,
            "factorisations": found.approximation.n_factorisations,
            "seconds": time.perf_counter() - begun,
        }
        record(entry)
        print(json.dumps(entry), flush=True)
        return gradient

    def maximise(self, theta: np.ndarray, H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Quasi-Newton steps from theta, with H for the inverse of minus the Hessian."""
        g = self.evaluate(theta)
        for _ in range(MAX_STEPS):
            step = H @ g
            if 0.5 * abs(step @ g) < MIN_GAIN:
                break
            step *= min(1.0, MAX_STEP / np.abs(step).max())
            theta = theta + step
            following = self.evaluate(theta)
            H = bfgs_update(H, step, g - following)
            g = following
        return theta, H


def learn(data: dict[str, Any], n: int, tol: float) -> np.ndarray:
    """Maximise the evidence of nested EP, on parts of the rows first, which cost little."""
    theta, H, before = np.array([LOG_LENGTH, LOG_DEVIATION]), np.eye(2) / 50.0, FEW_ROWS
    for rows in [rows for rows in (FEW_ROWS, 2 * FEW_ROWS) if 2 * rows <= n] + [n]:
        X, y = rows_of(data, rows)
        # the evidence, and with it the Hessian, grows with the rows
        theta, H = Ascent(X, y, tol).maximise(theta, H * before / rows)
        before = rows
    return theta


def rows_of(data: dict[str, Any], n: int) -> tuple[Any, Any]:
    """Return the first rows to train on."""
    return data["X_train"][:n].astype(np.float64), data["y_train"][:n].astype(np.intp)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=("softmax", "nested"))
    parser.add_argument("--learn", action="store_true")
    parser.add_argument("--rows", type=int, default=None, help="of the training rows; default: all")
    parser.add_argument("--theta", type=float, nargs=2, default=(LOG_LENGTH, LOG_DEVIATION))
    parser.add_argument("--tol", type=float, default=1e-5, help="of EP while it learns")
    options = parser.parse_args()
    data = load()
    n = options.rows or len(data["X_train"])
    X, y = rows_of(data, n)
    theta = learn(data, n, options.tol) if options.learn else np.array(options.theta)
    softmax = options.model == "softmax"
    model = GaussianProcessClassifier(
        kernel_of(theta), optimizer=None, inference=Laplace() if softmax else EP()
    )
    spent: dict[str, float] = {}
    gradient = None
    if softmax:
        begun = time.perf_counter()
        problem = JointProblem(kernel_of(theta), X, y, 10, Softmax(), Logit(), Laplace())
        found = problem.evaluate(problem.theta)
        spent["evidence_and_gradient"] = time.perf_counter() - begun
        gradient = found.gradient.tolist()
        print(f"log evidence {found.log_evidence:.3f}, gradient {gradient}", spent, flush=True)
        del found
        peak = memory()
    begun = time.perf_counter()
    model.fit(X, y)
    spent["fit"] = time.perf_counter() - begun
    if not softmax:
        peak = memory()
    print(f"log evidence {model.log_marginal_likelihood_value_:.3f}", spent, flush=True)
    begun = time.perf_counter()
    P = model.predict_proba(data["X_test"].astype(np.float64))
    spent["probabilities"] = time.perf_counter() - begun
    truth = data["y_test"]
    entry = {
        "what": options.model,
        "n": n,
        "theta": theta.tolist(),
        "log_evidence": float(model.log_marginal_likelihood_value_),
        "gradient_by_log_variance_and_log_length": gradient,
        "converged": bool(model.converged_),
        "errors_percent": 100.0 * float((P.argmax(axis=1) != truth).mean()),
        "information_bits": float(information_bits(truth, P)),
        "log_loss": float(log_loss(truth, P)),
        "seconds": spent,
        "peak_gb_of_the_evidence": peak,
        "threads": os.environ.get("OMP_NUM_THREADS"),
    }
    record(entry)
    print(json.dumps(entry, indent=1))


if __name__ == "__main__":
    main()
