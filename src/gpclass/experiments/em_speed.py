"""EM-EP beside the maximisation of the evidence by its gradient, from one start."""

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from sklearn.gaussian_process.kernels import RBF
from sklearn.preprocessing import StandardScaler

from gpclass.experiments.form import (
    Experiment,
    Found,
    Piece,
    Place,
    Published,
    Results,
    Size,
    Table,
)
from gpclass.inference import EP, InferenceMethod, Laplace, PosteriorLinearisation, Variational
from gpclass.learning import BinaryProblem, ExpectationMaximisation, Learned, MaximiseEvidence
from gpclass.likelihoods import Logit, Probit

METHODS: Final[dict[str, InferenceMethod]] = {
    "EP": EP(),
    "VI": Variational(),
    "PL": PosteriorLinearisation(),
    "Laplace": Laplace(),
}
# A length-scale for each column.
ARD: Final = ", ARD"
LABELS: Final = ("EP", "EP" + ARD, "VI", "VI" + ARD, "PL", "Laplace", "Laplace" + ARD)
TABLES: Final = ("crabs_sex", "pima_tr", "ionosphere")


def learn(table: Any, method: str) -> dict[str, Any]:
    """Both learners from the kernel's own start."""
    X = StandardScaler().fit_transform(np.asarray(table.X, dtype=np.float64))
    y = np.where(np.asarray(table.y) == np.unique(table.y)[1], 1.0, -1.0)
    scale = np.sqrt(X.shape[1])
    kernel = 1.0 * RBF(np.full(X.shape[1], scale) if method.endswith(ARD) else scale)
    inference = METHODS[method.removesuffix(ARD)]
    likelihood = Logit() if isinstance(inference, Laplace) else Probit()
    task = BinaryProblem(kernel, X, y, likelihood, inference)
    maximised, seconds = _timed(MaximiseEvidence(), task)
    turned, em_seconds = _timed(ExpectationMaximisation(), task)
    (run,), (em_run,) = maximised.runs, turned.runs
    (of_F,) = re.findall(r"(\d+) evaluations of M-steps", em_run.message)
    return {
        "shape": X.shape,
        "evaluations": run.n_evaluations,
        "seconds": seconds,
        "em_steps": em_run.n_evaluations,
        "em_of_F": int(of_F),
        "em_seconds": em_seconds,
        "difference": turned.log_evidence - maximised.log_evidence,
    }


def _timed(
    learner: MaximiseEvidence | ExpectationMaximisation, task: BinaryProblem
) -> tuple[Learned, float]:
    start = time.process_time()
    learned = learner.learn(task, task.theta[None, :])
    return learned, time.process_time() - start


def pieces(size: Size) -> Iterator[Piece]:
    """Each table and method."""
    quick = size == "quick"
    for name in TABLES[:1] if quick else TABLES:
        for label in ("EP", "Laplace") if quick else LABELS:
            yield Piece(f"{name} {label}", learn, {"method": label}, (name,), 5.0)


SAME_MAXIMUM: Final = "with one length-scale, EM-EP ends at a maximum of EP's evidence"
# In nats, from the maximum that the gradient leads to.
SAME: Final = 1e-3


def found(results: Results) -> Mapping[Place, Found | float | bool]:
    """Theorem 1, and how often EM is the faster one."""
    ep = [one for key, one in results.items() if key.split(" ", 1)[1] == "EP"]
    cells: dict[Place, Found | float | bool] = {}
    if ep:
        cells[SAME_MAXIMUM, "holds"] = all(abs(one["difference"]) < SAME for one in ep)
    faster = sum(one["em_seconds"] < one["seconds"] for one in results.values())
    return cells | {("fits", "value"): len(results), ("EM is faster", "value"): faster}


def tables(results: Results) -> Mapping[str, Table]:
    """Evaluations, seconds and the difference of the evidence at the end."""
    rows, before = [], ""
    for key, one in results.items():
        name, label = key.split(" ", 1)
        n, d = one["shape"]
        difference = one["difference"]
        rows.append(
            [
                "" if name == before else f"{name}, {n} x {d}",
                label,
                f"{one['evaluations']}",
                f"{one['seconds']:.3g}",
                f"{one['em_steps']}",
                f"{one['em_of_F']}",
                f"{one['em_seconds']:.3g}",
                f"{difference:.0e}" if abs(difference) < 0.01 else f"{difference:+.2f}",
            ]
        )
        before = name
    head = (
        "table",
        "method",
        "evaluations",
        "seconds",
        "EM's E-steps",
        "EM's evaluations of F",
        "EM's seconds",
        "difference",
    )
    caption = "L-BFGS-B, EM, CPU seconds, and the evidence at the end of EM less the other:"
    return {"learners": (caption, head, rows)}


SETTINGS: Final = """\
One thread, standardised columns, `1.0 * RBF(sqrt(d))`, the probit but for Laplace (logit); "ARD"
has a length-scale for each column. `MaximiseEvidence` and `ExpectationMaximisation` begin at the
same hyperparameters. KG06's theorem 1 says that a fixed point of EM-EP is a stationary point of
EP's evidence; *ends at a maximum* is taken for within 1e-3 nats of where the gradient leads.
"""

EXPERIMENT = Experiment(
    name="em-speed",
    title="EM beside the gradient of the evidence",
    source="KG06 theorem 1; no paper has the times",
    settings=SETTINGS,
    published=(Published(SAME_MAXIMUM, "holds", True),),
    pieces=pieces,
    found=found,
    tables=tables,
)
