"""Pictures of probabilities and of fitted classifiers, as scikit-learn's displays.

matplotlib is imported when one draws.
"""

from gpclass.displays.decision_surface import DecisionSurfaceDisplay
from gpclass.displays.effect import EffectDisplay
from gpclass.displays.evidence_surface import EvidenceSurfaceDisplay
from gpclass.displays.outliers import OutlierDisplay
from gpclass.displays.probabilities import ErrorRejectDisplay, ReliabilityDisplay
from gpclass.displays.relevance import RelevanceDisplay

__all__ = [
    "DecisionSurfaceDisplay",
    "EffectDisplay",
    "ErrorRejectDisplay",
    "EvidenceSurfaceDisplay",
    "OutlierDisplay",
    "RelevanceDisplay",
    "ReliabilityDisplay",
]
