"""Finds the finished runs that are to be adapted, and says what to do where there is none."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sdgbench.adapt.tune import Parent
from sdgbench.data.downloaded_dataset import DownloadedDataset
from sdgbench.errors import MissingData, UserError, unknown
from sdgbench.records.folders import find_run
from sdgbench.records.reading import read
from sdgbench.records.store import Store
from sdgbench.spec.run_spec import RunSpec

WHY = {
    "new": ("was never run", "Train it"),
    "interrupted": ("is not finished", "Go on"),
    "running": ("is not finished: it runs at this moment", "Wait for it"),
    "failed": ("has failed", "Try again with --retry"),
}


def by_spec(store: Store, data_root: Path, targets: Sequence[str], spec: RunSpec) -> Parent:
    """The finished run of a specification, whichever targets it was evaluated on."""
    _check(spec, targets)
    if store.state(spec) == "done":
        return _parent(store.folder(spec))
    for path in sorted(store.folder(spec).parent.glob("*/record.json")):
        with suppress(UserError):  # what is damaged or of another version is not this run
            candidate = read(path).spec
            candidate.check_dataset_version()
            if _id_for_all_targets(candidate) == _id_for_all_targets(spec):
                return _parent(path.parent)
    what, to_do = WHY[store.state(spec)]
    if missing := _missing_source(spec, data_root):
        raise UserError(f"{spec.label} {what}, and cannot be: {missing}")
    raise UserError(
        f"{spec.label} {what} in {store.root}. {to_do}: {spec.command} --runs {store.root}"
    )


def by_id(store: Store, targets: Sequence[str], start: str) -> Parent:
    """The finished run whose id starts with ``start``."""
    folder = find_run(store.root, start)
    if not (folder / "record.json").exists():
        raise UserError(f"The run {folder} is not finished. Run its command again to go on.")
    parent = _parent(folder)
    _check(parent.spec, targets)
    return parent


def _parent(folder: Path) -> Parent:
    record = read(folder / "record.json")
    record.spec.check_dataset_version()
    parent = Parent(record.spec, folder, record)
    if not parent.path.exists():
        raise UserError(
            f"{parent.spec.label} has lost its {parent.path}. Train it again: "
            f"{parent.spec.command} --redo"
        )
    return parent


def _check(spec: RunSpec, targets: Sequence[str]) -> None:
    """Refuse a target that the dataset does not have, and a task that has no shots."""
    kind = spec.dataset_class.task.kind
    if kind != "classification":
        raise UserError(
            f"{spec.dataset} is a {kind}: a number of images per class makes no sense where "
            "an image has many. Adaptation is for classification."
        )
    known = spec.dataset_class.target_tags(spec.build_options())
    for name in targets:
        if name not in known:
            raise unknown(f"target of {spec.label.partition(' on ')[2]} called", name, known)


def _id_for_all_targets(spec: RunSpec) -> str:
    return replace(spec, targets=()).id


def _missing_source(spec: RunSpec, data_root: Path) -> str:
    """Why nothing can be trained, where data must be brought first."""
    if not issubclass(spec.dataset_class, DownloadedDataset):
        return ""
    try:
        spec.dataset_class(data_root, spec.build_options(), spec.build_recipe()).prepare()
    except MissingData as error:
        return str(error)
    return ""
