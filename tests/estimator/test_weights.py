"""Row weights: sample weights times class weights."""

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils.class_weight import compute_class_weight

from gpclass import GaussianProcessClassifier
from gpclass.estimator.weights import class_weights, row_weights, votes_as_rows

X = np.zeros((5, 1))
Y = np.array(["a", "b", "a", "c", "a"])


def test_no_weights_are_none():
    assert row_weights(X, Y, None, None) is None


def test_sample_weights_are_copied_as_float64():
    given = np.array([1, 2, 0, 3, 4])
    weights = row_weights(X, Y, given, None)
    assert weights.dtype == np.float64
    assert not np.shares_memory(weights, given)
    np.testing.assert_array_equal(weights, given)


def test_a_number_is_the_weight_of_every_row():
    np.testing.assert_array_equal(row_weights(X, Y, 2.5, None), np.full(5, 2.5))


def test_a_dict_multiplies_and_leaves_other_classes_alone():
    weights = row_weights(X, Y, [1, 2, 3, 4, 5], {"a": 2.0, "c": 0.5})
    np.testing.assert_array_equal(weights, [2, 2, 6, 2, 10])


def test_balanced_is_what_scikit_learn_calls_balanced():
    expected = compute_class_weight("balanced", classes=np.unique(Y), y=Y)
    np.testing.assert_allclose(
        row_weights(X, Y, None, "balanced"), expected[np.searchsorted(np.unique(Y), Y)]
    )


def test_balanced_gives_every_class_the_same_total():
    sample_weight = np.array([0.3, 2.0, 1.0, 5.0, 0.7])
    weights = row_weights(X, Y, sample_weight, "balanced")
    totals = [weights[label == Y].sum() for label in "abc"]
    np.testing.assert_allclose(totals, sample_weight.sum() / 3)


def test_balanced_counts_a_row_of_weight_two_as_two_rows():
    doubled = np.append(Y, Y[1])
    twice = row_weights(np.zeros((6, 1)), doubled, None, "balanced")
    weighted = row_weights(X, Y, [1, 2, 1, 1, 1], "balanced")
    np.testing.assert_allclose(weighted / [1, 2, 1, 1, 1], twice[:5])


def test_balanced_leaves_a_class_without_weight_out():
    weights = row_weights(X, Y, [1, 1, 1, 0, 1], "balanced")
    np.testing.assert_allclose(weights, [4 / 6, 2, 4 / 6, 0, 4 / 6])


def test_labels_of_a_dict_may_be_integers_or_booleans():
    y = np.array([True, False, True])
    np.testing.assert_array_equal(class_weights({True: 2, False: 3}, y, np.ones(3)), [2, 3, 2])
    np.testing.assert_array_equal(class_weights({5: 4.0}, np.array([5, 7]), np.ones(2)), [4, 1])


@pytest.mark.parametrize(
    ("sample_weight", "words"),
    [
        ([1, 1, 1, 1, -1], "[Nn]egative"),
        ([1, 1, 1, 1, np.nan], "NaN"),
        ([1, 1, 1, 1, np.inf], "infinity"),
        ([1, 1], "sample_weight"),
        (np.ones((5, 2)), "1D"),
        (["x"] * 5, "float|numeric"),
    ],
)
def test_bad_sample_weights(sample_weight, words):
    with pytest.raises(ValueError, match=words):
        row_weights(X, Y, sample_weight, None)


@pytest.mark.parametrize(
    ("class_weight", "error", "words"),
    [
        ("even", ValueError, "'balanced'"),
        ({"z": 1.0}, ValueError, r"class_weight has labels \['z'\]"),
        ({"a": -1.0}, ValueError, "class_weight must be finite"),
        ({"a": np.nan}, ValueError, "class_weight must be finite"),
        ({"a": np.inf}, ValueError, "class_weight must be finite"),
        ([1.0, 2.0], TypeError, "class_weight must be None"),
        (2.0, TypeError, "class_weight must be None"),
    ],
)
def test_bad_class_weights(class_weight, error, words):
    with pytest.raises(error, match=words):
        row_weights(X, Y, None, class_weight)


def test_votes_are_rows_that_are_repeated():
    rows = np.array([[0.0], [1.0], [2.0]])
    voted = votes_as_rows(rows, [[2, 0], [1, 2], [0, 0]], ["no", "yes"])
    model = GaussianProcessClassifier(1.0 * RBF(1.0), optimizer=None)
    repeated = [[0.0], [0.0], [1.0], [1.0], [1.0]], ["no", "no", "no", "yes", "yes"]
    P = model.fit(*repeated).predict_proba(rows)
    np.testing.assert_allclose(model.fit(*voted).predict_proba(rows), P, atol=1e-8)


def test_a_label_of_one_half_says_that_neither_is_sure():
    rows = np.linspace(0.0, 3.0, 7)[:, None]
    model = GaussianProcessClassifier(4.0 * RBF(1.0), optimizer=None)
    P = model.fit(*votes_as_rows(rows, np.full((7, 2), 0.5))).predict_proba(rows)
    np.testing.assert_allclose(P, 0.5, atol=1e-9)


def test_votes_of_frames_keep_the_frame():
    table = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
    found, labels, _ = votes_as_rows(table, [[1, 1], [0, 1]])
    assert found["b"].tolist() == ["x", "x", "y"]
    assert labels.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("votes", "classes", "says"),
    [
        ([[1, 0]], None, "votes has 1 rows, and X has 2"),
        ([[1, 0], [-1, 2]], None, "votes must not be negative, got -1"),
        ([[1, 0], [np.nan, 2]], None, "votes contains NaN"),
        ([[1, 0], [1, 0]], ["a"], "2 columns for 1 classes"),
    ],
)
def test_wrong_votes_are_named(votes, classes, says):
    with pytest.raises(ValueError, match=says):
        votes_as_rows(np.zeros((2, 1)), votes, classes)
