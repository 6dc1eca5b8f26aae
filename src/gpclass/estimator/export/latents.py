"""Means and variances of latents as ONNX nodes."""

from itertools import combinations
from typing import Any

import numpy as np

from gpclass.estimator.export.graph import Array, Graph
from gpclass.estimator.export.integrals import Latents
from gpclass.estimator.export.kernels import cross_nodes, diagonal_nodes
from gpclass.estimator.slopes import explained_precision, explained_precisions
from gpclass.priors.coupled import CoupledFactor


def binary_nodes(graph: Graph, problem: Any, posterior: Any, Z: str) -> tuple[str, str]:
    """Mean and variance of the latent at new rows, each (m, 1) (RW06 eq. 3.21 and 3.24)."""
    X = np.asarray(problem.points)
    K = cross_nodes(graph, problem.kernel, X, Z)
    mean = graph.op("MatMul", K, posterior.new_weights[:, None])
    prior = diagonal_nodes(graph, problem.kernel, X, Z)
    return mean, _left(graph, prior, K, explained_precision(posterior))


def class_nodes(graph: Graph, problem: Any, posterior: Any, Z: str) -> Latents:
    """Means of the classes' latents at new rows, and variances of their differences."""
    X, C = np.asarray(problem.points), problem.n_classes
    n = len(X)
    made = [cross_nodes(graph, kernel, X, Z) for kernel in problem.kernels]
    own = [diagonal_nodes(graph, kernel, X, Z) for kernel in problem.kernels]
    shared = len(made) == 1
    crosses, variances = (made * C, own * C) if shared else (made, own)
    means = [
        graph.op("MatMul", K, weights[:, None])
        for K, weights in zip(crosses, posterior.mean_weights.T, strict=True)
    ]
    F = explained_precisions(posterior)
    found = {}
    for c, j in combinations(range(C), 2):
        prior = graph.op("Add", variances[c], variances[j])
        if shared:
            between = F[:, c, :, c] + F[:, j, :, j] - F[:, c, :, j] - F[:, j, :, c]
            found[c, j] = _left(graph, prior, crosses[0], between)
        else:
            both = graph.op("Concat", crosses[c], graph.op("Neg", crosses[j]), axis=1)
            pair = F[:, [c, j]][:, :, :, [c, j]].transpose(1, 0, 3, 2).reshape(2 * n, 2 * n)
            found[c, j] = _left(graph, prior, both, pair)
    alone: list[str] = []
    factor = getattr(posterior, "factor", None)
    if C > 3 and isinstance(factor, CoupledFactor):
        for c, E_c in enumerate(factor.own_precisions()):
            alone.append(_left(graph, variances[c], crosses[c], E_c))
    return Latents(means, found, alone)


def _left(graph: Graph, prior: str, K: str, R: Array) -> str:
    """``prior - k^T R k`` of each row k of K, at least 0, (m, 1)."""
    reduced = graph.inner(graph.op("MatMul", K, R), K)
    return graph.op("Max", graph.op("Sub", prior, reduced), 0.0)
