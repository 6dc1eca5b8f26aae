"""The types of ours that a saved model may contain, for loaders that build only trusted ones."""

from typing import Any

from gpclass.blocks import AbsentBlocks
from gpclass.estimator.binary_model import BinaryModel
from gpclass.estimator.classifier import GaussianProcessClassifier
from gpclass.estimator.decomposition import DECOMPOSITIONS
from gpclass.estimator.inputs import KINDS, TableEncoder
from gpclass.estimator.joint_model import JointModel
from gpclass.estimator.report import OptimizerReport, ReportedRun
from gpclass.inference import METHODS
from gpclass.inference.by_blocks import VariationalByBlocks
from gpclass.inference.joint import LatentDifferences, MultinomialProbit, Softmax
from gpclass.inference.sites import Sites
from gpclass.inference.weights import WeightSites
from gpclass.kernels import Precomputed
from gpclass.learning import (
    BinaryProblem,
    CentralComposite,
    ExpectationMaximisation,
    InducingProblem,
    JointProblem,
    KeepFixed,
    Learned,
    LearningRun,
    MaximiseEvidence,
    MaximiseLeaveOneOut,
    Node,
    NoUTurn,
    SearchSettings,
    WeakHyperPrior,
)
from gpclass.likelihoods import LIKELIHOODS, Mislabelled
from gpclass.montecarlo import MonteCarlo, Samples
from gpclass.priors import Dense, Inducing
from gpclass.priors.classes import ClassSites, DenseClasses


def trusted_types() -> list[str]:
    """Names of our types that a fitted classifier may contain, as skops wants them.

    Examples
    --------
    >>> import gpclass
    >>> "gpclass.estimator.classifier.GaussianProcessClassifier" in gpclass.trusted_types()
    True
    """
    estimator = (GaussianProcessClassifier, TableEncoder, OptimizerReport, ReportedRun, *KINDS)
    models = (BinaryModel, JointModel, *DECOMPOSITIONS.values())
    problems = (
        BinaryProblem,
        InducingProblem,
        JointProblem,
        Learned,
        LearningRun,
        Node,
        SearchSettings,
    )
    learners: tuple[Any, ...] = (ExpectationMaximisation, KeepFixed, MaximiseEvidence)
    learners += (MaximiseLeaveOneOut, CentralComposite, NoUTurn, WeakHyperPrior)
    inference = (
        LatentDifferences,
        MultinomialProbit,
        Softmax,
        MonteCarlo,
        *METHODS.values(),
        VariationalByBlocks,
    )
    kept = (Sites, ClassSites, Samples, WeightSites, AbsentBlocks)
    priors = (Dense, Inducing, DenseClasses, Precomputed, Mislabelled, *LIKELIHOODS.values())
    types: list[Any] = [*estimator, *models, *problems, *learners, *inference, *kept, *priors]
    return sorted(f"{kind.__module__}.{kind.__qualname__}" for kind in types)
