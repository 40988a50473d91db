"""How many CPUs this process may use: its affinity and the CPU quotas of its control groups."""

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def available_cpus() -> int:
    """The number of CPUs that this process may keep busy, at least 1.

    ``os.cpu_count`` knows neither an affinity (taskset, Slurm) nor a quota (containers, systemd),
    and ``os.sched_getaffinity`` knows no quota.
    """
    cpus = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        cpus = len(os.sched_getaffinity(0))
    return max(1, min([cpus, *map(math.ceil, _quotas())]))


def _quotas() -> Iterator[float]:
    """The CPU quota of each control group around this process that has one, in CPUs."""
    for folder in _cgroup_folders():
        with suppress(OSError, ValueError, ZeroDivisionError):  # no such file, or no quota: "max"
            if (folder / "cpu.max").exists():  # version 2
                quota, period = map(int, (folder / "cpu.max").read_text().split())
            else:
                quota = int((folder / "cpu.cfs_quota_us").read_text())
                period = int((folder / "cpu.cfs_period_us").read_text())
            if quota > 0:  # version 1 writes -1 for no quota
                yield quota / period


def _cgroup_folders() -> Iterator[Path]:
    """The folders of this process's control groups, with those around them up to the root.

    Inside a container the path in the membership file may be the host's: then only the root,
    which is the container's own group, exists.
    """
    try:
        lines = MEMBERSHIP.read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2; next to version 1 it has a folder of its own
            roots = [CGROUPS, CGROUPS / "unified"]
        elif "cpu" in controllers.split(","):
            roots = [CGROUPS / "cpu", CGROUPS / controllers]
        else:
            continue
        for root in roots:
            group = root / path.lstrip("/")
            yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(root))
