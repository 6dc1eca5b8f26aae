"""scikit-learn's own checks of an estimator.

They ask for shapes, types, errors and repeats, which depend on how an estimator divides a table and
learns and not on the method behind it: the default, Laplace's method, EM, and latent differences.
"""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpclass import GaussianProcessClassifier

# small tables let a variance run off to its bound
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.slow
@parametrize_with_checks(
    [
        GaussianProcessClassifier(),
        GaussianProcessClassifier(likelihood="logit", inference="laplace"),
        GaussianProcessClassifier(likelihood="logit", inference="laplace", learning="em"),
        GaussianProcessClassifier(inference="pl"),  # latent differences of many classes
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
