"""The earlier place of two displays, which are in `gpclass.displays`."""

from gpclass.displays.probabilities import ErrorRejectDisplay, ReliabilityDisplay

__all__ = ["ErrorRejectDisplay", "ReliabilityDisplay"]
