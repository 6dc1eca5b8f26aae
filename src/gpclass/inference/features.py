"""Features of blocks of rows in the basis of inducing points."""

from typing import Any, NamedTuple

import numpy as np

from gpclass import linalg
from gpclass.blocks import Block
from gpclass.kernels import rectangle
from gpclass.linalg import Array
from gpclass.priors.basis import Basis


class Features(NamedTuple):
    """A block in a basis: features U (m, b) and the remainder's variances delta (b,)."""

    X: Any
    U: Array
    delta: Array
    y: Any
    weights: Array

    def of(self, rows: slice) -> "Features":
        """Those of some of the rows."""
        U = np.ascontiguousarray(self.U[:, rows])
        return Features(self.X[rows], U, self.delta[rows], self.y[rows], self.weights[rows])


def features(block: Block, basis: Basis) -> Features:
    """Features of a block of rows."""
    with np.errstate(over="ignore", invalid="ignore"):
        U = rectangle(basis.kernel, basis.Z, block.X)
        linalg.solve_many_columns_in_place(basis.L, U)
        delta = basis.left(block.X, np.einsum("ij,ij->j", U, U))
    return Features(block.X, U, delta, block.y, block.weights)
