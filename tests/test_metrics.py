import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from gpclass.metrics import (
    brier_score,
    check_probabilities,
    expected_calibration_error,
    information_bits,
    squared_calibration_error,
)


@pytest.fixture
def three():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), size=40)
    y = np.array(["a", "b", "c"])[rng.integers(3, size=40)]
    return y, p


def test_information_of_the_baseline_of_usps_3_against_5():
    # RW06 section 3.7: -418/773 log2(406/767) - 355/773 log2(361/767) = 0.9956 bits.
    y = np.repeat([3, 5], [418, 355])
    perfect = (y == 5).astype(float)
    assert information_bits(y, perfect, baseline=[406, 361]) == pytest.approx(0.9956, abs=5e-5)


def test_predicting_the_baseline_is_no_information(three):
    y, _ = three
    frequencies = np.unique(y, return_counts=True)[1] / y.size
    p = np.tile(frequencies, (y.size, 1))
    assert information_bits(y, p) == pytest.approx(0, abs=1e-14)
    assert information_bits(y, p, baseline=10 * frequencies) == pytest.approx(0, abs=1e-14)
    assert information_bits(y, np.full((y.size, 3), 1 / 3)) <= 0


def test_information_is_log_loss_in_bits_below_the_entropy(three):
    y, p = three
    frequencies = np.unique(y, return_counts=True)[1] / y.size
    entropy = -frequencies @ np.log2(frequencies)
    assert information_bits(y, p) == pytest.approx(entropy - log_loss(y, p) / np.log(2), rel=1e-12)


def test_ruled_out_class_costs_52_bits_and_not_infinitely_many():
    assert information_bits([0, 1], [1.0, 1.0], baseline=[1, 1]) == pytest.approx((-52 + 2) / 2)


def test_weight_two_is_the_row_twice(three):
    y, p = three
    w = np.arange(y.size) % 3
    again = np.repeat(np.arange(y.size), w)
    for score in (information_bits, brier_score):
        assert score(y, p, sample_weight=w) == pytest.approx(score(y[again], p[again]), rel=1e-12)


def test_columns_in_another_order(three):
    y, p = three
    order = [2, 0, 1]
    labels = np.array(["a", "b", "c"])[order]
    assert information_bits(y, p[:, order], labels=labels) == pytest.approx(information_bits(y, p))
    assert brier_score(y, p[:, order], labels=labels) == pytest.approx(brier_score(y, p))


def test_labels_that_do_not_occur_in_the_fold(three):
    y, p = three
    two = y != "c"
    value = information_bits(y[two], p[two], labels=["a", "b", "c"], baseline=[1, 1, 1])
    assert np.isfinite(value)


def test_brier_of_two_classes_is_that_of_scikit_learn(three):
    _, p = three
    rng = np.random.default_rng(1)
    y = rng.integers(2, size=len(p))
    assert brier_score(y, p[:, 0]) == pytest.approx(brier_score_loss(y, p[:, 0]), rel=1e-12)


def test_brier_is_between_zero_and_one():
    assert brier_score([0, 1, 2], np.eye(3)) == 0
    assert brier_score([0, 1, 2], np.eye(3)[[1, 2, 0]]) == 1


def test_float32_rows_sum_to_one_to_their_precision(three):
    y, p = three
    assert brier_score(y, p.astype(np.float32)) == pytest.approx(brier_score(y, p), rel=1e-5)


@pytest.mark.parametrize(
    ("y", "p", "options", "message"),
    [
        ([0, 1], [0.5, 1.5], {}, "probabilities in"),
        ([0, 1], [0.5, np.nan], {}, "NaN"),
        ([0, 1], [[0.5, 0.6], [0.5, 0.5]], {}, "sum to one"),
        ([0, 1, 1], [0.5, 0.5], {}, "inconsistent numbers of samples"),
        ([0, 0], [0.5, 0.5], {}, "2 columns for 1 classes"),
        ([0, 7], [0.5, 0.5], {"labels": [0, 1]}, "the label 7"),
        ([0, 1], [0.5, 0.5], {"labels": [0, 0]}, "each class once"),
        ([0, 1], [0.5, 0.5], {"baseline": [1, 0]}, "gives the class 1 no probability"),
        ([0, 1], [0.5, 0.5], {"baseline": [1, 1, 1]}, "one value for each of the 2 classes"),
        ([0, 1], [0.5, 0.5], {"baseline": [-1, 1]}, "non-negative"),
        ([0, 1], [0.5, 0.5], {"sample_weight": [1, -1]}, "non-negative"),
        ([0, 1], [0.5, 0.5], {"sample_weight": [1]}, "must have shape"),
        ([0.5, 1.7], [0.5, 0.5], {}, "Unknown label type"),
        ([0, 1], np.zeros((2, 2, 2)), {}, "dim"),
    ],
)
def test_mistakes(y, p, options, message):
    with pytest.raises(ValueError, match=message):
        information_bits(y, p, **options)


def test_check_probabilities_without_labels():
    codes, proba, labels = check_probabilities(None, [[0.2], [0.7]])
    assert codes is None
    np.testing.assert_allclose(proba, [[0.8, 0.2], [0.3, 0.7]])
    assert labels.tolist() == [0, 1]


def test_calibration_error_against_a_loop():
    rng = np.random.default_rng(1)
    P = rng.dirichlet([1.0, 1.0, 1.0], 300)
    y = rng.integers(0, 3, 300)
    sure, right = P.max(axis=1), P.argmax(axis=1) == y
    plain = squared = 0.0
    for low in np.arange(0, 1, 0.2):
        chosen = (sure >= low) & (sure < low + 0.2)
        if chosen.any():
            away = right[chosen].mean() - sure[chosen].mean()
            plain += chosen.mean() * abs(away)
            squared += chosen.mean() * (away**2 - right[chosen].var(ddof=1) / chosen.sum())
    options = {"n_bins": 5, "strategy": "uniform"}
    np.testing.assert_allclose(expected_calibration_error(y, P, **options), plain)
    np.testing.assert_allclose(squared_calibration_error(y, P, **options), squared)


def test_the_bias_of_the_calibration_error_is_as_its_notes_say():
    rng = np.random.default_rng(2)
    plain, squared = [], []
    for _ in range(400):
        p = rng.uniform(size=200)
        y = rng.uniform(size=200) < p
        plain.append(expected_calibration_error(y, p))
        squared.append(squared_calibration_error(y, p))
    assert abs(np.mean(plain) - 0.07) < 0.01
    # no bias: four standard errors
    assert abs(np.mean(squared)) < 4 * np.std(squared) / 20


def test_calibration_error_names_what_is_wrong():
    with pytest.raises(ValueError, match="n_bins must be at least 1"):
        expected_calibration_error([0, 1], [0.2, 0.4], n_bins=0)
    with pytest.raises(ValueError, match="strategy must be"):
        expected_calibration_error([0, 1], [0.2, 0.4], strategy="even")
    with pytest.raises(ValueError, match="no bin has two cases"):
        squared_calibration_error([0, 1], [0.2, 0.4], n_bins=2)
