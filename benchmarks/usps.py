"""All ten USPS digits: 4649 rows to train, 4649 to test (RW06 section 3.7.3's table and text).

``python -m benchmarks.usps softmax`` evaluates the evidence at RW06's hyperparameters, predicts,
and adds a record to ``benchmarks/results/usps.json``. ``nested`` does so by nested EP; with
``--learn`` it first climbs its evidence, writing each evaluation down, and goes on from the best
one that is on record. The data come from the folder that GPCLASS_DATA names.
"""

import argparse
import json
import os
import resource
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss

from gpclass import GaussianProcessClassifier
from gpclass.inference import EP, Laplace
from gpclass.learning import JointProblem
from gpclass.likelihoods import Logit, Probit
from gpclass.metrics import information_bits
from gpclass.multiclass import MultinomialProbit, Softmax

RESULTS: Final = Path(__file__).resolve().parent / "results" / "usps.json"
# RW06 section 3.7.3: the maximum of the Laplace evidence
LOG_LENGTH, LOG_DEVIATION = 2.35, 2.6


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


def learn(data: dict[str, Any], X: Any, y: Any, tol: float) -> np.ndarray:
    """Climb the evidence of nested EP from the best theta on record."""
    seen = [e for e in read() if e.get("what") == "nested evaluation" and e["n"] == len(y)]
    best = max(seen, key=lambda e: e["log_evidence"]) if seen else None
    start = np.array(best["theta"] if best else [LOG_LENGTH, LOG_DEVIATION])

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        problem = JointProblem(
            kernel_of(theta), X, y, 10, MultinomialProbit(), Probit(), EP(tol=tol)
        )
        begun = time.perf_counter()
        found = problem.evaluate(problem.theta)
        # by log variance and log length-scale, to log length-scale and log deviation
        gradient = np.array([found.gradient[1], 2 * found.gradient[0]])
        record(
            {
                "what": "nested evaluation",
                "n": len(y),
                "theta": theta.tolist(),
                "log_evidence": found.log_evidence,
                "gradient": gradient.tolist(),
                "outcome": found.approximation.outcome.name,
                "factorisations": found.approximation.n_factorisations,
                "seconds": time.perf_counter() - begun,
            }
        )
        return -found.log_evidence, -gradient

    bounds = [(0.0, 5.0), (-2.0, 8.0)]
    done = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return np.asarray(done.x)


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
    X, y = data["X_train"][:n].astype(np.float64), data["y_train"][:n].astype(np.intp)
    theta = np.array(options.theta)
    if options.learn:
        theta = learn(data, X, y, options.tol)
    softmax = options.model == "softmax"
    model = GaussianProcessClassifier(
        kernel_of(theta), optimizer=None, inference=Laplace() if softmax else EP()
    )
    begun = time.perf_counter()
    problem = JointProblem(
        kernel_of(theta),
        X,
        y,
        10,
        Softmax() if softmax else MultinomialProbit(),
        Logit() if softmax else Probit(),
        Laplace() if softmax else EP(),
    )
    found = problem.evaluate(problem.theta)
    spent = {"evidence_and_gradient": time.perf_counter() - begun}
    print(f"log evidence {found.log_evidence:.3f}, gradient {found.gradient}", spent, flush=True)
    peak = memory()
    evidence, gradient = found.log_evidence, found.gradient
    del found
    begun = time.perf_counter()
    model.fit(X, y)
    spent["fit"] = time.perf_counter() - begun
    begun = time.perf_counter()
    P = model.predict_proba(data["X_test"].astype(np.float64))
    spent["probabilities"] = time.perf_counter() - begun
    truth = data["y_test"]
    entry = {
        "what": options.model,
        "n": n,
        "theta": theta.tolist(),
        "log_evidence": evidence,
        "gradient_by_log_variance_and_log_length": gradient.tolist(),
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
