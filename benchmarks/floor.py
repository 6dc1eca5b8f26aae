"""The floor: what any exact method must do once for an evidence and its gradient.

One Cholesky factorisation, one inverse from the factor, both by LAPACK in place, and one kernel
matrix as scikit-learn evaluates it. The floor does not depend on this library.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from benchmarks.problems import Array, Problem, learnt_kernel
from benchmarks.turns import Contestant

PARTS = ("dpotrf", "dpotri", "kernel")


def positive_definite(problem: Problem) -> Array:
    """``I + K / 4`` in Fortran order: what is factorised where every site precision is 1/4."""
    K = learnt_kernel(problem.X.shape[1])(problem.X)
    K *= 0.25
    K.flat[:: len(K) + 1] += 1.0
    return np.asfortranarray(K)


def floor_contestants(problem: Problem) -> list[Contestant]:
    """Return the three parts of the floor; each overwrites a fresh copy that is not timed."""
    kernel = learnt_kernel(problem.X.shape[1])
    B = positive_definite(problem)
    L, info = lapack.dpotrf(B, lower=1)
    assert info == 0

    def factorise(matrix: NDArray[np.float64]) -> None:
        lapack.dpotrf(matrix, lower=1, clean=0, overwrite_a=1)

    def invert(factor: NDArray[np.float64]) -> None:
        lapack.dpotri(factor, lower=1, overwrite_c=1)

    return [
        Contestant("dpotrf", factorise, lambda: B.copy(order="F")),
        Contestant("dpotri", invert, lambda: L.copy(order="F")),
        Contestant("kernel", lambda _: kernel(problem.X)),
    ]


def prediction_floor_contestants(problem: Problem, X_new: Array) -> list[Contestant]:
    """One triangular solve for every new row at once, and one kernel evaluation of that shape."""
    kernel = learnt_kernel(problem.X.shape[1])
    L, info = lapack.dpotrf(positive_definite(problem), lower=1)
    assert info == 0
    K_cross = np.asfortranarray(kernel(problem.X, X_new))

    def solve(right: NDArray[np.float64]) -> None:
        blas.dtrsm(1.0, L, right, lower=1, overwrite_b=1)

    return [
        Contestant("dtrsm", solve, lambda: K_cross.copy(order="F")),
        Contestant("kernel", lambda _: kernel(problem.X, X_new)),
    ]
