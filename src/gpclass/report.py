"""What learning did, run by run."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from sklearn.gaussian_process.kernels import CompoundKernel, ConstantKernel, Kernel

from gpclass.learning import LearningRun
from gpclass.likelihoods import Likelihood


@final
@dataclass(frozen=True)
class ReportedRun:
    """A run of the optimiser and the binary problem that it belongs to."""

    problem: str
    run: LearningRun


@final
@dataclass(frozen=True)
class OptimizerReport:
    """Every run of the optimiser.

    Parameters
    ----------
    parameter_names : tuple of str
        Names of the hyperparameters in theta, as in `Kernel.get_params`; an entry of a vector
        has its index in brackets.
    runs : tuple of ReportedRun
        In the order of the problems, then of the starts.
    """

    parameter_names: tuple[str, ...]
    runs: tuple[ReportedRun, ...]

    @property
    def n_evaluations(self) -> int:
        """Evaluations of the evidence in all runs."""
        return sum(reported.run.n_evaluations for reported in self.runs)

    def to_rows(self) -> list[dict[str, Any]]:
        """One dict a run, for a table: hyperparameters on their own scale, not logarithms."""
        rows = []
        for reported in self.runs:
            run = reported.run
            rows.append(
                {
                    "problem": reported.problem,
                    "log_evidence": run.log_evidence,
                    "n_evaluations": run.n_evaluations,
                    "n_rejected": run.n_rejected,
                    "message": run.message,
                    "start": dict(zip(self.parameter_names, np.exp(run.start), strict=True)),
                    "end": dict(zip(self.parameter_names, np.exp(run.end), strict=True)),
                    "at_bounds": [self.parameter_names[i] for i in run.at_bounds],
                }
            )
        return rows


def parameter_names(kernel: Kernel, likelihood: Likelihood | None = None) -> tuple[str, ...]:
    """Names of the entries of theta: the kernel's, then the likelihood's if there is one."""
    if isinstance(kernel, CompoundKernel):
        each = [
            f"kernels[{c}]__{name}"
            for c, one in enumerate(kernel.kernels)
            for name in parameter_names(one)
        ]
        return (*each, *(parameter_names(ConstantKernel(1.0, "fixed"), likelihood)))
    names = []
    for hyperparameter in kernel.hyperparameters:
        if hyperparameter.fixed:
            continue
        if hyperparameter.n_elements == 1:
            names.append(hyperparameter.name)
        else:
            names.extend(f"{hyperparameter.name}[{i}]" for i in range(hyperparameter.n_elements))
    if likelihood is not None:
        names.extend(f"likelihood__{name}" for name in likelihood.hyperparameter_names)
    return tuple(names)
