"""The laws of `gpclass.testing.check_inference`, for every method with every likelihood."""

import pytest

from gpclass.inference import EP, PosteriorLinearisation, Variational
from gpclass.likelihoods import Logit, NoisyThreshold, Probit
from gpclass.testing import check_inference

METHODS = {
    "ep": EP(),
    "ep-sequential": EP("sequential"),
    "pl": PosteriorLinearisation(),
    "pl-sequential": PosteriorLinearisation("sequential"),
    "vi-bound": Variational("bound"),
    "vi-ep": Variational("ep"),
}
LIKELIHOODS = {
    "probit": Probit(),
    "logit": Logit(),
    "threshold-0.1": NoisyThreshold(0.1),
    "threshold-0.3": NoisyThreshold(0.3),
}
METHOD = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
LIKELIHOOD = pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS.keys())
# One row after the other takes longer by far with a likelihood that needs quadrature.
FAST = [
    (method, likelihood)
    for method in METHODS
    for likelihood in ("probit", "logit", "threshold-0.1")
    if not (method.endswith("sequential") and likelihood == "logit")
]


@pytest.mark.parametrize(("method", "likelihood"), FAST)
def test_laws(method, likelihood):
    check_inference(METHODS[method], LIKELIHOODS[likelihood], n=6)


@pytest.mark.slow
@METHOD
@LIKELIHOOD
@pytest.mark.parametrize("seed", range(4))
def test_laws_of_larger_problems(method, likelihood, seed):
    check_inference(method, likelihood, seed=seed)


@pytest.mark.parametrize("method", list(METHODS.values())[:2], ids=list(METHODS)[:2])
def test_laws_of_ep_with_the_hard_threshold(method):
    # variational inference refuses it: its bound is minus infinity
    check_inference(method, NoisyThreshold(0.0), n=6)
