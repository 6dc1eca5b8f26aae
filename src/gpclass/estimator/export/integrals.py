"""Class probabilities of Gaussian latents as ONNX nodes."""

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from scipy.stats import kstwobign

from gpclass.estimator.export.graph import Array, Graph
from gpclass.likelihoods import Likelihood, Logit, NoisyThreshold, Probit
from gpclass.likelihoods.probabilities.lattice import COARSEST, SPACING, lattice
from gpclass.likelihoods.probabilities.noise import GUMBEL_VARIANCE
from gpclass.likelihoods.probabilities.points import normals
from gpclass.likelihoods.probabilities.three import PAIRS

# Nodes of Owen's T where the second argument is at most one, and of the logistic as a mixture.
OWEN_NODES: Final = 16
LOGISTIC_NODES: Final = 32
# The finest lattice, of 16,000 points: for deviations up to 13, and more with less exactness.
FINEST: Final = 0.08
# Variance of the contrasts up to which it is used, in units of what it is made for.
LATTICE_SLACK: Final = 2.0
# Least pivot of a Cholesky factor, in units of the variance of its latent.
PIVOT: Final = 1e-10

# Noise that latents without any are given, and what the means of classes in a tie are apart, as in
# `largest_of_three`: onnxruntime leaves out what it adds where it is zero in float32.
LEAST: Final = 1e-20
APART: Final = 1e-30


class Latents(NamedTuple):
    """Means of C classes, variances of differences of two, and of each class alone, (m, 1) each."""

    means: list[str]
    variances: dict[tuple[int, int], str]  # c < j
    own: list[str]  # part of these; empty where none is known

    def gap(self, graph: Graph, c: int, j: int) -> str:
        """Mean of ``f_c - f_j``."""
        return graph.op("Sub", self.means[c], self.means[j])

    def variance(self, c: int, j: int) -> str:
        """Variance of ``f_c - f_j``."""
        return self.variances[min(c, j), max(c, j)]

    def covariance(self, graph: Graph, c: int, j: int, k: int) -> str:
        """Covariance of ``f_c - f_j`` and ``f_c - f_k``."""
        both = graph.op("Add", self.variance(c, j), self.variance(c, k))
        return graph.op("Mul", graph.op("Sub", both, self.variance(j, k)), 0.5)


def positive_nodes(graph: Graph, likelihood: Likelihood, mean: str, variance: str) -> str:
    """P(+1) of a binary likelihood, (m, 1); ValueError for one that is not known here."""
    if isinstance(likelihood, Probit):
        deviation = graph.op("Sqrt", graph.op("Add", variance, 1.0))
        return graph.normal_cdf(graph.op("Div", mean, deviation))
    if isinstance(likelihood, NoisyThreshold):
        deviation = graph.op("Sqrt", graph.op("Max", variance, LEAST))
        positive = graph.normal_cdf(graph.op("Div", mean, deviation))
        share = graph.op("Mul", positive, 1.0 - 2.0 * float(likelihood.epsilon))
        return graph.op("Add", share, float(likelihood.epsilon))
    if isinstance(likelihood, Logit):
        slopes, weights = logistic_mixture()
        spread = graph.op("Add", graph.op("MatMul", variance, slopes[None] ** 2), 1.0)
        scaled = graph.op("MatMul", mean, slopes[None])
        positive = graph.normal_cdf(graph.op("Div", scaled, graph.op("Sqrt", spread)))
        return graph.op("MatMul", positive, weights[:, None])
    raise ValueError(
        f"ONNX export knows the probit, the logit and the noisy threshold, and not {likelihood!r}"
    )


@lru_cache(maxsize=1)
def logistic_mixture() -> tuple[Array, Array]:
    """Slopes s and weights w with ``1 / (1 + exp(-f)) = sum_k w_k Phi(s_k f)``, to 1e-9.

    Logistic noise is normal noise of deviation 2 K, K with the distribution of Kolmogorov.

    References
    ----------
    Andrews & Mallows (1974), Scale mixtures of normal distributions, J. R. Stat. Soc. B 36.
    """
    at = np.exp(np.linspace(np.log(0.18), np.log(3.6), LOGISTIC_NODES))
    weights = kstwobign.pdf(at) * at
    return 0.5 / at, weights / weights.sum()


def largest_of_three_nodes(graph: Graph, latents: Latents, noise: float) -> list[str]:
    """`largest_of_three` with noise added to each class, (m, 1) each."""
    least = 2.0 * (noise + LEAST)
    noisy = {pair: graph.op("Add", v, least) for pair, v in latents.variances.items()}
    latents = latents._replace(variances=noisy)
    parts: list[list[str]] = [[], [], []]
    ahead: list[list[str]] = [[], [], []]
    for c, j, k in PAIRS:
        d = graph.op("Add", latents.gap(graph, c, j), APART * (j - c))
        other = graph.op("Add", latents.gap(graph, c, k), APART * (k - c))
        v, u = latents.variance(c, j), latents.variance(c, k)
        w = latents.covariance(graph, c, j, k)
        det = graph.op(
            "Max", graph.op("Sub", graph.op("Mul", v, u), graph.square(w)), 3.0 * LEAST**2
        )
        scale = graph.op("Sqrt", graph.op("Mul", v, det))
        place = graph.op("Sub", graph.op("Mul", other, v), graph.op("Mul", w, d))
        h = graph.op("Div", d, graph.op("Sqrt", v))
        q = graph.op("Div", place, scale)
        below = graph.op("Less", h, 0.0)
        side = graph.op("Where", below, -1.0, 1.0)
        t = graph.op("Mul", owens_t_nodes(graph, h, q), side)
        half = graph.op("Mul", graph.normal_cdf(h), 0.5)
        first = graph.op("Sub", half, t)
        parts[c].append(first)
        parts[j].append(graph.op("Sub", 0.5, first))
        ahead[c].append(graph.op("Where", below, 0.0, 1.0))
        ahead[j].append(graph.op("Where", below, 1.0, 0.0))
    found = []
    for share, count in zip(parts, ahead, strict=True):
        # one half where it is ahead of one of the two
        one = graph.op("Sub", *count)
        excess = graph.op("Sub", graph.total(share), graph.op("Mul", graph.square(one), 0.5))
        found.append(graph.op("Max", excess, 0.0))
    return found


def owens_t_nodes(graph: Graph, h: str, q: str) -> str:
    """Owen's ``T(|h|, q / |h|)``, by the smaller of both over the larger.

    ``T(h, a) = int_0^a exp(-h^2 (1 + x^2) / 2) / (1 + x^2) dx / (2 pi)``, and for positive h and q
    ``T(h, q / h) + T(q, h / q) = (Phi(h) + Phi(q)) / 2 - Phi(h) Phi(q)``.
    """
    nodes, weights = np.polynomial.legendre.leggauss(OWEN_NODES)
    nodes, weights = 0.5 * (nodes[None] + 1.0), weights[:, None] / (4.0 * np.pi)
    h, magnitude = graph.op("Abs", h), graph.op("Abs", q)
    small = graph.op("Min", h, magnitude)
    large = graph.op("Max", graph.op("Max", h, magnitude), 1e-300)
    a = graph.op("Div", small, large)
    x2 = graph.op("MatMul", graph.square(a), nodes**2)
    exponent = graph.op("Mul", graph.square(large), graph.op("Add", x2, 1.0))
    decay = graph.op("Exp", graph.op("Mul", exponent, -0.5))
    integrand = graph.op("Div", decay, graph.op("Add", x2, 1.0))
    t = graph.op("Mul", graph.op("MatMul", integrand, weights), a)
    p, r = graph.normal_cdf(h), graph.normal_cdf(magnitude)
    mean = graph.op("Mul", graph.op("Add", p, r), 0.5)
    turned = graph.op("Sub", graph.op("Sub", mean, graph.op("Mul", p, r)), t)
    t = graph.op("Where", graph.op("Less", h, magnitude), turned, t)
    return graph.op("Where", graph.op("Less", q, 0.0), graph.op("Neg", t), t)


def softmax_nodes(graph: Graph, latents: Latents, deviation: float, n_points: int) -> list[str]:
    """E[softmax], (m, 1) each: by a lattice for three classes, else by points.

    ``deviation`` is that of the latents at the training rows. Three latents that vary by more than
    the lattice resolves have normal noise of the same variance in the place of the softmax's: where
    they vary as much this changes less than 1e-4.
    """
    C = len(latents.means)
    if C > 3:
        return _softmax_at(graph, latents, normals(C - 1, 0, n_points), np.ones(n_points))
    spacing = max(FINEST, min(COARSEST, SPACING / deviation))
    near = _softmax_at(graph, latents, *lattice(2, spacing))
    far = largest_of_three_nodes(graph, latents, GUMBEL_VARIANCE)
    # the contrasts' variances sum to this
    total = graph.op("Mul", graph.total(list(latents.variances.values())), 1.0 / 3.0)
    wide = graph.op("Less", (SPACING / spacing) ** 2 * LATTICE_SLACK, total)
    return [graph.op("Where", wide, b, a) for a, b in zip(near, far, strict=True)]


def _softmax_at(graph: Graph, latents: Latents, Z: Array, weights: Array) -> list[str]:
    F = _at_points(graph, latents, latents.variances, Z)
    top = graph.op("Max", *F)
    E = [graph.op("Exp", graph.op("Sub", f, top)) for f in F]
    total = graph.total(E)
    column = (weights / weights.sum())[:, None]
    return [graph.op("MatMul", graph.op("Div", e, total), column) for e in E]


def argmax_nodes(graph: Graph, latents: Latents, noise: float, n_points: int) -> list[str]:
    """P(the largest with noise), (m, 1) each: in closed form for three classes, else by points."""
    C = len(latents.means)
    if C == 3:
        return largest_of_three_nodes(graph, latents, noise)
    own = latents.own or [graph.constant(0.0)] * C
    rest = {
        (c, j): graph.op("Sub", graph.op("Sub", v, own[c]), own[j])
        for (c, j), v in latents.variances.items()
    }
    deviations = [graph.op("Sqrt", graph.op("Add", v, noise)) for v in own]
    # what the class has alone is one more normal variable; that of the others is integrated
    Z = normals(C, 0, n_points)
    F = _at_points(graph, latents, rest, Z[1:])
    found = []
    for c in range(C):
        up = graph.op("Add", F[c], graph.op("MatMul", deviations[c], Z[:1]))
        ahead = [
            graph.normal_cdf(graph.op("Div", graph.op("Sub", up, F[j]), deviations[j]))
            for j in range(C)
            if j != c
        ]
        product = ahead[0]
        for p in ahead[1:]:
            product = graph.op("Mul", product, p)
        found.append(graph.op("MatMul", product, np.full((n_points, 1), 1.0 / n_points)))
    return found


def _at_points(
    graph: Graph, latents: Latents, variances: dict[tuple[int, int], str], Z: Array
) -> list[str]:
    """Latents less the last at normal points (C - 1, n), (m, n) each, by a Cholesky factor.

    ``variances`` are those that the points have. A pivot that is rounding of the latents' own
    would make the next ones large, so that none is smaller than `PIVOT` of these.
    """
    part = latents._replace(variances=variances)
    last = len(latents.means) - 1
    L: list[list[str]] = []
    F = []
    for c in range(last):
        row: list[str] = []
        for j in range(c + 1):
            left = part.variance(c, last) if j == c else part.covariance(graph, last, c, j)
            for k in range(j):
                left = graph.op("Sub", left, graph.op("Mul", row[k], (L[j] if j < c else row)[k]))
            if j == c:
                least = graph.op("Mul", latents.variance(c, last), PIVOT)
                pivot = graph.op("Max", left, graph.op("Max", least, LEAST))
                row.append(graph.op("Sqrt", pivot))
            else:
                row.append(graph.op("Div", left, L[j][j]))
        L.append(row)
        moves = [graph.op("MatMul", one, Z[k][None]) for k, one in enumerate(row)]
        F.append(graph.op("Add", graph.total(moves), latents.gap(graph, c, last)))
    return [*F, graph.op("Mul", F[0], 0.0)]
