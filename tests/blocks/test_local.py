"""Sums over blocks in memory: by a fixed tree, derived blocks held or not, samples of rows."""

import numpy as np
import pytest

from gpclass.blocks import LocalBlocks
from gpclass.blocks.base import ARITY, add, tree_sum


def rows(size, n=103, budget=1e9):
    rng = np.random.default_rng(0)
    return LocalBlocks(
        rng.normal(size=(n, 3)), rng.choice([-1.0, 1.0], n), np.ones(n), size, budget
    )


def moments(block, shift):
    X = block.X - shift
    return X.T @ (X * block.weights[:, None]), X.sum(axis=0), float(block.y.sum())


def by_levels(parts):
    """The tree as a cluster builds it, level by level."""
    while len(parts) > 1:
        parts = [add(*parts[i : i + ARITY]) for i in range(0, len(parts), ARITY)]
    return parts[0]


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 63, 64, 65, 71, 72, 512, 513, 600])
def test_the_tree_is_the_same_one_by_one_and_level_by_level(n):
    parts = [(x, np.array([x, 1.0])) for x in np.random.default_rng(n).normal(size=n)]
    one_by_one, levels = tree_sum(iter(parts)), by_levels(parts)
    assert one_by_one[0] == levels[0]
    np.testing.assert_array_equal(one_by_one[1], levels[1])
    np.testing.assert_allclose(one_by_one[0], sum(p[0] for p in parts), rtol=1e-12)
    assert one_by_one[1][1] == n


@pytest.mark.parametrize("size", [1, 10, 103, 1000])
def test_a_sum_over_blocks_is_that_over_rows(size):
    found = rows(size).reduce(moments, 0.5)
    whole = rows(1000).reduce(moments, 0.5)
    for a, b in zip(found, whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    assert rows(size).n_rows == sum(rows(size).sizes) == 103


def test_a_sum_leaves_what_the_function_returned_as_it_was():
    held = np.ones(2)
    total = rows(10).reduce(lambda block: (held,))[0]
    np.testing.assert_array_equal(total, [11.0, 11.0])
    np.testing.assert_array_equal(held, [1.0, 1.0])


@pytest.mark.parametrize("budget", [0.0, 1e9])
def test_derived_blocks_are_held_where_they_fit(budget):
    calls = []

    def squares(block, power):
        calls.append(len(block.y))
        return block.X**power

    derived = rows(25, budget=budget).derive(squares, 2, n_bytes=103 * 3 * 8)
    first, second = (derived.reduce(lambda X: (X.sum(axis=0),)) for _ in range(2))
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[0], rows(25).reduce(lambda b: ((b.X**2).sum(axis=0),))[0])
    assert len(calls) == 5 * (1 if budget else 2)
    again = derived.derive(np.sqrt, n_bytes=1.0).reduce(lambda X: (X.sum(),))
    np.testing.assert_allclose(again[0], np.abs(rows(25).reduce(lambda b: (np.abs(b.X).sum(),))[0]))
    np.testing.assert_array_equal(derived.sample(9, 1).X, rows(25).sample(9, 1).X)


def test_a_sample_does_not_depend_on_the_blocks():
    drawn = [rows(size).sample(20, seed=3) for size in (1, 7, 103)]
    for other in drawn[1:]:
        for a, b in zip(drawn[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    assert len(np.unique(drawn[0].X, axis=0)) == 20
    assert not np.array_equal(drawn[0].X, rows(7).sample(20, seed=4).X)
    np.testing.assert_array_equal(rows(7).sample(500, 0).X, rows(7).take(np.arange(103)).X)


def test_inputs_may_be_objects():
    words = ["a", "bb", "ccc", "d"]
    blocks = LocalBlocks(words, np.ones(4), np.ones(4), size=3)
    assert blocks.reduce(lambda block: (sum(map(len, block.X)),)) == (7,)
    assert blocks.take(np.array([0, 2])).X == ["a", "ccc"]


@pytest.mark.parametrize("lengths", [(0, 0, 0), (3, 2, 3), (3, 3, 2)])
def test_lengths_that_differ_are_refused(lengths):
    n, k, w = lengths
    with pytest.raises(ValueError, match=f"X has {n} rows, y {k} and weights {w}"):
        LocalBlocks(np.zeros((n, 2)), np.zeros(k), np.zeros(w))
