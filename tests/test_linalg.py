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


@pytest.mark.parametrize("n", [1, 96, 97, 300])
@pytest.mark.parametrize("transposed", [False, True])
def test_many_columns(n, transposed):
    rng = np.random.default_rng(2)
    L = rng.standard_normal((n, n)) / n + np.eye(n)
    V = rng.standard_normal((n, 33))
    lower = np.tril(L).T if transposed else np.tril(L)
    solved = linalg.solve_many_columns_in_place(L, V.copy(), transposed=transposed)
    np.testing.assert_allclose(lower @ solved, V, atol=1e-12)
    product = linalg.multiply_lower_columns_in_place(L, V.copy(), transposed=transposed)
    np.testing.assert_allclose(product, lower @ V, atol=1e-12)


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


def test_stacks_of_small_matrices():
    B = np.random.default_rng(4).standard_normal((5, 3, 3))
    A = B @ B.transpose(0, 2, 1) + np.eye(3)
    np.testing.assert_allclose(A @ linalg.solve_batch(A, B), B, atol=1e-10)
    L = linalg.cholesky_batch(A)
    np.testing.assert_allclose(L @ L.transpose(0, 2, 1), A, atol=1e-12)
    values, vectors = linalg.eigen_batch(A)
    assert (np.diff(values, axis=1) >= 0).all()
    np.testing.assert_allclose(
        vectors * values[:, None] @ vectors.transpose(0, 2, 1), A, atol=1e-12
    )


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 3, 2), (3, 7, 4), (4, 0, 2), (0, 3, 2)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_product_and_gram(shape, order):
    n, k, m = shape
    rng = np.random.default_rng(0)
    A = np.array(rng.standard_normal((n, k)), order=order)
    B = np.array(rng.standard_normal((k, m)), order=order)
    s = rng.standard_normal(n)
    AB, ATA = linalg.product(A, B), linalg.gram(A, s)
    assert AB.flags.c_contiguous
    assert ATA.flags.c_contiguous
    np.testing.assert_allclose(AB, A @ B, atol=1e-13)
    np.testing.assert_allclose(ATA, A.T @ (s[:, None] * A), atol=1e-13)


def test_tall_matrices():
    rng = np.random.default_rng(0)
    n, k, m = 2 * linalg.TALL + 7, 5, 3
    A, B = rng.standard_normal((n, k)), rng.standard_normal((n, m))
    s, v = rng.standard_normal((2, n))
    np.testing.assert_allclose(linalg.gram(A, s), A.T @ (s[:, None] * A), atol=1e-10)
    np.testing.assert_allclose(linalg.crossed(A, B), A.T @ B, atol=1e-10)
    np.testing.assert_allclose(linalg.times(A, v[:k]), A @ v[:k], atol=1e-12)
    np.testing.assert_allclose(linalg.times_transposed(A, v), A.T @ v, atol=1e-10)
    L = linalg.cholesky(np.eye(k) + A[:20].T @ A[:20])
    inverse = np.linalg.inv(np.tril(L))
    for transposed, want in ((False, A @ inverse.T), (True, A @ inverse)):
        found = linalg.solve_lower_rows_in_place(L, A.copy(), transposed=transposed)
        np.testing.assert_allclose(found, want, atol=1e-12)


def test_eigenvectors():
    A = np.cov(np.random.default_rng(0).standard_normal((6, 9)))
    kept = A.copy()
    values, vectors = linalg.symmetric_eigen(A)
    assert (np.diff(values) > 0).all()
    np.testing.assert_allclose(vectors * values @ vectors.T, A, atol=1e-13)
    np.testing.assert_array_equal(A, kept)


def test_passes_over_triangles(spd):
    n = len(spd)
    rng = np.random.default_rng(5)
    B, s = rng.standard_normal((n, n)), rng.standard_normal(n)
    B += B.T
    lower = np.tril(np.ones((n, n), dtype=bool))
    only_lower = np.where(lower, B, np.nan)
    np.testing.assert_allclose(
        linalg.row_sums_of_product(spd, only_lower, s), (spd * B) @ s, atol=1e-9
    )
    np.testing.assert_allclose(linalg.symmetric_product(B.copy(), s, upper=True), B @ s, atol=1e-10)
    squares = B.copy()
    linalg.square_lower_into_upper(squares)
    np.testing.assert_array_equal(squares, np.tril(B, -1) + np.triu(B**2, 1))
    total, stored = spd.copy(), spd.copy()
    linalg.add_lower_and_store_above(only_lower, total, stored)
    np.testing.assert_allclose(np.tril(total), np.tril(spd + B))
    np.testing.assert_array_equal(stored, np.tril(spd) + np.triu(B, 1))


@pytest.mark.parametrize("negative", [0, 1, 3])
def test_factored_matrices_definite_or_not(negative):
    rng = np.random.default_rng(6)
    n = 6
    B = rng.standard_normal((n, n))
    M = B @ B.T + np.eye(n)
    positive = np.ones(n, dtype=bool)
    positive[1 : 1 + negative] = False
    # minus a positive definite block where not positive; the blocks between stay
    M[np.ix_(~positive, ~positive)] *= -1.0
    if negative:
        found = linalg.QuasiDefinite.of(M.copy(), positive, "M")
    else:
        found = linalg.Definite.of(M.copy(), "M")
    inverse = np.linalg.inv(M)
    assert found.log_det == pytest.approx(np.linalg.slogdet(M)[1])
    np.testing.assert_allclose(found.solve(B[0]), inverse @ B[0], atol=1e-10)
    np.testing.assert_allclose(np.tril(found.inverse()), np.tril(inverse), atol=1e-10)
    quadratic = B.T @ inverse @ B
    np.testing.assert_allclose(found.quadratic_in_place(B.copy()), np.diag(quadratic), atol=1e-9)
    A = np.zeros((n, n))
    found.subtract_quadratic(A, B.copy())
    np.testing.assert_allclose(np.tril(A), np.tril(-quadratic), atol=1e-9)
