"""How the hyperparameters are found: by the evidence, or not at all, for now."""

from gpclass.learning.base import (
    BinaryProblem,
    Evaluation,
    Learned,
    Learner,
    LearningRun,
    draw_starts,
)
from gpclass.learning.evidence import KeepFixed, MaximiseEvidence

__all__ = [
    "BinaryProblem",
    "Evaluation",
    "KeepFixed",
    "Learned",
    "Learner",
    "LearningRun",
    "MaximiseEvidence",
    "draw_starts",
]
