"""How hyperparameters are found: by the evidence, leave-one-out, averages, EM, or not at all."""

from gpclass.learning.ccd import CentralComposite
from gpclass.learning.em import ExpectationMaximisation
from gpclass.learning.evidence import MaximiseEvidence
from gpclass.learning.hyperparameters import Hyperparameters, HyperPrior
from gpclass.learning.hyperpriors import WeakHyperPrior, weak_hyperprior
from gpclass.learning.inducing import InducingProblem
from gpclass.learning.joint import JointProblem
from gpclass.learning.learner import KeepFixed, Learned, Learner, LearningRun, Node, draw_starts
from gpclass.learning.leave_one_out import MaximiseLeaveOneOut
from gpclass.learning.nuts import NoUTurn
from gpclass.learning.problem import BinaryProblem, Evaluation, Problem, spread_sites
from gpclass.learning.runs import learn_all
from gpclass.learning.search import SearchSettings

__all__ = [
    "BinaryProblem",
    "CentralComposite",
    "Evaluation",
    "ExpectationMaximisation",
    "HyperPrior",
    "Hyperparameters",
    "InducingProblem",
    "JointProblem",
    "KeepFixed",
    "Learned",
    "Learner",
    "LearningRun",
    "MaximiseEvidence",
    "MaximiseLeaveOneOut",
    "NoUTurn",
    "Node",
    "Problem",
    "SearchSettings",
    "WeakHyperPrior",
    "draw_starts",
    "learn_all",
    "spread_sites",
    "weak_hyperprior",
]
