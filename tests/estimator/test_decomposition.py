"""Splits of many classes into binary problems, and the probabilities put together."""

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from gpclass.estimator.decomposition import DECOMPOSITIONS, OneVsOne, OneVsRest

CODES = np.array([2, 0, 1, 1, 2, 0, 0])
CLASSES = np.array(["ant", "bee", "cat"])


def log_pairs(p_plus):
    p_plus = np.asarray(p_plus, dtype=float)
    with np.errstate(divide="ignore"):
        return np.stack([np.log1p(-p_plus), np.log(p_plus)], axis=-1)


def pairwise(rng, m, n_classes, sharpness=1.0):
    """Random P(j | i or j) of m rows for the pairs i < j."""
    k = n_classes * (n_classes - 1) // 2
    return 1 / (1 + np.exp(-sharpness * rng.standard_normal((m, k))))


def wu_lin_weng_objective(p, p_plus):
    n_classes = len(p)
    total = 0.0
    for k, (i, j) in enumerate(combinations(range(n_classes), 2)):
        # (r_ji p_i - r_ij p_j)^2, which is symmetric in i and j
        total += 2 * (p_plus[k] * p[i] - (1 - p_plus[k]) * p[j]) ** 2
    return total


def test_one_vs_rest_splits():
    problems = OneVsRest().split(CODES, CLASSES)
    assert len(problems) == 3
    for c, problem in enumerate(problems):
        assert problem.rows is None
        np.testing.assert_array_equal(problem.y, np.where(c == CODES, 1.0, -1.0))
        assert CLASSES[c] in problem.name


def test_one_vs_one_splits():
    problems = OneVsOne().split(CODES, CLASSES)
    assert len(problems) == 3
    for (i, j), problem in zip(combinations(range(3), 2), problems, strict=True):
        assert set(CODES[problem.rows]) == {i, j}
        assert len(problem.rows) == np.isin(CODES, (i, j)).sum()
        np.testing.assert_array_equal(problem.y, np.where(CODES[problem.rows] == j, 1.0, -1.0))
        assert CLASSES[i] in problem.name
        assert CLASSES[j] in problem.name


@pytest.mark.parametrize("decomposition", DECOMPOSITIONS.values())
def test_two_classes_are_one_problem(decomposition):
    codes = np.array([0, 1, 1])
    (problem,) = decomposition().split(codes, CLASSES[:2])
    np.testing.assert_array_equal(problem.y, [-1, 1, 1])
    assert problem.rows is None
    pairs = log_pairs([[0.2], [0.9]])
    P = decomposition().combine(pairs, 2)
    np.testing.assert_allclose(P, [[0.8, 0.2], [0.1, 0.9]], rtol=1e-14)


def test_one_vs_rest_normalises():
    p = np.array([[0.2, 0.3, 0.1], [0.9, 0.9, 0.9]])
    P = OneVsRest().combine(log_pairs(p), 3)
    np.testing.assert_allclose(P, p / p.sum(axis=1, keepdims=True), rtol=1e-14)


def test_one_vs_rest_keeps_ratios_below_the_smallest_number():
    log_p = np.array([[-2000.0, -2001.0, -3000.0]])
    P = OneVsRest().combine(np.stack([np.zeros_like(log_p), log_p], axis=-1), 3)
    np.testing.assert_allclose(P[0, :2], [1 / (1 + np.exp(-1)), 1 / (1 + np.e)], rtol=1e-12)
    assert P[0, 2] == 0


@pytest.mark.parametrize("n_classes", [3, 4, 7])
@pytest.mark.parametrize("sharpness", [0.3, 1.0, 4.0])
def test_coupling_minimises_over_the_simplex(n_classes, sharpness):
    rng = np.random.default_rng(n_classes)
    p_plus = pairwise(rng, 3, n_classes, sharpness)
    P = OneVsOne().combine(log_pairs(p_plus), n_classes)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-14)
    for p, r in zip(P, p_plus, strict=True):
        found = minimize(
            wu_lin_weng_objective,
            np.full(n_classes, 1 / n_classes),
            args=(r,),
            method="SLSQP",
            bounds=[(0, 1)] * n_classes,
            constraints={"type": "eq", "fun": lambda q: q.sum() - 1},
            options={"ftol": 1e-15, "maxiter": 500},
        )
        np.testing.assert_allclose(p, found.x, atol=1e-6)
        assert wu_lin_weng_objective(p, r) <= found.fun + 1e-14


@pytest.mark.parametrize("n_classes", [3, 5])
def test_coupling_recovers_probabilities_that_agree_with_every_pair(n_classes):
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.ones(n_classes), size=20)
    pairs = combinations(range(n_classes), 2)
    p_plus = np.stack([truth[:, j] / (truth[:, i] + truth[:, j]) for i, j in pairs], axis=1)
    P = OneVsOne().combine(log_pairs(p_plus), n_classes)
    np.testing.assert_allclose(P, truth, rtol=1e-9)


@pytest.mark.parametrize("decomposition", DECOMPOSITIONS.values())
@pytest.mark.parametrize("n_classes", [3, 4, 6])
def test_certain_binary_probabilities_give_finite_class_probabilities(decomposition, n_classes):
    rng = np.random.default_rng(1)
    k = n_classes if decomposition is OneVsRest else n_classes * (n_classes - 1) // 2
    p_plus = rng.choice([1e-300, 1e-20, 1e-9, 0.5, 1 - 1e-9, 1 - 1e-16], size=(200, k))
    P = decomposition().combine(log_pairs(p_plus), n_classes)
    assert np.isfinite(P).all()
    assert (P >= 0).all()
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-13)


def test_coupling_of_probabilities_zero_and_one():
    """Class 0 loses to all, class 2 beats all."""
    pairs = np.zeros((1, 3, 2))
    pairs[:, :, 0] = -np.inf
    P = OneVsOne().combine(pairs, 3)
    np.testing.assert_allclose(P, [[0, 0, 1]], atol=1e-10)


def test_the_largest_probability_belongs_to_a_class_that_beats_the_others():
    rng = np.random.default_rng(3)
    p_plus = pairwise(rng, 500, 4, 2.0)
    P = OneVsOne().combine(log_pairs(p_plus), 4)
    beats = np.ones((500, 4), dtype=bool)
    for k, (i, j) in enumerate(combinations(range(4), 2)):
        beats[:, i] &= p_plus[:, k] < 0.5
        beats[:, j] &= p_plus[:, k] > 0.5
    rows = beats.any(axis=1)
    assert rows.sum() > 100
    # Wu, Lin & Weng promise no such law, but a breach should be rare
    assert (P[rows].argmax(axis=1) == beats[rows].argmax(axis=1)).mean() > 0.9


@pytest.mark.parametrize("decomposition", DECOMPOSITIONS.values())
def test_a_row_does_not_depend_on_the_others(decomposition):
    rng = np.random.default_rng(4)
    k = 4 if decomposition is OneVsRest else 6
    pairs = log_pairs(rng.uniform(size=(50, k)))
    together = decomposition().combine(pairs, 4)
    alone = np.vstack([decomposition().combine(pairs[i : i + 1], 4) for i in range(50)])
    assert together.tobytes() == alone.tobytes()


def test_classes_may_be_in_any_order():
    rng = np.random.default_rng(5)
    p = np.zeros((6, 4, 4))
    for i, j in combinations(range(4), 2):
        p[:, j, i] = rng.uniform(size=6)
        p[:, i, j] = 1 - p[:, j, i]
    order = np.array([2, 0, 3, 1])

    def couple(r):
        plus = np.stack([r[:, j, i] for i, j in combinations(range(4), 2)], axis=1)
        return OneVsOne().combine(log_pairs(plus), 4)

    np.testing.assert_allclose(couple(p)[:, order], couple(p[:, order][:, :, order]), rtol=1e-10)
