"""Names of runs in messages. Runs of a grid are told apart by the settings in which they differ."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sdgbench.errors import printable
from sdgbench.spec import parameters
from sdgbench.spec.precision import DEFAULT_PRECISION

Spec = Mapping[str, Any]  # the fields of a RunSpec, also of one that was read from a file
Key = tuple[str, str]  # a field of the specification, and a key in it
DERIVED = {("recipe", "reduced"), ("recipe", "weights_sha256")}  # follow from other settings


def run_label(spec: Spec, param_changes: Iterable[str] = (), also: Collection[Key] = ()) -> str:
    """The name of a run: method, dataset, preset, seed, what was set by hand, and ``also``."""
    first = "{method} on {dataset} ({preset}, seed {seed}".format(**spec)
    return printable(", ".join([first, *run_settings(spec, param_changes, also)]) + ")")


def run_labels(specs: Sequence[Spec], param_changes: Sequence[Iterable[str]]) -> list[str]:
    """The names of several runs; none has the name of another if any setting differs."""
    differing = differing_keys(specs)
    return [
        run_label(spec, changes, keys)
        for spec, changes, keys in zip(specs, param_changes, differing, strict=True)
    ]


def brief_labels(specs: Sequence[Spec]) -> list[str]:
    """Names for narrow columns: the method, and only that in which the runs differ."""
    datasets, presets, seeds = (
        len({spec[field] for spec in specs}) > 1 or len(specs) == 1
        for field in ("dataset", "preset", "seed")
    )
    labels = []
    for spec, keys in zip(specs, differing_keys(specs), strict=True):
        parts = [
            spec["method"],
            *([spec["dataset"]] if datasets else []),
            *([spec["preset"]] if presets else []),
            *run_settings(spec, (), keys, only=True),
            *([f"seed {spec['seed']}"] if seeds else []),
        ]
        labels.append(printable(" ".join(parts)))
    return labels


def differing_keys(specs: Sequence[Spec]) -> list[list[Key]]:
    """For each run, the settings in which it differs from runs of its method, dataset and seed."""
    groups: dict[tuple[Any, ...], list[Spec]] = defaultdict(list)
    for spec in specs:
        groups[_group(spec)].append(spec)
    keys = {group: _differing(members) for group, members in groups.items()}
    return [keys[_group(spec)] for spec in specs]


def _group(spec: Spec) -> tuple[Any, ...]:
    return tuple(spec.get(field) for field in ("method", "dataset", "preset", "seed"))


def _differing(specs: Sequence[Spec]) -> list[Key]:
    if len(specs) == 1:
        return []
    every = [dict(_all_settings(spec)) for spec in specs]
    keys = dict.fromkeys(key for settings in every for key in settings if key not in DERIVED)
    first = every[0]
    return [key for key in keys if any(other.get(key) != first.get(key) for other in every)]


def _all_settings(spec: Spec) -> Iterator[tuple[Key, Any]]:
    for field in ("params", "options", "recipe"):
        for key, value in (spec.get(field) or {}).items():
            # A file has lists where a specification has tuples.
            yield (field, key), tuple(value) if isinstance(value, list) else value
    yield ("precision", ""), spec.get("precision", DEFAULT_PRECISION)
    yield ("tuned", ""), spec.get("tuned") or ""
    yield ("targets", ""), tuple(spec.get("targets") or ())


def run_settings(
    spec: Spec, param_changes: Iterable[str], also: Collection[Key] = (), only: bool = False
) -> list[str]:
    """Settings as key=value: those set by hand and ``also``, or with ``only`` just the latter."""
    by_hand = {("params", key) for key in param_changes}
    by_hand |= {("options", key) for key in spec.get("option_changes") or ()}
    by_hand |= {("recipe", key) for key in spec.get("recipe_changes") or ()}
    if spec.get("precision", DEFAULT_PRECISION) != DEFAULT_PRECISION:
        by_hand.add(("precision", ""))
    if spec.get("tuned"):
        by_hand.add(("tuned", ""))
    wanted = set(also) if only else by_hand | set(also)
    return [_shown(key, value) for key, value in _all_settings(spec) if key in wanted]


def _shown(key: Key, value: Any) -> str:
    field, name = key
    if field == "precision":
        return str(value)
    if field == "tuned":  # by the search of this id
        return f"tuned {value[:4]}" if value else "not tuned"
    if field == "targets":
        return f"targets={','.join(value) or 'all'}"
    return f"{'recipe.' if field == 'recipe' else ''}{name}={parameters.show(value)}"
