"""Dask collections: what a table's kind learns of all rows, by passes over the partitions.

Three passes read what `FloatTable` and `MixedTable` learn: kinds, levels and labels; extremes and
which rows are distinct; centres and scales. What is learnt is the same as in memory, to rounding,
and so are the matrices that each partition becomes, when it is needed.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator

from gpclass.blocks.cluster import Cluster
from gpclass.blocks.workers import default_budget, import_dask
from gpclass.estimator.inputs.base import Inputs
from gpclass.estimator.inputs.columns import Array, missing_in
from gpclass.estimator.inputs.kinds import FloatTable, is_precomputed, takes_vectors
from gpclass.estimator.inputs.mixed import MixedTable
from gpclass.estimator.weights import check_largest

# Rows whose hashes are compared in one place: 8 MB, and a few times that while they are sorted; and
# the most places.
ROWS_A_PLACE: Final = 500_000
MOST_PLACES: Final = 64


def is_collection(X: Any) -> bool:
    """Whether X is a Dask collection; dask is not imported."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "dask")


class Partition(NamedTuple):
    """Rows of a collection in memory: a table, labels, weights (None: all one)."""

    X: Any
    y: Any
    weights: Any


class Survey(NamedTuple):
    """What a partition says before anything is learnt.

    Rows (``n`` of them, ``used`` of positive weight), its labels with their weights and numbers of
    rows, kinds, levels and known entries of its columns, and columns with their names.
    """

    n: int
    used: int
    labels: NDArray[Any]
    masses: Array
    counts: NDArray[np.intp]
    columns: list[tuple[Any, set[str], set[str], int]]
    seen: dict[str, Any]


class Spread(NamedTuple):
    """Of each column of a partition: extremes, whether an entry is missing, and its codes."""

    low: Array
    high: Array
    gaps: NDArray[np.bool_]
    codes: list[Array]


def partitions(X: Any, y: Any, sample_weight: Any) -> list[Any]:
    """Tasks of the `Partition`s of collections with the same ones.

    TypeError where only some are collections, ValueError where they are divided differently.
    """
    given = {"X": X, "y": y, "sample_weight": sample_weight}
    parts: dict[str, Sequence[Any]] = {}
    for name, one in given.items():
        if one is None and name == "sample_weight":
            continue
        if not is_collection(one):
            raise TypeError(
                f"{name} is a {type(one).__name__}, and {'X' if name != 'X' else 'y'} a Dask "
                "collection: give collections with the same partitions, or all in memory"
            )
        if np.ndim(one) == 2 and name == "X" and hasattr(one, "rechunk"):
            one = one.rechunk({1: -1})
        # optimised, files would be read together: of X and of y differently, by their columns
        tasks = one.to_delayed(optimize_graph=False)
        parts[name] = np.ravel(np.asarray(tasks, dtype=object)).tolist()
    counts = {name: len(one) for name, one in parts.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(
            f"the collections have different numbers of partitions, {counts}: repartition them "
            "alike, for instance by taking X and y from one frame"
        )
    make = import_dask().delayed(Partition)
    weights = parts.get("sample_weight", [None] * counts["X"])
    return [make(*one) for one in zip(parts["X"], parts["y"], weights, strict=True)]


class Collection:
    """Partitions of X, y and weights, and passes over them on the active scheduler."""

    def __init__(self, estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any) -> None:
        self.cluster = Cluster(default_budget(), 60.0)
        self._parts = partitions(X, y, sample_weight)
        if not takes_vectors(estimator.kernel) or is_precomputed(estimator.kernel):
            raise ValueError(
                "kernel takes objects or a matrix of covariances, and a Dask collection has rows "
                "of a table"
            )
        self.inputs: Inputs = (MixedTable if estimator.kernel is None else FloatTable)()
        self._estimator = estimator
        self.surveys = self._survey([])
        mixed = self._kinds()
        if mixed:
            self.surveys = self._survey(mixed)
            self._kinds()
        self.n_rows = sum(one.used for one in self.surveys)

    def each(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        """``function(partition, *shared)`` of every partition, in their order."""
        apply = import_dask().delayed(_apply)
        return self.cluster.run(
            lambda task: [apply(part, function, task) for part in self._parts], shared, _nothing
        )

    def blocks_of(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        """Tasks of ``function(partition, *shared)``, which are computed when they are needed."""
        dask = import_dask()
        task, apply = dask.delayed(shared, traverse=False), dask.delayed(_apply)
        return [apply(part, function, task) for part in self._parts]

    def _survey(self, forced: list[int]) -> list[Survey]:
        found: list[Survey] = self.each(survey, self.inputs, self._estimator, forced)
        columns = [one.seen for one in found if one.n]
        if not columns:
            raise ValueError("X has no rows in any of its partitions")
        for k, other in enumerate(columns):
            if not all(np.array_equal(other[key], columns[0][key]) for key in columns[0]):
                raise ValueError(f"X has other columns in partition {k} than in its first")
        for name, value in columns[0].items():
            setattr(self._estimator, name, value)
        return found

    def _kinds(self) -> list[int]:
        """Unite kinds and levels; the columns that are text in some partitions alone."""
        inputs, mixed = self.inputs, []
        if not isinstance(inputs, MixedTable):
            return []
        inputs.names, inputs.kinds, inputs.levels = [], [], []
        for j, parts in enumerate(
            zip(*(one.columns for one in self.surveys if one.n), strict=True)
        ):
            name = parts[0][0]
            kinds = set().union(*(kind for _, kind, _, _ in parts)) - {"nothing"}
            levels = sorted(set().union(*(one for _, _, one, _ in parts)))
            if "levels" in kinds and len(kinds) > 1:
                mixed.append(j)
            if "dates" in kinds and len(kinds) > 1:
                raise ValueError(
                    f"X has {' and '.join(sorted(kinds))} in the column {name!r}, in different "
                    "partitions: give it one type"
                )
            kind = "numerals" if "numerals" in kinds else next(iter(kinds), "nothing")
            inputs.names.append(name)
            inputs.kinds.append("levels" if "levels" in kinds else kind)
            inputs.levels.append(levels)
            known = [one for *_, one in parts if one >= 0]
            if j not in mixed:  # else its levels are counted by the survey that takes it for text
                inputs.check_names_of_rows(name, len(levels), sum(known) if known else -1)
        return mixed

    def rescale(self) -> None:
        """Learn the units of a `MixedTable`."""
        table = self.inputs
        if not isinstance(table, MixedTable):
            return
        spreads: list[Spread] = [one for one in self.each(spread, table) if one is not None]
        low, high = (
            getattr(np, f"f{end}").reduce([getattr(one, name) for one in spreads])
            for end, name in (("min", "low"), ("max", "high"))
        )
        gaps = np.any([one.gaps for one in spreads], axis=0)
        columns = range(len(table.kinds))
        codes = [np.unique(np.concatenate([one.codes[j] for one in spreads])) for j in columns]
        table.arrange(low, high, gaps, codes)
        kept = self._distinct()
        apply = import_dask().delayed(_unit_sums)

        def sums(centre: Array) -> Array:
            tasks = self.cluster.run(
                lambda task: [
                    apply(part, rows, task) for part, rows in zip(self._parts, kept, strict=True)
                ],
                (table, centre),
                _nothing,
            )
            return np.asarray(sum(tasks))

        count, first, _ = sums(np.zeros(len(table.numeric)))
        centre = first / count
        _, first, second = sums(centre)
        shift = first / count
        table.centres, table.scales = centre + shift, np.sqrt(second / count - shift * shift)

    def _distinct(self) -> list[Any]:
        """Tasks of the rows of each partition that no earlier row is equal to."""
        delayed = import_dask().delayed
        places = int(min(MOST_PLACES, 1 + self.n_rows // ROWS_A_PLACE))
        task = delayed((self.inputs,), traverse=False)
        # a task takes one place of each partition: a worker may have no room for all hashes
        each = delayed(_hashes, nout=places)
        hashes = [list(each(part, task, places)) for part in self._parts]
        found = [delayed(_first_ones)(*one) for one in zip(*hashes, strict=True)]
        one_part = delayed(_kept)
        return self.cluster.hold(
            [one_part(*(f[i] for f in found)) for i in range(len(self._parts))]
        )


def survey(part: Partition, inputs: Inputs, estimator: Any, forced: list[int]) -> Survey:
    """Check a partition, and read its labels and the kinds of its columns."""
    X, y, weights = part
    if issparse(X):
        raise TypeError("X has sparse partitions: X.map_blocks(lambda part: part.toarray())")
    n, y = len(X), np.asarray(y)
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.shape != (n,) or not (weights is None or np.shape(weights) == (n,)):
        raise ValueError(
            f"a partition of X has {n} rows, and that of y, or of sample_weight, another number: "
            "the collections must be divided alike; for arrays of unknown chunks, "
            "X.compute_chunk_sizes() shows what they are"
        )
    if n == 0:
        return Survey(0, 0, y, np.zeros(0), np.zeros(0, np.intp), [], {})
    if missing_in(y).any():
        gaps = missing_in(y).sum()
        raise ValueError(f"Input y contains NaN or other missing labels in {gaps} of its rows")
    w = weights_of(part)
    labels, codes = np.unique(y[w > 0], return_inverse=True)
    given = {"categorical_features": estimator.categorical_features}
    seen = type(estimator)(estimator.kernel, **given)
    columns = []
    if isinstance(inputs, MixedTable):
        columns = inputs.survey(seen, X, forced)
    else:
        inputs.fit(seen, X, np.zeros(n))
    names = ("n_features_in_", "feature_names_in_")
    masses = np.bincount(codes, w[w > 0], len(labels)).astype(np.float64)
    return Survey(
        n,
        int((w > 0).sum()),
        labels,
        masses,
        np.bincount(codes, minlength=len(labels)),
        columns,
        {name: getattr(seen, name) for name in names if hasattr(seen, name)},
    )


def weights_of(part: Partition) -> Array:
    """Weights of a partition, finite and not negative."""
    if part.weights is None:
        return np.ones(len(part.X))
    weights = np.asarray(part.weights, dtype=np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample_weight must be finite and not negative")
    check_largest(float(weights.max(initial=0.0)))
    return weights


def used_raw(part: Partition, table: MixedTable) -> Array:
    """Numbers and codes of the rows of positive weight."""
    raw = table.read_known(part.X) if len(part.X) else np.empty((0, len(table.kinds)))
    return raw[weights_of(part) > 0]


def spread(part: Partition, table: MixedTable) -> Spread | None:
    """Extremes, gaps and codes of a partition; None without rows."""
    raw = used_raw(part, table)
    if not len(raw):
        return None
    known = np.isfinite(raw)
    low = np.where(known, raw, np.inf).min(axis=0)
    high = np.where(known, raw, -np.inf).max(axis=0)
    codes = [
        np.unique(raw[:, j]) if kind == "levels" else np.empty(0)
        for j, kind in enumerate(table.kinds)
    ]
    return Spread(low, high, np.asarray(~known.all(axis=0)), codes)


def _apply(part: Partition, function: Callable[..., Any], shared: tuple[Any, ...]) -> Any:
    return function(part, *shared)


def _nothing() -> None:
    """Nothing is held."""


def _hashes(part: Partition, task: tuple[MixedTable], places: int) -> list[NDArray[Any]]:
    """Hashes of a partition's rows, by the place where they are compared, with the rows."""
    from pandas import DataFrame
    from pandas.util import hash_pandas_object

    raw = used_raw(part, task[0])
    # one zero and one NaN
    raw = np.where(np.isnan(raw), np.nan, raw + 0.0)
    found = hash_pandas_object(DataFrame(raw), index=False).to_numpy()
    rows = np.arange(len(raw), dtype=np.uint64)
    at = [np.flatnonzero(found % places == k) for k in range(places)]
    return [np.stack([found[one], rows[one]]) for one in at]


def _first_ones(*hashes: NDArray[Any]) -> list[NDArray[np.uint32]]:
    """Rows of each partition whose hash is in no earlier row, of the hashes of one place."""
    whole = np.concatenate(hashes, axis=1)
    ends = np.cumsum([one.shape[1] for one in hashes])[:-1]
    first = np.zeros(whole.shape[1], dtype=bool)
    first[np.unique(whole[0], return_index=True)[1]] = True
    rows, keep = np.split(whole[1], ends), np.split(first, ends)
    return [one[kept].astype(np.uint32) for one, kept in zip(rows, keep, strict=True)]


def _kept(*rows: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return np.sort(np.concatenate(rows))


def _unit_sums(part: Partition, rows: NDArray[np.uint32], task: tuple[MixedTable, Array]) -> Array:
    """Of each column of numbers: known entries, their sum and that of squares about a centre."""
    table, centre = task
    unit = np.ldexp(used_raw(part, table)[rows][:, table.numeric], table.exponents) - centre
    known = ~np.isnan(unit)
    unit = np.where(known, unit, 0.0)
    return np.stack([known.sum(axis=0), unit.sum(axis=0), (unit * unit).sum(axis=0)])
