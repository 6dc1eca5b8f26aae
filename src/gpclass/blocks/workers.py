"""Dask's active scheduler: its workers, what memory they leave, and whether they work."""

from inspect import signature
from typing import Any, Final

# Part of the workers' memory, beside their process, that one set of blocks may be held in: the
# rows, and their features.
HELD_PART: Final = 0.2
# Bytes of a worker's process before it has any rows: Python with numpy, scipy and scikit-learn.
PROCESS: Final = 3e8
# What it may be where workers are threads of this process, or do not say: bytes.
HELD_HERE: Final = 1e9


def import_dask() -> Any:
    """Dask, or an ImportError with the line that installs it."""
    try:
        import dask
    except ImportError as error:
        raise ImportError(
            "Dask collections need dask, which is not installed: pip install 'gpclass[dask]'"
        ) from error
    return dask


def active_client() -> Any | None:
    """The distributed client whose cluster is the active scheduler, None for others."""
    scheduler = import_dask().base.get_scheduler()
    owner = getattr(scheduler, "__self__", None)
    return owner if hasattr(owner, "scatter") else None


def trouble(client: Any) -> str | None:
    """Why no worker takes a task; None where one does, or is at work on its last before a pause."""
    try:
        workers = _workers(client) if client.status == "running" else []
    except OSError:
        workers = []
    if not workers:
        return "had no worker, or did not answer,"
    if all(one["status"] == "paused" and not _executing(one) for one in workers):
        return "had paused all workers, whose memory is nearly full,"
    return None


def _executing(worker: dict[str, Any]) -> int:
    return int(worker["metrics"].get("task_counts", {}).get("executing", 0))


def _workers(client: Any) -> list[dict[str, Any]]:
    """What the scheduler knows of each worker."""
    # newer versions answer for five workers unless asked
    newer = "n_workers" in signature(client.scheduler_info).parameters
    info = client.scheduler_info(n_workers=-1) if newer else client.scheduler_info()
    return list(info["workers"].values())


def default_budget() -> float:
    """A part of what the workers' memory limits leave, or `HELD_HERE` where these are not known."""
    client = active_client()
    if client is None:
        return HELD_HERE
    limits = [one["memory_limit"] for one in _workers(client)]
    if not any(limits):
        return HELD_HERE
    return HELD_PART * float(sum(max(0.0, one - PROCESS) for one in limits))
