"""Sums over the partitions of a Dask collection: the same bits wherever they are computed."""

import os
import signal
import time
from threading import Timer

import numpy as np
import pytest

from gpclass.blocks import Block, ClusterBlocks, LocalBlocks
from gpclass.blocks.cluster import Cluster
from gpclass.blocks.workers import HELD_HERE, default_budget
from gpclass.exceptions import ClusterLostError, NotPositiveDefiniteError

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

SIZES = [40, 0, 25, 1, 60, 33, 7, 50, 50, 50, 14]


def block():
    n, rng = sum(SIZES), np.random.default_rng(0)
    return Block(rng.normal(size=(n, 3)), rng.choice([-1.0, 1.0], n), rng.uniform(size=n))


def on_cluster(**settings):
    ends, whole = np.cumsum(SIZES), block()
    spans = [slice(end - n, end) for n, end in zip(SIZES, ends, strict=True)]
    parts = [Block(*(one[span] for one in whole)) for span in spans]
    delayed = [dask.delayed(part, traverse=False) for part in parts]
    return ClusterBlocks(delayed, SIZES, n_bytes=8.0 * 5 * sum(SIZES), size=16, **settings)


def moments(part, shift):
    X = part.X - shift
    return X.T @ (X * part.weights[:, None]), X.sum(axis=0), float(part.y.sum())


def slow_moments(part, shift):
    time.sleep(0.05)
    return moments(part, shift)


def moved(part, shift):
    return part._replace(X=part.X - shift)


def refuse(part):
    raise NotPositiveDefiniteError("the kernel fails")


def assert_equal(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def expected():
    with dask.config.set(scheduler="synchronous"):
        return on_cluster().reduce(moments, np.full(3, 0.5))


@pytest.fixture(scope="module")
def two_workers():
    settings = {"processes": True, "dashboard_address": ":0", "threads_per_worker": 1}
    with (
        distributed.LocalCluster(n_workers=2, **settings) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_it_is_the_sum_over_rows(expected):
    whole = LocalBlocks(*block()).reduce(moments, 0.5)
    for a, b in zip(expected, whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    assert on_cluster().n_rows == sum(SIZES)
    assert len(on_cluster().sizes) == len(SIZES) - 1


@pytest.mark.parametrize("budget", [0.0, 1e9])
@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
def test_every_scheduler_and_any_budget_give_the_same_bits(scheduler, budget, expected):
    with dask.config.set(scheduler=scheduler):
        rows = on_cluster(budget=budget)
        assert_equal(rows.reduce(moments, np.full(3, 0.5)), expected)
        derived = rows.derive(moved, np.full(3, 0.5), n_bytes=1e3)
        for _ in range(2):
            assert_equal(derived.reduce(moments, 0.0), expected)
        again = derived.derive(moved, 0.0, n_bytes=1e3)
        assert_equal(again.reduce(moments, 0.0), expected)
        with dask.config.set(num_workers=3):
            assert rows.n_threads == 3
        for collection in (rows, again):
            assert_equal(collection.sample(20, 3), LocalBlocks(*block()).sample(20, 3))


@pytest.mark.slow
def test_what_workers_may_hold_is_beside_their_process():
    settings = {"processes": False, "threads_per_worker": 1, "dashboard_address": ":0"}
    for limit, budget in (("400MB", 0.2 * 2 * 1e8), ("200MB", 0.0), (0, HELD_HERE)):
        cluster = distributed.LocalCluster(n_workers=2, memory_limit=limit, **settings)
        with cluster, distributed.Client(cluster):
            assert default_budget() == pytest.approx(budget)


def test_parts_and_sizes_that_do_not_fit():
    for parts, sizes in (([], []), ([dask.delayed(2)], [0]), ([dask.delayed(1)], [1, 2])):
        with pytest.raises(ValueError, match=f"{len(parts)} parts have the sizes"):
            ClusterBlocks(parts, sizes, n_bytes=0)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [0.0, 1e9, None])
def test_processes_give_the_same_bits(two_workers, budget, expected):
    rows = on_cluster(budget=budget)
    assert_equal(rows.reduce(moments, np.full(3, 0.5)), expected)
    derived = rows.derive(moved, np.full(3, 0.5), n_bytes=1e3)
    assert_equal(derived.reduce(moments, 0.0), expected)
    assert_equal(derived.sample(20, 3), LocalBlocks(*block()).sample(20, 3))
    assert rows.n_threads == 2
    with pytest.raises(NotPositiveDefiniteError, match="the kernel fails"):
        rows.reduce(refuse)


@pytest.mark.slow
def test_what_is_held_is_there_before_others_wait_for_it(two_workers):
    tasks = [dask.delayed(slow_moments)(block(), float(k)) for k in range(4)]
    held = Cluster(1e9, 60.0).hold(tasks)
    assert all(one.done() for one in distributed.futures_of(held))


@pytest.mark.slow
@pytest.mark.parametrize(("budget", "n_killed"), [(0.0, 1), (1e9, 1), (1e9, 2)])
def test_a_killed_worker_changes_nothing(two_workers, budget, n_killed, expected):
    derived = on_cluster(budget=budget).derive(moved, np.full(3, 0.5), n_bytes=1e3)
    assert_equal(derived.reduce(moments, 0.0), expected)
    pids = list(two_workers.run(os.getpid).values())
    timers = [Timer(0.2, os.kill, (pid, signal.SIGKILL)) for pid in pids[:n_killed]]
    for timer in timers:
        timer.start()
    assert_equal(derived.reduce(slow_moments, 0.0), expected)
    for timer in timers:
        timer.join()
    two_workers.wait_for_workers(2, timeout=60)
    now = set(two_workers.run(os.getpid).values())
    assert len(now & set(pids)) == 2 - n_killed
    assert_equal(derived.reduce(moments, 0.0), expected)


def test_a_cluster_without_workers_is_an_error_in_time():
    settings = {"processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(n_workers=0, **settings) as cluster, distributed.Client(cluster):
        start = time.monotonic()
        with pytest.raises(ClusterLostError, match=r"had no worker, or did not answer, for 0\.5 s"):
            on_cluster(patience=0.5).reduce(moments, 0.0)
        assert time.monotonic() - start < 10.0


def test_workers_that_are_all_paused_are_an_error_in_time(expected):
    """As Dask pauses those whose memory is nearly full, which may be for ever."""
    settings = {"processes": False, "dashboard_address": ":0", "memory_limit": 0}
    with distributed.LocalCluster(n_workers=1, **settings) as cluster, distributed.Client(cluster):
        for worker in cluster.workers.values():
            worker.status = distributed.Status.paused
        with pytest.raises(ClusterLostError, match=r"had paused all workers.*for 0\.5 s"):
            on_cluster(patience=0.5).reduce(moments, 0.0)
        for worker in cluster.workers.values():
            worker.status = distributed.Status.running
        assert_equal(on_cluster().reduce(moments, np.full(3, 0.5)), expected)
