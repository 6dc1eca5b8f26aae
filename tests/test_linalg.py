"""Each call against numpy's dense algebra, and the in-place promises."""

import numpy as np
import pytest

from gpclass import linalg
from gpclass.exceptions import NotPositiveDefiniteError


@pytest.fixture(params=[1, 2, 63, 64, 65, 200])
def spd(request):
    n = request.param
    A = np.random.default_rng(n).standard_normal((n, n))
    return A @ A.T / n + np.eye(n)


def test_cholesky_is_in_place_and_reads_the_lower_triangle(spd):
    A = spd.copy()
    A[np.triu_indices_from(A, 1)] = np.nan
    L = linalg.cholesky(A)
    assert L is A
    np.testing.assert_allclose(np.tril(L), np.linalg.cholesky(spd), rtol=1e-12, atol=1e-13)


def test_solves_inverse_and_determinant(spd):
    n = len(spd)
    L = linalg.cholesky(spd.copy())
    v = np.arange(1.0, n + 1)
    V = np.random.default_rng(0).standard_normal((n, 5))
    np.testing.assert_allclose(linalg.solve_factored(L, v), np.linalg.solve(spd, v), rtol=1e-9)
    np.testing.assert_allclose(
        linalg.solve_lower_columns_in_place(L, V.copy()),
        np.linalg.solve(np.linalg.cholesky(spd), V),
        rtol=1e-9,
        atol=1e-12,
    )
    np.testing.assert_allclose(
        linalg.log_det_factored(L), np.linalg.slogdet(spd)[1], rtol=1e-12, atol=1e-12
    )
    inverse = linalg.invert_factored_in_place(L.copy())
    linalg.mirror_lower(inverse)
    np.testing.assert_allclose(inverse, np.linalg.inv(spd), rtol=1e-8, atol=1e-12)


def test_products(spd):
    n = len(spd)
    rng = np.random.default_rng(1)
    u, v = rng.standard_normal(n), rng.standard_normal(n)
    np.testing.assert_allclose(linalg.symmetric_product(spd, v), spd @ v, rtol=1e-11, atol=1e-12)
    G = spd.copy()
    linalg.add_symmetric_outer(G, u, v, 0.5)
    want = spd + 0.5 * (np.outer(u, v) + np.outer(v, u))
    np.testing.assert_allclose(np.tril(G), np.tril(want), rtol=1e-11, atol=1e-12)
    scaled = linalg.scale_rows_and_columns(spd, v)
    np.testing.assert_allclose(np.tril(scaled), np.tril(v[:, None] * spd * v), rtol=1e-12)
    in_place = spd.copy()
    assert linalg.scale_rows_and_columns(in_place, v, out=in_place) is in_place
    np.testing.assert_array_equal(np.tril(in_place), np.tril(scaled))


def test_a_column_does_not_depend_on_its_neighbours():
    rng = np.random.default_rng(2)
    A = rng.standard_normal((300, 300))
    L = linalg.cholesky(A @ A.T + 300 * np.eye(300))
    V = rng.standard_normal((300, 512))
    whole = linalg.solve_lower_columns_in_place(L, V.copy())
    for width in (linalg.TILE, 5 * linalg.TILE, 256):
        parts = [
            linalg.solve_lower_columns_in_place(L, V[:, i : i + width].copy())
            for i in range(0, 480, width)
        ]
        joined = np.hstack(parts)
        np.testing.assert_array_equal(joined, whole[:, : joined.shape[1]])


@pytest.mark.parametrize(
    ("A", "words"),
    [
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "leading minor of order 2"),
        (np.array([[np.nan, 0.0], [0.0, 1.0]]), "not positive definite"),
    ],
)
def test_not_positive_definite_is_an_error_that_says_so(A, words):
    with pytest.raises(NotPositiveDefiniteError, match=words):
        linalg.cholesky(A.copy(), "B")


def test_solve_batch():
    rng = np.random.default_rng(3)
    A, b = rng.standard_normal((7, 3, 3)), rng.standard_normal((7, 3))
    np.testing.assert_allclose(np.einsum("mij,mj->mi", A, linalg.solve_batch(A, b)), b, atol=1e-10)
