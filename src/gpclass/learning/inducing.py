"""What is learnt with inducing points: the variational bound of any number of rows."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel

from gpclass.blocks import AbsentBlocks, Block, LocalBlocks, RowBlocks
from gpclass.inference.by_blocks import BlockApproximation, VariationalByBlocks
from gpclass.inference.features import features
from gpclass.inference.joint import JointScheme, MultinomialProbit, Softmax
from gpclass.inference.probit_terms import MultinomialProbitTerms
from gpclass.inference.row_sums import cavities
from gpclass.inference.row_terms import BinaryTerms, RowTerms, SoftmaxTerms
from gpclass.inference.weights import (
    ClassWeightPrediction,
    WeightPosterior,
    WeightPrediction,
    WeightSites,
)
from gpclass.kernels import cross, diagonal
from gpclass.learning.problem import Problem
from gpclass.likelihoods import Likelihood, Probit
from gpclass.priors.base import as_weights
from gpclass.priors.basis import Basis
from gpclass.priors.points import MOST_CANDIDATES, inducing_inputs

Array = NDArray[np.float64]

# Rows that learning begins with: so many an inducing point, and at least so many.
ROWS_A_POINT: Final = 10
FEWEST_ROWS: Final = 5000
# Of very many rows learning goes on with a tenth, and at most as many as have so many numbers as
# columns and features: 400 MB.
MOST_NUMBERS: Final = 5e7
# Points of the averages of a softmax, more for more classes.
SOFTMAX_POINTS: Final = 128


@final
@dataclass(frozen=True)
class InducingProblem(Problem):
    """One classification problem with inducing points, by sums over blocks of rows.

    The fields are those of `Problem`, with labels ``y`` of shape (n,): -1 and +1 for two classes,
    else class indices, under the multinomial probit or, with the logit, the softmax.

    Parameters
    ----------
    Z : ndarray of shape (m, d), default=None
        Inducing inputs; `placed` chooses them.
    order : tuple of int, default=None
        Order of the classes in the softmax's averages; `placed` finds it, from the rows.
    source : RowBlocks, default=None
        The rows, where they are not X, y and weights, which are then a sample.
    """

    kernel: Kernel
    X: Any
    y: NDArray[Any]
    likelihood: Likelihood
    inference: VariationalByBlocks  # type: ignore[assignment]  # called in another way
    n_classes: int = 2
    weights: Array | None = None
    rows: NDArray[np.intp] | None = None
    Z: Any = None
    order: tuple[int, ...] | None = None
    source: RowBlocks | None = None

    def __post_init__(self) -> None:
        """Refuse a kernel a class: the features are shared."""
        if isinstance(self.kernel, CompoundKernel):
            raise ValueError(
                "inducing points are those of one kernel that all classes share: give one kernel, "
                "or take multi_class='one_vs_rest', which can have one a class"
            )

    def __getstate__(self) -> dict[str, Any]:
        """The fields; of a source its size alone."""
        state = super().__getstate__()
        if self.source is not None:
            state["source"] = AbsentBlocks(self.source.sizes)
        return state

    @cached_property
    def blocks(self) -> RowBlocks:
        """The rows in blocks."""
        return self.in_memory if self.source is None else self.source

    @cached_property
    def in_memory(self) -> LocalBlocks:
        """The rows in memory: all, or a sample of the source."""
        weights = as_weights(self.weights, len(self.y))
        return LocalBlocks(self.inputs, self.y, weights)

    @cached_property
    def terms(self) -> RowTerms:
        """What a row's label says of its latents."""
        if self.n_classes == 2:
            return BinaryTerms(self.likelihood)
        if isinstance(self.likelihood, Probit):
            return MultinomialProbitTerms(self.n_classes)
        points = max(SOFTMAX_POINTS, 1 << (4 * self.n_classes - 1).bit_length())
        return SoftmaxTerms(self.n_classes, points, self.order)

    @cached_property
    def basis(self) -> Basis:
        """Features of the inducing points."""
        return Basis.of(self.kernel, self.Z)

    @property
    def scheme(self) -> JointScheme:
        """Class probabilities of more than two classes."""
        return MultinomialProbit() if isinstance(self.likelihood, Probit) else Softmax()

    @property
    def codes(self) -> NDArray[Any]:
        """The labels, of more than two classes."""
        return self.y

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.blocks.n_rows

    @property
    def labels(self) -> NDArray[Any]:
        """-1 and +1, or class indices."""
        return self.y

    @property
    def points(self) -> Any:
        """The inducing points."""
        return self.Z

    @property
    def n_sites(self) -> int:
        """Weights of all latents, which sites are about; none before there are points."""
        if self.Z is None:
            return 0
        return self.terms.n_latents * len(self.Z)

    def placed(self, theta: Array, m: int | Array | None, seed: int) -> "InducingProblem":
        """With inducing points that are given, or m that are chosen by the kernel at theta.

        They are rows that leave little variance, or means of rows that leave less, of a sample
        where there are many (`inducing_inputs`). None: as many rows as leave one per cent of the
        variance, at most 1024.
        """
        order = None
        if self.n_classes > 2:
            order = order_of_classes(*self.blocks.reduce(class_sums, self.n_classes))
        if not (m is None or isinstance(m, int)):
            return replace(self, Z=m, order=order)
        X, _, weights = self.blocks.sample(MOST_CANDIDATES, seed)
        Z = inducing_inputs(self.at(theta).kernel, X, weights, m, means=True)
        return replace(self, Z=Z, order=order)

    def trace_left(self, most: int) -> float:
        """Part of the variance that the points leave in the mean of (at most so many) rows."""
        part = features(self.in_memory.sample(most, 0), self.basis)
        return float(part.delta.sum() / diagonal(self.kernel, part.X).sum())

    def prior(self) -> Basis:
        """Features of the inducing points: under the prior their weights are standard normal."""
        return self.basis

    def infer(self, prior: Basis, init: Any) -> BlockApproximation:
        """Largest bound."""
        return self.inference(prior, self.blocks, self.terms, init)

    def posterior(
        self, prior: Basis, sites: WeightSites
    ) -> WeightPrediction | ClassWeightPrediction:
        """Condition the weights on the sites."""
        q = WeightPosterior.from_sites(sites.carried(prior.L))
        return (WeightPrediction if self.n_classes == 2 else ClassWeightPrediction)(q, prior.L)

    def predictive(
        self, prior: Basis, sites: WeightSites
    ) -> WeightPrediction | ClassWeightPrediction:
        """The posterior given the sites."""
        return self.posterior(prior, sites)

    def cavities(self, q: WeightPosterior, count: Array) -> tuple[Array, Array]:
        """Latent means and variances (n, C) of rows in memory without one of ``count`` copies."""
        parts = np.split(count, np.cumsum(self.in_memory.sizes)[:-1])
        found = [
            cavities(block, part, self.basis, self.terms, q)
            for block, part in zip(self.in_memory, parts, strict=True)
        ]
        mean, variance = (np.concatenate(one) for one in zip(*found, strict=True))
        return mean, variance

    def left_out(self, prior: Any, found: Any) -> Any:
        """Raise ValueError: the method keeps no site of each row."""
        raise ValueError(
            "learning='loo' needs a site of each row, and inference='vi' with inducing points "
            "keeps none: take learning='evidence', or another inference"
        )

    def site_terms(self, posterior: Any) -> Any:
        """Raise ValueError: the method keeps no site of each row."""
        raise ValueError(
            "learning='em' needs a site of each row, and inference='vi' with inducing points "
            "keeps none: take learning='evidence', or another inference"
        )

    def pull(self, G: Array, prior: Basis) -> Array:
        """The gradient itself, which the approximation has summed over the rows."""
        return G

    def cross(self, X_new: Any) -> tuple[Array, Array]:
        """Covariances of the inducing points with new inputs, (m, k), and prior variances."""
        return cross(self.kernel, self.Z, X_new), diagonal(self.kernel, X_new)

    @property
    def leading_rows(self) -> int:
        """Rows of a subset: as many as m inducing points need, or a tenth."""
        m, d = self.Z.shape
        return max(rows_for(m), min(self.n_rows // 10, int(MOST_NUMBERS / (m + d))))

    def subset(self, step: int) -> "InducingProblem | None":
        """A sample of `leading_rows` rows, which may be large enough to have a subset itself."""
        return self.sampled(self.leading_rows)

    def sampled(self, size: int) -> "InducingProblem | None":
        """A random sample of the rows; None where there are fewer than twice as many."""
        if self.n_rows < 2 * size:
            return None
        X, y, weights = self.blocks.sample(size, 0)
        return replace(self, X=X, y=y, weights=weights, rows=None, source=None)

    def sites_from_subset(self, sites: WeightSites, step: int) -> WeightSites:
        """Sites of the subset, scaled up to the number of all rows."""
        return sites.scaled(self.n_rows / self.leading_rows)


def rows_for(m: int) -> int:
    """How many rows learning begins with, by the number of inducing points."""
    return max(ROWS_A_POINT * m, FEWEST_ROWS)


def class_sums(block: Block, n_classes: int) -> tuple[Array, Array]:
    """Weight of each class, (C,), and the weighted sums of its rows' columns, (C, d)."""
    own = (block.y == np.arange(n_classes)[:, None]) * block.weights
    return own.sum(axis=1), own @ np.asarray(block.X, dtype=np.float64)


def order_of_classes(weights: Array, sums: Array) -> tuple[int, ...]:
    """Place of each class by its weight, then by its rows: it does not depend on their numbers.

    >>> order_of_classes(np.array([5.0, 2.0, 5.0]), np.array([[1.0], [0.0], [-1.0]]))
    (2, 0, 1)
    """
    keys = np.lexsort((*sums.T[::-1], weights))
    return tuple(int(i) for i in np.argsort(keys))
