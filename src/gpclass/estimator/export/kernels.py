"""Covariances of new rows as ONNX nodes."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    Matern,
    Product,
    Sum,
    WhiteKernel,
)

from gpclass.estimator.export.graph import Array, Graph
from gpclass.kernels import ColumnKernel
from gpclass.kernels.selection import pick

# Of a kernel that is not composed of others, from the graph, the training rows and the new ones.
Simple = Callable[[Graph, Any, Array, str], str]


def cross_nodes(graph: Graph, kernel: Any, X: Array, Z: str) -> str:
    """Covariances of new rows and training rows, (m, n) or (1, 1)."""
    return _composed(graph, kernel, X, Z, _cross)


def diagonal_nodes(graph: Graph, kernel: Any, X: Array, Z: str) -> str:
    """Prior variances of new rows, (m, 1) or (1, 1), of a kernel that `cross_nodes` knows."""
    return _composed(graph, kernel, X, Z, _diagonal)


def _composed(graph: Graph, kernel: Any, X: Array, Z: str, simple: Simple) -> str:
    """Sums, products, powers and columns of what ``simple`` gives for their parts."""
    if isinstance(kernel, Sum | Product):
        parts = [_composed(graph, part, X, Z, simple) for part in (kernel.k1, kernel.k2)]
        return graph.op("Add" if isinstance(kernel, Sum) else "Mul", *parts)
    if isinstance(kernel, Exponentiation):
        base = _composed(graph, kernel.kernel, X, Z, simple)
        return graph.op("Pow", base, float(kernel.exponent))
    if isinstance(kernel, ColumnKernel):
        columns = pick(kernel.columns, kernel.positions, X.shape[1])
        chosen = graph.op("Gather", Z, columns.astype(np.int64), axis=1)
        return _composed(graph, kernel.spread, kernel.chosen(X), chosen, simple)
    if isinstance(kernel, ConstantKernel):
        return graph.constant(float(kernel.constant_value))
    return simple(graph, kernel, X, Z)


def _cross(graph: Graph, kernel: Any, X: Array, Z: str) -> str:
    if isinstance(kernel, WhiteKernel):
        return graph.constant(0.0)
    if isinstance(kernel, DotProduct):
        return graph.op("Add", graph.op("MatMul", Z, X.T), float(kernel.sigma_0) ** 2)
    if type(kernel) in (RBF, Matern):
        return _radial(graph, kernel, X, Z)
    raise ValueError(f"ONNX export does not know the kernel {kernel}")


def _diagonal(graph: Graph, kernel: Any, X: Array, Z: str) -> str:
    if isinstance(kernel, DotProduct):
        return graph.op("Add", graph.inner(Z, Z), float(kernel.sigma_0) ** 2)
    return graph.constant(float(kernel.noise_level) if isinstance(kernel, WhiteKernel) else 1.0)


def _radial(graph: Graph, kernel: Any, X: Array, Z: str) -> str:
    """An RBF or a Matern by ``r^2 = |x|^2 + |z|^2 - 2 x'z``, about the centre of the rows."""
    nu = kernel.nu if isinstance(kernel, Matern) else math.inf
    if nu not in (0.5, 1.5, 2.5, math.inf):
        raise ValueError(f"ONNX export knows Matern kernels of nu 1/2, 3/2 and 5/2, not {nu}")
    centre = X.mean(axis=0)
    scale = np.broadcast_to(np.asarray(kernel.length_scale, dtype=np.float64), centre.shape)
    U = (X - centre) / scale
    W = graph.op("Div", graph.op("Sub", Z, centre), scale)
    both = graph.op("Add", graph.inner(W, W), (U * U).sum(axis=1)[None])
    r2 = graph.op("Max", graph.op("Add", both, graph.op("MatMul", W, -2.0 * U.T)), 0.0)
    if nu == math.inf:
        return graph.op("Exp", graph.op("Mul", r2, -0.5))
    s = graph.op("Sqrt", graph.op("Mul", r2, 2.0 * nu))
    decay = graph.op("Exp", graph.op("Neg", s))
    if nu == 0.5:
        return decay
    polynomial = graph.op("Add", s, 1.0)
    if nu == 2.5:
        polynomial = graph.op("Add", polynomial, graph.op("Mul", graph.square(s), 1.0 / 3.0))
    return graph.op("Mul", polynomial, decay)
