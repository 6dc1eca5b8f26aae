"""How much memory is free."""

import os
from pathlib import Path


def free_memory() -> float | None:
    """Bytes that this process can still take; None where the system does not say (macOS, Windows).

    The least of what the machine has free, and of what the limits of the process's control groups
    and of its address space (``ulimit -v``) leave.
    """
    found = (_of_machine(), _of_process(), *_of_groups())
    return min((one for one in found if one is not None), default=None)


def _of_machine() -> float | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _of_process() -> float | None:
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        return None
    return None if limit == resource.RLIM_INFINITY else float(limit - size)


def _of_groups(proc: Path = Path("/proc"), mount: Path = Path("/sys/fs/cgroup")) -> list[float]:
    """Bytes left under each memory limit of the control groups, version 1 or 2."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, limit, usage, cache = mount, "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            base, limit, usage = mount / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            cache = "total_inactive_file"
        else:
            continue
        # inside a container the group is the root of what is mounted
        for folder in (base / path.strip("/"), base):
            try:
                left = int((folder / limit).read_text()) - int((folder / usage).read_text())
                stat = dict(
                    line.split() for line in (folder / "memory.stat").read_text().splitlines()
                )
                found.append(float(left + int(stat.get(cache, 0))))
            except (OSError, ValueError):  # no such file; "max" is no limit
                continue
    return found
