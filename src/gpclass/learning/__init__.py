"""How the hyperparameters are found: by the evidence, by EM, or not at all."""

from gpclass.learning.base import (
    BinaryProblem,
    Evaluation,
    Learned,
    Learner,
    LearningRun,
    draw_starts,
)
from gpclass.learning.em import ExpectationMaximisation
from gpclass.learning.evidence import KeepFixed, MaximiseEvidence
from gpclass.learning.several import learn_all

__all__ = [
    "BinaryProblem",
    "Evaluation",
    "ExpectationMaximisation",
    "KeepFixed",
    "Learned",
    "Learner",
    "LearningRun",
    "MaximiseEvidence",
    "draw_starts",
    "learn_all",
]
