"""Which of our types a saved model contains, for loaders that must be told whom to trust."""

from gpclass.classifier import GaussianProcessClassifier
from gpclass.inference import METHODS
from gpclass.joint_model import JointModel
from gpclass.kernels import Precomputed
from gpclass.learning import (
    BinaryProblem,
    ExpectationMaximisation,
    JointProblem,
    KeepFixed,
    LearningRun,
    MaximiseEvidence,
)
from gpclass.likelihoods import LIKELIHOODS
from gpclass.model import BinaryModel
from gpclass.montecarlo import MonteCarlo, Samples
from gpclass.multiclass import DECOMPOSITIONS, LatentDifferences, MultinomialProbit, Softmax
from gpclass.multiclass.class_prior import ClassSites
from gpclass.report import OptimizerReport, ReportedRun
from gpclass.sites import Sites


def trusted_types() -> list[str]:
    """Names of our types that a fitted classifier may contain, as skops wants them.

    Returns
    -------
    names : list of str

    Examples
    --------
    >>> import gpclass
    >>> "gpclass.classifier.GaussianProcessClassifier" in gpclass.trusted_types()
    True
    """
    types = [
        GaussianProcessClassifier,
        BinaryModel,
        BinaryProblem,
        ClassSites,
        ExpectationMaximisation,
        JointModel,
        JointProblem,
        KeepFixed,
        LatentDifferences,
        LearningRun,
        MaximiseEvidence,
        MonteCarlo,
        MultinomialProbit,
        OptimizerReport,
        Precomputed,
        ReportedRun,
        Samples,
        Sites,
        Softmax,
        *METHODS.values(),
        *LIKELIHOODS.values(),
        *DECOMPOSITIONS.values(),
    ]
    return sorted(f"{kind.__module__}.{kind.__qualname__}" for kind in types)
