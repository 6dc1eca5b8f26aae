"""Table of docs/em.md: both learners from one start, on three tables.

    OMP_NUM_THREADS=1 GPCLASS_DATA=... python docs/generate/learners.py

CPU seconds of one thread, so that other processes count little. Takes about a minute.
"""

import re
import time

import numpy as np
from blocks import table, write_block
from sklearn.gaussian_process.kernels import RBF
from sklearn.preprocessing import StandardScaler

from gpclass.app.datasets import Dataset, load_dataset
from gpclass.inference import EP, InferenceMethod, Laplace, PosteriorLinearisation, Variational
from gpclass.learning import BinaryProblem, ExpectationMaximisation, Learned, MaximiseEvidence
from gpclass.likelihoods import Logit, Probit

PAGE, BLOCK = "em.md", "learners"
METHODS: dict[str, tuple[InferenceMethod, bool]] = {
    "EP": (EP(), False),
    "EP, ARD": (EP(), True),
    "VI": (Variational(), False),
    "VI, ARD": (Variational(), True),
    "PL": (PosteriorLinearisation(), False),
    "Laplace": (Laplace(), False),
    "Laplace, ARD": (Laplace(), True),
}
TABLES = ("crabs_sex", "pima_tr", "ionosphere")


def problem(data: Dataset, method: InferenceMethod, ard: bool) -> BinaryProblem:
    """A table with standardised columns and the kernel that both learners start from."""
    X = StandardScaler().fit_transform(np.asarray(data.X, dtype=np.float64))
    y = np.where(np.asarray(data.y) == np.unique(data.y)[1], 1.0, -1.0)
    scale = np.sqrt(X.shape[1])
    kernel = 1.0 * RBF(np.full(X.shape[1], scale) if ard else scale)
    return BinaryProblem(kernel, X, y, Logit() if isinstance(method, Laplace) else Probit(), method)


def timed(
    learner: MaximiseEvidence | ExpectationMaximisation, task: BinaryProblem
) -> tuple[Learned, float]:
    """What was learnt from the kernel's own start, and the CPU seconds it took."""
    start = time.process_time()
    learned = learner.learn(task, task.theta[None, :])
    return learned, time.process_time() - start


def row(data: Dataset, label: str, method: InferenceMethod, ard: bool) -> list[str]:
    """One line of the table."""
    task = problem(data, method, ard)
    maximised, seconds = timed(MaximiseEvidence(), task)
    found, em_seconds = timed(ExpectationMaximisation(), task)
    (run,), (em_run,) = maximised.runs, found.runs
    of_F = re.search(r"(\d+) evaluations of M-steps", em_run.message)
    assert of_F is not None
    difference = found.log_evidence - maximised.log_evidence
    small = abs(difference) < 0.01
    return [
        label,
        f"{run.n_evaluations}, {seconds:.3g}",
        f"{em_run.n_evaluations}, {of_F[1]}, {em_seconds:.3g}",
        f"{difference:.0e}" if small else f"{difference:+.2f}",
    ]


def main() -> None:
    """Measure and write."""
    rows = []
    for name in TABLES:
        data = load_dataset(name)
        n, d = np.shape(data.X)
        for i, (label, (method, ard)) in enumerate(METHODS.items()):
            rows.append(["" if i else f"{name}, {n} x {d}", *row(data, label, method, ard)])
            print(rows[-1], flush=True)
    head = [
        "table",
        "method",
        "L-BFGS-B: evaluations, s",
        "EM: E-steps, of F, s",
        "difference",
    ]
    write_block(PAGE, BLOCK, table(head, rows))


if __name__ == "__main__":
    main()
