"""The number of usable CPUs on made-up machines."""

import os

import pytest

from sdgbench.launch import cpu_count


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with 16 CPUs, given its control groups' files and this process's membership."""
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)
    monkeypatch.setattr(cpu_count, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(cpu_count, "MEMBERSHIP", tmp_path / "membership")

    def build(membership, files):
        (tmp_path / "membership").write_text(membership)
        for name, text in files.items():
            path = tmp_path / "cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return build


V1 = "4:cpu,cpuacct:/job\n3:cpuset:/job\n0::/\n"
CASES = {
    "no quota, version 2": ("0::/job\n", {"job/cpu.max": "max 100000\n"}, 16),
    "a quota, version 2": ("0::/job\n", {"job/cpu.max": "400000 100000\n"}, 4),
    "a part of a CPU counts as one": ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
    "less than one CPU": ("0::/\n", {"cpu.max": "10000 100000\n"}, 1),
    "the tightest of the groups around it": (
        "0::/a/b\n",
        {"a/cpu.max": "300000 100000\n", "a/b/cpu.max": "800000 100000\n"},
        3,
    ),
    "a container that sees its host's path": (
        "0::/docker/3f2a\n",
        {"cpu.max": "200000 100000\n"},
        2,
    ),
    "a quota, version 1": (
        V1,
        {"cpu/job/cpu.cfs_quota_us": "500000\n", "cpu/job/cpu.cfs_period_us": "100000\n"},
        5,
    ),
    "no quota, version 1": (
        V1,
        {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"},
        16,
    ),
    "another folder's name, version 1": (
        V1,
        {"cpu,cpuacct/cpu.cfs_quota_us": "200000\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"},
        2,
    ),
    "more than the machine has": ("0::/\n", {"cpu.max": "9900000 100000\n"}, 16),
    "a file that cannot be understood": ("0::/\n", {"cpu.max": "nonsense"}, 16),
}


@pytest.mark.parametrize(("membership", "files", "expected"), CASES.values(), ids=CASES.keys())
def test_quotas_of_control_groups(membership, files, expected, machine):
    machine(membership, files)
    assert cpu_count.available_cpus() == expected


def test_affinity(machine, monkeypatch):
    machine("0::/\n", {"cpu.max": "400000 100000\n"})
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 5, 6})
    assert cpu_count.available_cpus() == 3


def test_a_system_without_either(machine, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cpu_count.available_cpus() == 16


def test_this_machine():
    assert 1 <= cpu_count.available_cpus() <= os.cpu_count()
