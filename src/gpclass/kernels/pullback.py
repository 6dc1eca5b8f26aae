"""Gradients by kernel hyperparameters without the tensor of dK/dtheta."""

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from gpclass.kernels.evaluate import quiet
from gpclass.kernels.tiles import bind, lower_tiles, read_inputs
from gpclass.linalg import Array


def pullback(kernel: Kernel, X: Any, G: Array, K: Array | None = None) -> Array:
    """Gradient of ``sum_ij G_ij K_ij(theta)`` by the kernel's free log-hyperparameters.

    With ``G = dlogZ/dK`` this is the gradient of the evidence by theta (RW06 eq. 5.9 for
    regression), in O(n^2 d): for kernels with a differentiable logarithm, one matrix product
    serves all length-scales, ``sum_ij M_ij (x_ik - x_jk)^2 = 2 (sum_i x_ik^2 r_i - x_k' M x_k)``
    with ``M = G o K`` and ``r = M 1``.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Classes without a rule (see `gpclass.kernels.tiles.binds`) are differentiated by their
        own ``eval_gradient=True``, in O(n^2 n_theta) memory.
    X : array-like of shape (n, d) or sequence of n objects
    G : ndarray of shape (n, n)
        Symmetric; only the lower triangle and the diagonal blocks are read.
    K : ndarray of shape (n, n), optional
        ``evaluate(kernel, X)`` where it is at hand; saves evaluating it again.

    Returns
    -------
    ndarray of shape (n_theta,)
        In the order of ``kernel.theta``; fixed hyperparameters are not in it.

    Raises
    ------
    ValueError
        If G or K is not of shape (n, n), or the kernel is a CompoundKernel.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from gpclass.kernels import pullback
    >>> X = np.array([[0.0, 0.0], [1.0, 2.0]])
    >>> kernel = 1.5 * RBF([1.0, 2.0])
    >>> G = np.array([[1.0, 0.5], [0.5, -1.0]])
    >>> pullback(kernel, X, G).round(4)
    array([0.5518, 0.5518, 0.5518])
    >>> np.einsum("ij,ijk->k", G, kernel(X, eval_gradient=True)[1]).round(4)
    array([0.5518, 0.5518, 0.5518])
    """
    X = read_inputs(kernel, X)
    n = len(X)
    G = _square(G, n, "G")
    K = None if K is None else _square(K, n, "K")
    with quiet():
        bound = bind(kernel, X)
        gradient = np.zeros(bound.n_theta)
        if bound.n_theta == 0:
            return gradient
        for rows, cols in lower_tiles(n):
            value = None if K is None else K[rows, cols]
            pulled = bound.pull(rows, cols, np.ascontiguousarray(G[rows, cols]), value)
            # a tile below the diagonal stands for its mirror image too
            gradient += pulled if rows == cols else 2.0 * pulled
    return gradient


def _square(A: Array, n: int, name: str) -> Array:
    A = np.asarray(A, dtype=np.float64)
    if A.shape != (n, n):
        raise ValueError(f"{name} has shape {A.shape}, expected {(n, n)} for {n} inputs")
    # symmetric: the transpose is the same matrix, read along its rows
    return A.T if A.flags.f_contiguous else A
