"""Arguments become parts; every value that does not exist is an error that lists those that do."""

import functools

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, CompoundKernel

from gpclass import GaussianProcessClassifier
from gpclass.estimator.arguments import (
    check_kernel_argument,
    pick_parts,
)
from gpclass.estimator.decomposition import DECOMPOSITIONS, OneVsRest
from gpclass.estimator.inputs import is_precomputed, takes_vectors
from gpclass.inference import EP, METHODS, Laplace
from gpclass.inference.joint import JOINT
from gpclass.kernels import Precomputed
from gpclass.learning import ExpectationMaximisation, KeepFixed, MaximiseEvidence
from gpclass.likelihoods import LIKELIHOODS, Probit
from gpclass.montecarlo import MonteCarlo

X, Y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1]


def test_the_defaults():
    parts = pick_parts(GaussianProcessClassifier())
    assert parts.likelihood == Probit()
    assert parts.inference == EP(max_iter=100)
    assert parts.learner == MaximiseEvidence()
    assert isinstance(parts.decomposition, OneVsRest)


@pytest.mark.parametrize("name", METHODS)
def test_inference_by_name_has_the_iteration_limit(name):
    parts = pick_parts(GaussianProcessClassifier(inference=name, max_iter_predict=7))
    assert parts.inference == METHODS[name](max_iter=7)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_likelihood_by_name(name):
    assert isinstance(
        pick_parts(GaussianProcessClassifier(likelihood=name)).likelihood, LIKELIHOODS[name]
    )


@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_multi_class_by_name(name):
    parts = pick_parts(GaussianProcessClassifier(multi_class=name))
    assert isinstance(parts.decomposition, DECOMPOSITIONS[name])


def test_objects_are_taken_as_they_are():
    inference, likelihood, learning = Laplace(tol=1e-8), Probit(), KeepFixed()
    parts = pick_parts(
        GaussianProcessClassifier(inference=inference, likelihood=likelihood, learning=learning)
    )
    assert parts.inference is inference
    assert parts.likelihood is likelihood
    assert parts.learner is learning
    method = functools.partial(inference)
    assert pick_parts(GaussianProcessClassifier(inference=method)).inference is method


@pytest.mark.parametrize("method", [Laplace(max_iter=50), functools.partial(Laplace())], ids=repr)
def test_a_method_object_has_its_own_iteration_limit(method):
    with pytest.raises(ValueError, match="max_iter_predict=7 does not reach the inference"):
        pick_parts(GaussianProcessClassifier(inference=method, max_iter_predict=7))
    assert pick_parts(GaussianProcessClassifier(inference=method)).inference is method


def test_optimizer_none_keeps_the_kernel():
    for learning in ("evidence", "em"):
        estimator = GaussianProcessClassifier(optimizer=None, learning=learning)
        assert pick_parts(estimator).learner == KeepFixed()


def test_learning_by_em():
    parts = pick_parts(GaussianProcessClassifier(learning="em"))
    assert parts.learner == ExpectationMaximisation()
    for optimizer in ("adam", 3):
        with pytest.raises(ValueError, match="optimizer"):
            pick_parts(GaussianProcessClassifier(learning="em", optimizer=optimizer))


def test_em_takes_no_optimizer_of_ones_own():
    estimator = GaussianProcessClassifier(learning="em", optimizer=lambda f, theta, bounds: theta)
    with pytest.raises(ValueError, match=r"learning='em' maximises by itself.*'fmin_l_bfgs_b'"):
        estimator.fit(X, Y)


@pytest.mark.parametrize(
    ("random_state", "seed"),
    [(None, 0), (7, 7), (np.int64(7), 7), (np.random.RandomState(1), 1791095845)],
)
def test_mcmc_is_seeded_by_random_state(random_state, seed):
    estimator = GaussianProcessClassifier(inference="mcmc", random_state=random_state)
    # 1791095845 is the first number that numpy's RandomState(1) draws
    assert pick_parts(estimator).inference == MonteCarlo(random_state=seed)


@pytest.mark.parametrize(
    ("argument", "value", "values"),
    [
        ("inference", "lap", [*METHODS, "mcmc"]),
        ("likelihood", "softmax", LIKELIHOODS),
        ("multi_class", "softmax", (*JOINT, *DECOMPOSITIONS)),
        ("learning", "sgd", ["evidence", "loo", "ccd", "nuts", "em"]),
        ("kernel", "rbf", ["precomputed"]),
        ("hyperprior", "strong", ["auto", "weak"]),
        ("optimizer", "adam", ["fmin_l_bfgs_b", "callable", "None"]),
        ("class_weight", "even", ["balanced", "None"]),
    ],
)
def test_a_value_that_does_not_exist_lists_those_that_do(argument, value, values):
    with pytest.raises(ValueError, match=argument) as caught:
        GaussianProcessClassifier(**{argument: value}).fit(X, Y)
    message = str(caught.value)
    assert str(value) in message
    assert all(name in message for name in values), message


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("kernel", RBF),
        ("kernel", 3),
        ("inference", 1),
        ("inference", Laplace),
        ("inference", None),
        ("likelihood", Probit),
        ("likelihood", None),
        ("learning", KeepFixed),
        ("learning", None),
        ("multi_class", None),
        ("multi_class", OneVsRest),
        ("n_restarts_optimizer", 1.5),
        ("n_restarts_optimizer", True),
        ("max_iter_predict", "many"),
        ("max_iter_predict", None),
        ("verbose", "yes"),
        ("n_jobs", 2.0),
        ("warm_start", "no"),
        ("copy_X_train", None),
        ("class_weight", 2),
    ],
)
def test_wrong_types_are_named(argument, value):
    with pytest.raises(TypeError, match=argument):
        GaussianProcessClassifier(**{argument: value}).fit(X, Y)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("n_restarts_optimizer", -1),
        ("max_iter_predict", 0),
        ("verbose", -1),
        ("n_jobs", 0),
        ("kernel", CompoundKernel([RBF()])),
        ("random_state", "seed"),
        ("optimizer", 3),
    ],
)
def test_wrong_values_are_named(argument, value):
    # scikit-learn's own check_random_state says "seed"
    words = "seed" if argument == "random_state" else argument
    with pytest.raises((ValueError, TypeError), match=words):
        GaussianProcessClassifier(**{argument: value}).fit(X, Y)


def test_integers_of_numpy_are_integers():
    estimator = GaussianProcessClassifier(
        n_restarts_optimizer=np.int64(1),
        max_iter_predict=np.int32(5),
        verbose=False,
        n_jobs=np.int64(1),
        warm_start=np.int8(0),
    )
    assert pick_parts(estimator).inference == EP(max_iter=5)
    # what numpy's comparisons and grids of numpy values give
    pick_parts(GaussianProcessClassifier(warm_start=np.bool_(True), copy_X_train=np.bool_(False)))


def test_what_a_kernel_takes():
    from sklearn.gaussian_process.tests._mini_sequence_kernel import MiniSeqKernel

    for kernel in (None, "precomputed", RBF(), Precomputed()):
        check_kernel_argument(kernel)
        assert takes_vectors(kernel)
    assert not takes_vectors(MiniSeqKernel())
    assert is_precomputed("precomputed")
    assert is_precomputed(Precomputed())
    assert not is_precomputed(None)
    assert not is_precomputed(RBF())
