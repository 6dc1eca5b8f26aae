"""Time and memory are estimated before they are spent."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpclass import GaussianProcessClassifier
from gpclass.estimator import cost as module
from gpclass.estimator.cost import Cost
from gpclass.estimator.inducing import InducingPoints
from gpclass.estimator.memory import _of_groups, _of_process, free_memory
from gpclass.estimator.weights import check_target, used_rows
from gpclass.exceptions import CostWarning, NotEnoughMemoryError
from gpclass.learning import KeepFixed, MaximiseEvidence


def problems(n, n_classes, **arguments):
    """Problems of a table of n rows; nothing is learnt of it."""
    from gpclass.estimator.arguments import pick_parts
    from gpclass.estimator.division import divide
    from gpclass.estimator.fitting import starting_kernels
    from gpclass.estimator.weights import used_rows

    X = np.random.default_rng(0).normal(size=(n, 2))
    parts = pick_parts(GaussianProcessClassifier(**arguments))
    table = used_rows(X, np.arange(n) % n_classes, None, None)
    points = arguments.get("inducing") is not None
    return divide(parts, starting_kernels(None, X), X, table, inducing=points).problems


def cost(problems, learner, n_starts, n_jobs, points=None):
    """Cost of a fit of a kernel with two free hyperparameters."""
    return Cost.of(problems, learner, [np.zeros((n_starts, 2))] * len(problems), n_jobs, points)


# Peaks of tracemalloc over one evidence and gradient, in n^2 doubles (10 columns, ARD, 2026-11-22;
# n = 1500 for two classes, 700 for joint models, 400 for differences).
MEASURED = [
    (2, {"inference": "laplace"}, 4.02),
    (2, {"inference": "ep"}, 5.12),
    (2, {"inference": "pl"}, 5.72),
    (2, {"inference": "vi"}, 5.12),
    (2, {"inference": "bound", "likelihood": "logit"}, 5.11),
    (3, {"inference": "laplace"}, 7.40),
    (10, {"inference": "laplace"}, 14.48),
    (3, {"inference": "ep"}, 10.99),
    (10, {"inference": "ep"}, 24.92),
    (3, {"inference": "laplace", "multi_class": "differences"}, 17.25),
    (6, {"inference": "ep", "multi_class": "differences"}, 128.4),
]


@pytest.mark.parametrize(("n_classes", "arguments", "matrices"), MEASURED)
def test_memory_is_what_was_measured(n_classes, arguments, matrices):
    found = cost(problems(40, n_classes, **arguments), MaximiseEvidence(), 1, None)
    assert found.n_bytes / (8 * 40**2) == pytest.approx(matrices, rel=0.2)


def test_what_is_counted():
    (binary,) = problems(40, 2)
    one = cost([binary], MaximiseEvidence(), 1, None)
    assert one.evaluations == 16
    assert one.flops == 16 * 4 * 40**3
    restarted = cost([binary], MaximiseEvidence(), 5, None)
    assert (restarted.flops, restarted.n_bytes) == (5 * one.flops, one.n_bytes)
    assert cost([binary], MaximiseEvidence(), 5, 2).n_bytes == 2 * one.n_bytes
    assert cost([binary], KeepFixed(), 1, None).evaluations == 1
    several = cost(problems(40, 4, multi_class="one_vs_rest"), MaximiseEvidence(), 1, None)
    assert (several.flops, several.n_bytes) == (4 * one.flops, one.n_bytes)
    pairs = cost(problems(40, 4, multi_class="one_vs_one"), MaximiseEvidence(), 1, None)
    assert pairs.n_rows == 20


@pytest.fixture
def machine(monkeypatch):
    """A machine of 20 GB that does 1e11 operations a second."""
    monkeypatch.setattr(module, "free_memory", lambda: 20e9)
    monkeypatch.setattr(module, "_rate", lambda: 1e11 / module.EFFICIENCY)


def test_what_is_above_all_memory_is_refused_at_once(machine):
    with pytest.raises(NotEnoughMemoryError) as error:
        Cost(40_000, 16, 70.4e9, 1e16, "take a subset of the rows").warn()
    assert str(error.value) == (
        "n = 40000 needs 70 GB, and this machine has 20 GB free; take a subset of the rows"
    )
    assert isinstance(error.value, MemoryError)


def test_inducing_points_are_named_with_their_cost(machine):
    binary = cost(problems(40_000, 2), MaximiseEvidence(), 1, None)
    with pytest.raises(NotEnoughMemoryError) as error:
        binary.warn()
    assert str(error.value) == (
        "n = 40000 needs 70 GB for the exact method, and this machine has 20 GB free; set "
        "inducing=500 (about 0.4 GB, 26 s)"
    )
    joint = cost(problems(40_000, 3), MaximiseEvidence(), 1, None)
    with pytest.raises(NotEnoughMemoryError, match="one_vs_rest' and inducing=500"):
        joint.warn()
    # where they are not fewer than the rows by far, and where there are no rows, something else is
    few, sampled = problems(1000, 2)[0], problems(4000, 2, inference="mcmc", optimizer=None)[0]
    advice = [cost([one], KeepFixed(), 1, None).advice for one in (few, sampled)]
    assert all(one.startswith("take a subset of the rows") for one in advice)


def test_what_inducing_points_cost():
    (binary,) = problems(4000, 2)
    by_100 = cost([binary], MaximiseEvidence(), 1, None, InducingPoints(100))
    by_200 = cost([binary], MaximiseEvidence(), 1, None, InducingPoints(200))
    # they are chosen, and learnt from, twice
    assert by_100.evaluations == 2 * 16
    assert by_200.flops / by_100.flops == 3.0
    assert by_100.n_bytes == pytest.approx(2.5 * 8 * 4000 * 100, rel=0.1)
    rows = InducingPoints(np.zeros((100, 2)))
    assert cost([binary], MaximiseEvidence(), 1, None, rows).evaluations == 16
    assert "fewer inducing points" in by_100.advice


def test_a_collection_costs_what_all_of_its_rows_do(machine):
    from gpclass.blocks import AbsentBlocks

    (held,) = problems(2000, 2, inference="vi", inducing=500)
    few, whole = InducingPoints(500), replace(held, source=AbsentBlocks((500_000,) * 6))
    here, there = (cost([one], MaximiseEvidence(), 1, None, few) for one in (held, whole))
    assert (here.n_rows, there.n_rows) == (2000, 3_000_000)
    assert there.flops > 500 * here.flops
    # rows are with the workers
    assert there.n_bytes == here.n_bytes
    with pytest.warns(CostWarning, match=r"n = 3000000 may take .* min"):
        there.warn()
    there._replace(threads=100).warn()


def test_half_of_the_memory_and_long_fits_are_warnings(machine):
    with pytest.warns(CostWarning, match="needs 11 GB of the 20 GB that are free; stop$"):
        Cost(16_000, 16, 11e9, 1e12, "stop").warn()
    message = r"n = 12000 may take 18 min \(16 eval.* are usual\); stop$"
    with pytest.warns(CostWarning, match=message):
        Cost(12_000, 16, 6e9, 1.1e14, "stop").warn()
    Cost(12_000, 16, 6e9, 5e13, "stop").warn()


def test_where_nothing_is_known_of_memory_nothing_is_said(monkeypatch):
    monkeypatch.setattr(module, "free_memory", lambda: None)
    Cost(10**6, 16, 1e13, 1e11, "stop").warn()


def test_a_fit_asks_before_the_kernel_is_evaluated(monkeypatch):
    monkeypatch.setattr(module, "FEW_BYTES", 0.0)
    monkeypatch.setattr(module, "free_memory", lambda: 1e4)
    X = np.random.default_rng(0).normal(size=(50, 2))
    model = GaussianProcessClassifier()
    with pytest.raises(NotEnoughMemoryError, match="n = 50 needs"):
        model.fit(X, np.arange(50) % 2)
    assert not hasattr(model, "models_")


def test_small_fits_are_not_slowed(monkeypatch):
    def measured():
        pytest.fail("a small fit measured the machine")

    monkeypatch.setattr(module, "free_memory", measured)
    monkeypatch.setattr(module, "_rate", measured)
    (binary,) = problems(50, 2)
    cost([binary], MaximiseEvidence(), 1, None).warn()


def test_free_memory_of_this_machine():
    found = free_memory()
    assert found is None or 1e6 < found < 1e15


def test_the_limit_of_the_address_space(monkeypatch):
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    if not Path("/proc/self/statm").is_file():
        pytest.skip("the size of the process is read from /proc")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert _of_process() is None
    monkeypatch.setattr(resource, "getrlimit", lambda _: (10**15, resource.RLIM_INFINITY))
    # this process has some memory, and less than 1 TB
    assert 0.999e15 < _of_process() < 1e15
    monkeypatch.setattr(resource, "getrlimit", lambda _: (10**5, 10**6))
    assert free_memory() == _of_process() < 0


def test_limits_of_control_groups(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def found():
        return _of_groups(tmp_path / "proc", tmp_path / "fs")

    assert found() == []
    write("proc/self/cgroup", "9:cpu:/\n4:memory:/job\n0::/me/too\n")
    assert found() == []
    write("fs/me/too/memory.max", "max\n")
    write("fs/me/too/memory.current", "100\n")
    write("fs/me/too/memory.stat", "anon 7\ninactive_file 30\n")
    assert found() == []
    write("fs/me/too/memory.max", "1000\n")
    assert found() == [930]
    write("fs/memory/memory.limit_in_bytes", "500\n")
    write("fs/memory/memory.usage_in_bytes", "100\n")
    write("fs/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 50\n")
    assert sorted(found()) == [450, 930]


@pytest.mark.filterwarnings("ignore:The number of unique classes is greater than 50%")
def test_a_target_that_looks_like_an_id_is_refused():
    X = np.random.default_rng(0).normal(size=(200, 2))
    y = np.arange(200)
    y[7] = 8
    with pytest.raises(ValueError, match="y has 199 classes in 200 rows, as an id or a number has"):
        GaussianProcessClassifier().fit(X, y)
    check_target(20, 20)
    check_target(100, 200)


def test_scikit_learn_warns_of_many_classes_that_are_not_refused():
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = np.r_[np.arange(18), np.arange(12)]
    with pytest.warns(UserWarning, match="number of unique classes is greater than 50%"):
        used_rows(X, y, None, None)


def test_the_check_of_a_target_names_it():
    with pytest.raises(ValueError, match="the target age has 15 classes in 21 rows"):
        check_target(15, 21, "the target age")
