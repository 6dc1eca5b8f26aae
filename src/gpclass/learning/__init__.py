"""How the hyperparameters are found: by the evidence, by EM, or not at all."""

from gpclass.learning.em import ExpectationMaximisation
from gpclass.learning.evidence import KeepFixed, MaximiseEvidence
from gpclass.learning.joint import JointProblem
from gpclass.learning.problem import (
    BinaryProblem,
    Evaluation,
    Learned,
    Learner,
    LearningRun,
    Problem,
    draw_starts,
)
from gpclass.learning.several import learn_all

__all__ = [
    "BinaryProblem",
    "Evaluation",
    "ExpectationMaximisation",
    "JointProblem",
    "KeepFixed",
    "Learned",
    "Learner",
    "LearningRun",
    "MaximiseEvidence",
    "Problem",
    "draw_starts",
    "learn_all",
]
