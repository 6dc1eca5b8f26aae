"""How the hyperparameters are found: by the evidence, by EM, or not at all."""

from gpclass.learning.em import ExpectationMaximisation
from gpclass.learning.evidence import MaximiseEvidence
from gpclass.learning.hyperparameters import Hyperparameters, HyperPrior
from gpclass.learning.hyperpriors import WeakHyperPrior, weak_hyperprior
from gpclass.learning.joint import JointProblem
from gpclass.learning.learner import KeepFixed, Learned, Learner, LearningRun, Node, draw_starts
from gpclass.learning.problem import BinaryProblem, Evaluation, Problem, spread_sites
from gpclass.learning.runs import learn_all
from gpclass.learning.search import SearchSettings

__all__ = [
    "BinaryProblem",
    "Evaluation",
    "ExpectationMaximisation",
    "HyperPrior",
    "Hyperparameters",
    "JointProblem",
    "KeepFixed",
    "Learned",
    "Learner",
    "LearningRun",
    "MaximiseEvidence",
    "Node",
    "Problem",
    "SearchSettings",
    "WeakHyperPrior",
    "draw_starts",
    "learn_all",
    "spread_sites",
    "weak_hyperprior",
]
