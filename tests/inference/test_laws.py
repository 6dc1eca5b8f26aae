"""The laws of `gpclass.testing.check_inference`, for every method with every likelihood."""

import pytest

from gpclass.inference import EP, PosteriorLinearisation, Variational
from gpclass.likelihoods import Logit, NoisyThreshold, Probit
from gpclass.testing import check_inference
from helpers import each, slow

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


@pytest.mark.parametrize("method", slow(METHODS, "pl-sequential", "vi-bound", "vi-ep"))
@pytest.mark.parametrize("likelihood", slow(LIKELIHOODS, "logit", "threshold-0.1", "threshold-0.3"))
def test_laws(method, likelihood):
    check_inference(METHODS[method], LIKELIHOODS[likelihood], n=6)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "likelihood", "seed"), each(METHODS, LIKELIHOODS, range(5)))
def test_laws_of_larger_problems(method, likelihood, seed):
    check_inference(METHODS[method], LIKELIHOODS[likelihood], seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ep", "ep-sequential"])
def test_laws_of_ep_with_the_hard_threshold(method):
    # variational inference refuses it: its bound is minus infinity
    check_inference(METHODS[method], NoisyThreshold(0.0), n=6)
