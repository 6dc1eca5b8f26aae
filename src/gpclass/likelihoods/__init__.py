"""What a label says about the latent: one file a likelihood.

A new likelihood is a file with a frozen dataclass that answers `base.Likelihood`, by closed forms
or by `by_quadrature`, and a line in the registry below.
"""

from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.logit import Logit
from gpclass.likelihoods.mislabelled import Mislabelled
from gpclass.likelihoods.probit import Probit
from gpclass.likelihoods.threshold import NoisyThreshold

LIKELIHOODS: dict[str, type[Likelihood]] = {
    "probit": Probit,
    "logit": Logit,
    "threshold": NoisyThreshold,
}


def get_likelihood(likelihood: str | Likelihood) -> Likelihood:
    """Look up the likelihood of that name; an object is returned as it is.

    Parameters
    ----------
    likelihood : str or Likelihood
        ``"probit"``, ``"logit"``, ``"threshold"``, or an object.

    Returns
    -------
    Likelihood

    Raises
    ------
    ValueError
        If no likelihood has that name.
    TypeError
        If it is neither a name nor a `Likelihood`.

    Examples
    --------
    >>> get_likelihood("probit")
    Probit()
    """
    if isinstance(likelihood, Likelihood):
        return likelihood
    if not isinstance(likelihood, str):
        raise TypeError(
            f"likelihood must be a name or a Likelihood object, got {likelihood!r} "
            f"of type {type(likelihood).__name__}"
        )
    if likelihood not in LIKELIHOODS:
        known = ", ".join(repr(name) for name in LIKELIHOODS)
        raise ValueError(f"likelihood={likelihood!r} is not known; the names are {known}")
    return LIKELIHOODS[likelihood]()


__all__ = [
    "LIKELIHOODS",
    "Likelihood",
    "Logit",
    "Mislabelled",
    "NoisyThreshold",
    "Probit",
    "get_likelihood",
]
