"""What learning did, run by run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from sklearn.gaussian_process.kernels import CompoundKernel

from gpclass.learning import LearningRun, Problem
from gpclass.learning.hyperparameters import parameter_names


@final
@dataclass(frozen=True)
class ReportedRun:
    """A run of the optimiser, the problem that it belongs to, and the names of its theta."""

    problem: str
    run: LearningRun
    parameter_names: tuple[str, ...]

    def to_row(self) -> dict[str, Any]:
        """The run as a dict, the hyperparameters on their own scale."""
        run, names = self.run, self.parameter_names
        copied = ("log_evidence", "n_evaluations", "n_rejected", "message")
        return {
            "problem": self.problem,
            **{name: getattr(run, name) for name in copied},
            "start": dict(zip(names, np.exp(run.start), strict=True)),
            "end": dict(zip(names, np.exp(run.end), strict=True)),
            "at_bounds": [names[i] for i in run.at_bounds],
        }


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
        return [reported.to_row() for reported in self.runs]


def names_of_theta(problems: Sequence[Problem], *, listed: bool) -> tuple[str, ...]:
    """Names of theta: of the first problem, or of all where each has a kernel of its own."""
    first = problems[0]
    if listed and len(problems) > 1:
        return parameter_names(
            CompoundKernel([problem.kernel for problem in problems]), first.likelihood
        )
    return parameter_names(first.kernel, first.likelihood)
