"""How runs were computed: device, threads, versions and commit, and in what that differs."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from sdgbench.records.schema import Machine, Record

PACKAGES = ("torch", "torchvision", "timm", "numpy")  # that scores are computed by
KEYS = ("device", "hardware", "threads", "settings", "sdgbench", "commit", *PACKAGES)
Environment = tuple[str, ...]  # a text for each of KEYS
MOST_VALUES = 4  # of one key that a note lists
MOST_RUNS = 3  # that a note lists for one value
UNKNOWN = "unknown"


def environment_of(record: Record) -> Environment:
    """The environment of a record; of a run that was resumed elsewhere, all of them."""
    machines = [*record.machine.earlier, record.machine]
    code = record.code
    commit = (code.commit or "")[:7] + (" with edits" if code.commit and code.dirty else "")
    return _shared(
        (
            _each(machine.device.partition(":")[0] for machine in machines),
            _each(machine.hardware for machine in machines),
            _each(_threads(machine) for machine in machines),
            _each(_settings(machine) for machine in machines),
            code.version,
            commit,
            *(record.packages.get(name, "") for name in PACKAGES),
        )
    )


@lru_cache  # thousands of runs have the same
def _shared(values: Environment) -> Environment:
    return values


def _each(texts: Iterator[str]) -> str:
    return ", then ".join(dict.fromkeys(filter(None, texts)))


def _threads(machine: Machine) -> str:
    """The number of threads where it matters: a GPU computes the same with any."""
    return str(machine.threads) if machine.threads and machine.device == "cpu" else ""


def _settings(machine: Machine) -> str:
    names = ("channels_last", "compile", "deterministic", "fast")
    words = [name for name in names if getattr(machine, name)]
    if machine.cuda_graphs:
        words.append("cuda_graphs")
    if machine.processes > 1:
        words.append(f"{machine.processes} processes")
    return " ".join(words) or "default"


def differences(other: Environment, used: Environment) -> str:
    """In what an environment differs from the one that is used, in words; empty: in nothing."""
    return ", ".join(
        f"{key} {theirs or UNKNOWN} instead of {ours or UNKNOWN}"
        for key, theirs, ours in zip(KEYS, other, used, strict=True)
        if theirs != ours
    )


def describe_mixture(rows: Mapping[str, Mapping[int, Environment]]) -> str:
    """In what the runs of some rows differ, and which has which; empty: in nothing."""
    parts = []
    for index, key in enumerate(KEYS):
        by_value: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for name, seeds in rows.items():
            for seed, environment in seeds.items():
                by_value[environment[index]][name].append(seed)
        if len(by_value) > 1:
            values = [
                f"{value or UNKNOWN} ({_listed(_names(names, rows), MOST_RUNS)})"
                for value, names in sorted(by_value.items(), key=lambda item: _size(item[1]))
            ]
            parts.append(f"{key} {_listed(values, MOST_VALUES)}")
    return "; ".join(parts)


def _size(names: Mapping[str, Sequence[int]]) -> int:
    return -sum(map(len, names.values()))


def _names(
    names: Mapping[str, Sequence[int]], rows: Mapping[str, Mapping[int, Environment]]
) -> list[str]:
    """A row by its name; where only some of its runs are meant, with their seeds."""
    return [
        name
        if len(seeds) == len(rows[name])
        else f"{name} seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
        for name, seeds in names.items()
    ]


def _listed(texts: Sequence[str], most: int) -> str:
    more = f", {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def most_common(environments: Sequence[Environment]) -> Environment:
    """The environment that most runs have; of several, the first."""
    return Counter(environments).most_common(1)[0][0]


def describe(environment: Environment, among: Sequence[Environment]) -> str:
    """An environment by what sets it apart from others."""
    return ", ".join(
        f"{key} {value or UNKNOWN}"
        for index, (key, value) in enumerate(zip(KEYS, environment, strict=True))
        if len({other[index] for other in among}) > 1
    )
