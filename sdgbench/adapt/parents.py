"""Finds the finished runs that are to be adapted, and says what to do where there is none."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sdgbench import record
from sdgbench.adapt.tune import Parent
from sdgbench.data.dataset import RealDataset
from sdgbench.dataset import MissingData
from sdgbench.errors import UserError, unknown
from sdgbench.record import Store
from sdgbench.spec import RunSpec, as_spec

WHY = {
    "new": ("was never run", "Train it"), "interrupted": ("is not finished", "Go on"),
    "running": ("is not finished: it runs at this moment", "Wait for it"),
    "failed": ("has failed", "Try again with --retry"),
}  # fmt: skip


def by_spec(store: Store, data_root: Path, targets: Sequence[str], spec: RunSpec) -> Parent:
    """The finished run of a specification, whichever targets it was evaluated on."""
    _check(spec, targets)
    if store.state(spec) == "done":
        return _parent(store.folder(spec))
    for path in sorted(store.folder(spec).parent.glob("*/record.json")):
        found = None
        with suppress(UserError):  # what is damaged or of another version is not this run
            found = _question(as_spec(record.read(path)))
        if found == _question(spec):
            return _parent(path.parent)
    what, to_do = WHY[store.state(spec)]
    if missing := _missing_source(spec, data_root):
        raise UserError(f"{_name(spec)} {what}, and cannot be: {missing}")
    raise UserError(f"{_name(spec)} {what} in {store.root}. {to_do}: {spec.command} "
                    f"--runs {store.root}")  # fmt: skip


def by_id(store: Store, targets: Sequence[str], start: str) -> Parent:
    """The finished run whose id begins so."""
    folders = [path for path in sorted(store.root.glob("*/*/*")) if path.is_dir()]
    matching = [path for path in folders if path.name.startswith(start)]
    if not matching:
        known = [path.name for path in folders if (path / "record.json").exists()]
        raise unknown(f"run in {store.root} with the id", start, known,
                      f"Ids are the folders in {store.root}/DATASET/METHOD.")  # fmt: skip
    if len(matching) > 1:
        names = ", ".join(path.name for path in matching[:5])
        raise UserError(f'"{start}" begins {len(matching)} ids: {names}. Write more of it.')
    if not (matching[0] / "record.json").exists():
        raise UserError(f"The run {matching[0]} is not finished. Run its command again to go on.")
    parent = _parent(matching[0])
    _check(parent.spec, targets)
    return parent


def _parent(folder: Path) -> Parent:
    found = record.read(folder / "record.json")
    parent = Parent(as_spec(found), folder, found)
    if not parent.path.exists():
        raise UserError(f"{_name(parent.spec)} has lost its {parent.path}. Train it again: "
                        f"{parent.spec.command} --redo")  # fmt: skip
    return parent


def _check(spec: RunSpec, targets: Sequence[str]) -> None:
    """Refuse a target that the dataset does not have, and a task that has no shots."""
    kind = spec.dataset_class.task.kind
    if kind != "classification":
        raise UserError(f"{spec.dataset} is a {kind}: so many images per class make no sense where "
                        "an image has many. Adaptation is for classification.")  # fmt: skip
    known = spec.dataset_class.target_tags(spec.build_options())
    for name in targets:
        if name not in known:
            raise unknown(f"target of {_name(spec).partition(' on ')[2]} called", name, known)


def _question(spec: RunSpec) -> str:
    return replace(spec, targets=()).id


def _name(spec: RunSpec) -> str:
    options = "".join(f", {key}={spec.options[key]}" for key in spec.option_changes)
    return spec.label.removesuffix(")") + options + ")"


def _missing_source(spec: RunSpec, data_root: Path) -> str:
    """Why nothing can be trained, where data must be brought first."""
    if not issubclass(spec.dataset_class, RealDataset):
        return ""
    try:
        spec.dataset_class(data_root, spec.build_options(), spec.build_recipe()).prepare()
    except MissingData as error:
        return str(error)
    return ""
