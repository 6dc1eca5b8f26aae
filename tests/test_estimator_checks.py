"""scikit-learn's own checks of an estimator, for every value of the arguments that pick parts."""

from itertools import product

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpclass import GaussianProcessClassifier
from gpclass.inference import METHODS
from gpclass.likelihoods import LIKELIHOODS
from gpclass.multiclass import DECOMPOSITIONS

pytestmark = pytest.mark.slow

ESTIMATORS = [
    GaussianProcessClassifier(inference=inference, likelihood=likelihood, multi_class=multi_class)
    for inference, likelihood, multi_class in product(METHODS, LIKELIHOODS, DECOMPOSITIONS)
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
