"""The variational bound and its gradient by blocks of rows: in floors, as n grows, and on Dask.

The floor is one kernel block of the rows and the points, one dtrsm and one dsyrk for each block of
rows: what any method with m inducing points must do once.

``python -m benchmarks.inducing RESULT.json`` draws the growth with n of a run into
docs/pictures/growth.png.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.linalg import blas
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_limits

from benchmarks.figures import Figures, Limit, seconds, times
from benchmarks.memory import peaks
from benchmarks.problems import SEED, Array
from benchmarks.turns import PAUSE, Contestant, median, ratio, take_turns
from gpclass import GaussianProcessClassifier
from gpclass.blocks import Block, ClusterBlocks, LocalBlocks, RowBlocks
from gpclass.blocks.base import SIZE
from gpclass.inference.by_blocks import VariationalByBlocks
from gpclass.inference.features import features
from gpclass.inference.row_sums import bound_sums, gradient_sums
from gpclass.inference.row_terms import BinaryTerms
from gpclass.inference.weights import WeightPosterior
from gpclass.kernels import rectangle
from gpclass.likelihoods import Probit
from gpclass.linalg import blocks
from gpclass.priors.basis import Basis

N, POINTS, COLUMNS = 100_000, 500, 10
# Rows that the posterior is found from, whose precisions are then those of n rows.
FEWER: Final = 8000
PASS_LIMIT, MEMORY_LIMIT, GROWTH_LIMIT, CLUSTER_LIMIT = 3.0, 1.0, 1.1, 1.3
GROWTH: Final = (10_000, 30_000, 100_000, 300_000, 1_000_000)
GROWTH_POINTS: Final = 200
# Rows generated together, whatever n is, and those of a part on Dask.
PART: Final = 10_000
WORKERS: Final = 2
TERMS: Final = BinaryTerms(Probit())
PICTURE: Final = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "growth.png"


def part(number: int, size: int = PART, d: int = COLUMNS) -> Block:
    """Rows of the table sines: ``y = sign(2 sin x_1 + x_2 x_3 + 0.5 e)``."""
    random = np.random.default_rng([SEED, number])
    X = random.standard_normal((size, d))
    latent = 2.0 * np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * random.standard_normal(size)
    return Block(X, np.where(latent > 0.0, 1.0, -1.0), np.ones(size))


def table(n: int) -> Block:
    """The first n rows."""
    parts = [part(k) for k in range(-(-n // PART))]
    return Block(*(np.concatenate(one)[:n] for one in zip(*parts, strict=True)))


@dataclass(frozen=True)
class Task:
    """A basis, and a posterior of n rows: their bound and gradient are to be found."""

    basis: Basis
    q: WeightPosterior

    @classmethod
    def of(cls, n: int, m: int) -> "Task":
        """With the first m of other rows as points; the learnt kernel has lengths about these."""
        rows = table(min(n, FEWER))
        kernel = 9.0 * RBF([2.5, 3.0, 3.0, *[20.0] * (COLUMNS - 3)])
        basis = Basis.of(kernel, part(SEED, m).X)
        found = VariationalByBlocks(tol=1e-2)(basis, LocalBlocks(*rows), TERMS)
        return cls(basis, WeightPosterior.from_sites(found.sites.scaled(n / len(rows.y))))

    def in_one_pass(self, rows: RowBlocks) -> Any:
        """Sums of the bound and of its gradient; rows in blocks whose features are not kept."""
        known = rows.derive(features, self.basis, n_bytes=np.inf)
        return known.reduce(gradient_sums, self.basis, TERMS, self.q)

    def in_two_passes(self, rows: RowBlocks, n_bytes: float) -> Any:
        """The same by a pass each; features are kept where they fit the rows' budget."""
        known = rows.derive(features, self.basis, n_bytes=n_bytes)
        bound = known.reduce(bound_sums, TERMS, self.q)
        return bound, known.reduce(gradient_sums, self.basis, TERMS, self.q)


def floor_contestants(X: Array, basis: Basis) -> list[Contestant]:
    """Return the three parts of the floor, over all blocks; one block is in memory."""
    some = list(blocks(len(X), SIZE))
    L, V = np.asfortranarray(basis.L), np.asfortranarray(rectangle(basis.kernel, basis.Z, X[:SIZE]))
    total = np.zeros_like(L, order="F")

    def kernel(_: Any) -> None:
        for rows in some:
            rectangle(basis.kernel, basis.Z, X[rows])

    def solve(work: Array) -> None:
        for rows in some:
            blas.dtrsm(1.0, L, work[:, : rows.stop - rows.start], lower=1, overwrite_b=1)

    def product(_: Any) -> None:
        for rows in some:
            blas.dsyrk(1.0, V[:, : rows.stop - rows.start], beta=1.0, c=total, overwrite_c=1)

    return [
        Contestant("kernel", kernel),
        Contestant("dtrsm", solve, lambda: V.copy(order="F")),
        Contestant("dsyrk", product),
    ]


def run_pass(repeat: int, dry: bool) -> Figures:
    """One bound and gradient in floors, and its memory."""
    n, m = (600, 20) if dry else (N, POINTS)
    task, rows = Task.of(n, m), table(n)
    local = LocalBlocks(*rows)
    task.in_one_pass(LocalBlocks(*(one[:SIZE] for one in rows)))
    memory = peaks(lambda: task.in_one_pass(local))
    allowed = 8.0 * (3.0 * min(n, SIZE) * m + 10.0 * m**2)
    spent = take_turns(
        [
            *floor_contestants(rows.X, task.basis),
            Contestant("one pass", lambda _: task.in_one_pass(local)),
            Contestant("two passes", lambda _: task.in_two_passes(local, np.inf)),
            Contestant("two passes, features kept", lambda _: task.in_two_passes(local, 0.0)),
        ],
        repeat,
        time.process_time,
    )
    floor = ("kernel", "dtrsm", "dsyrk")
    figures = Figures(
        f"One bound and gradient of {n} rows of {COLUMNS} columns, {m} points, probit, blocks of "
        f"{SIZE}",
        ("what", "CPU time", "/ floor"),
        notes=[
            "floor = one kernel block, one dtrsm and one dsyrk for each block of rows; medians of "
            "CPU seconds in turns, ratios formed within a repetition",
            f"memory of the pass above its start: {memory['traced'] / 1e6:.0f} MB by tracemalloc, "
            f"{memory['resident'] / 1e6:.0f} MB resident; three blocks and 10 m^2 numbers are "
            f"{allowed / 1e6:.0f} MB",
        ],
    )
    for name in spent:
        in_floors = times(ratio(spent, name, *floor))
        figures.rows.append((name, seconds(median(spent, name)), in_floors))
    figures.limits.append(
        Limit("bound and gradient, in floors", ratio(spent, "one pass", *floor), PASS_LIMIT)
    )
    figures.limits.append(
        Limit(
            "its memory, in three blocks and 10 m^2, the larger reading",
            max(memory.values()) / allowed,
            MEMORY_LIMIT,
        )
    )
    figures.records.append({"n": n, "m": m, "seconds": spent, "memory": memory})
    return figures


def run_growth(repeat: int, dry: bool) -> Figures:
    """One bound and gradient as n grows: CPU time of a row."""
    sizes, m = ((200, 600), 20) if dry else (GROWTH, GROWTH_POINTS)
    task = Task.of(FEWER, m)
    rows = table(max(sizes))
    contestants = [
        Contestant(
            str(n),
            lambda some: task.in_one_pass(some),
            lambda n=n: LocalBlocks(*(one[:n] for one in rows)),  # type: ignore[misc]
        )
        for n in sizes
    ]
    spent = take_turns(contestants, repeat, time.process_time)
    figures = Figures(
        f"One bound and gradient, {COLUMNS} columns, {m} points, probit",
        ("rows", "CPU time", "of a thousand rows"),
        notes=["the largest table is in memory, and its features are not kept; medians in turns"],
    )
    a_row = {n: median(spent, str(n)) / n for n in sizes}
    for n in sizes:
        cells = (str(n), seconds(median(spent, str(n))), seconds(1000 * a_row[n]))
        figures.rows.append(cells)
        figures.records.append({"n": n, "m": m, "seconds": spent[str(n)]})
    worst = max(a_row.values()) / min(a_row.values())
    figures.limits.append(Limit("time of a row, largest by smallest", worst, GROWTH_LIMIT))
    return figures


def run_cluster(repeat: int, dry: bool) -> Figures:
    """Two workers of one thread beside two threads in memory: wall time."""
    import dask.array as da
    from distributed import Client, LocalCluster

    n, m, fit_n, fit_m = (600, 20, 300, 10) if dry else (N, POINTS, 20_000, 100)
    task, rows = Task.of(n, m), table(n)
    chunk = min(PART, n // WORKERS)
    kernel = 1.0 * RBF(np.full(COLUMNS, 3.0))
    n_bytes = 8.0 * n * m

    def fit(X: Any, y: Any) -> None:
        model = GaussianProcessClassifier(kernel, inference="vi", inducing=fit_m, random_state=0)
        model.fit(X, y)

    figures = Figures(
        f"{WORKERS} Dask workers of one thread, and {WORKERS} threads in memory",
        ("what", "in memory", "on Dask", "ratio"),
        notes=[
            f"bound and gradient: {n} rows, {m} points, a pass each, kernel and features included; "
            f"fit: {fit_n} rows, {fit_m} points; wall time, medians in turns",
        ],
    )
    cluster = LocalCluster(
        n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=":0"
    )
    with threadpool_limits(WORKERS), cluster, Client(cluster):
        import dask

        parts = [
            dask.delayed(Block(*(one[k : k + chunk] for one in rows)), traverse=False)
            for k in range(0, n, chunk)
        ]
        sizes = [min(chunk, n - k) for k in range(0, n, chunk)]
        spread = ClusterBlocks(parts, sizes, n_bytes=8.0 * n * (COLUMNS + 2))
        local = LocalBlocks(*rows)
        X, y = rows.X[:fit_n], rows.y[:fit_n]
        X_there, y_there = (da.from_array(one, chunks=(chunk, *one.shape[1:])) for one in (X, y))
        spent = take_turns(
            [
                Contestant("kept here", lambda _: task.in_two_passes(local, n_bytes)),
                Contestant("kept there", lambda _: task.in_two_passes(spread, n_bytes)),
                Contestant("formed here", lambda _: task.in_one_pass(local)),
                Contestant("formed there", lambda _: task.in_one_pass(spread)),
                Contestant("fit here", lambda _: fit(X, y), repeat=1),
                Contestant("fit there", lambda _: fit(X_there, y_there), repeat=1),
            ],
            repeat,
        )
        time.sleep(PAUSE)
    for what, name in (
        ("bound and gradient, features kept", "kept"),
        ("bound and gradient in one pass, features not kept", "formed"),
        ("a fit", "fit"),
    ):
        here, there = f"{name} here", f"{name} there"
        found = ratio(spent, there, here)
        cells = (what, seconds(median(spent, here)), seconds(median(spent, there)), times(found))
        figures.rows.append(cells)
        figures.limits.append(Limit(f"{what}: Dask by memory", found, CLUSTER_LIMIT))
    figures.records.append({"n": n, "m": m, "fit": [fit_n, fit_m], "seconds": spent})
    return figures


def draw(records: Sequence[dict[str, Any]]) -> None:
    """CPU time of a bound and gradient by the number of rows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0, 3.2), layout="constrained")
    axes = figure.add_subplot()
    n = np.array([one["n"] for one in records], dtype=float)
    spent = np.array([np.median(one["seconds"]) for one in records])
    axes.loglog(n, spent, "o", label="measured")
    axes.loglog(n, spent[-1] * n / n[-1], "-", color="0.6", zorder=0, label="in proportion to n")
    axes.set_xlabel("rows")
    axes.set_ylabel("CPU seconds of a bound and gradient")
    axes.legend(frameon=False)
    figure.savefig(PICTURE, dpi=150)


def main(arguments: list[str] | None = None) -> None:
    """Draw the growth of a run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inducing", description=__doc__)
    parser.add_argument("result", type=Path, help="a file under benchmarks/results")
    result = json.loads(parser.parse_args(arguments).result.read_text())
    draw(result["benchmarks"]["inducing-growth"]["records"])
    print(f"written: {PICTURE}")


if __name__ == "__main__":
    main()
