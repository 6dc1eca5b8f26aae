"""The products and the decomposition that drawing needs, against numpy's."""

import numpy as np
import pytest

from gpclass import linalg


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


def test_eigenvectors():
    A = np.cov(np.random.default_rng(0).standard_normal((6, 9)))
    kept = A.copy()
    values, vectors = linalg.symmetric_eigen(A)
    assert (np.diff(values) > 0).all()
    np.testing.assert_allclose(vectors * values @ vectors.T, A, atol=1e-13)
    np.testing.assert_array_equal(A, kept)
