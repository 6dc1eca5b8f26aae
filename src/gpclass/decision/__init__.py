"""What to decide, given probabilities and losses."""

from gpclass.decision.costs import REJECT, ErrorRejectCurve, decide, error_reject_curve

__all__ = ["REJECT", "ErrorRejectCurve", "decide", "error_reject_curve"]
