"""What can go wrong, each with its own type, so that a caller can catch just that."""

from sklearn.exceptions import ConvergenceWarning


class NumericalWarning(UserWarning):
    """Something was changed or given up to keep the numbers finite; the message has the amount."""


class JitterWarning(NumericalWarning):
    """A multiple of the identity was added to a kernel matrix; the message has the amount."""


class NotPositiveDefiniteError(ValueError):
    """A matrix that must be positive definite is not."""


class CostWarning(UserWarning):
    """A fit is going to take long, or much of the memory; the message has the figures."""


class NotEnoughMemoryError(MemoryError):
    """A fit needs more memory than is free.

    It is a MemoryError, so that code which handles numpy's handles this one.
    """


class ClusterLostError(RuntimeError):
    """A Dask cluster has no workers, or does not answer; what was learnt so far is in a checkpoint.

    The message says for how long it was waited for.
    """


__all__ = [
    "ClusterLostError",
    "ConvergenceWarning",
    "CostWarning",
    "JitterWarning",
    "NotEnoughMemoryError",
    "NotPositiveDefiniteError",
    "NumericalWarning",
]
