"""Which images a folder holds: their domains and classes, from its tree or from lists of files.

Reading a list never opens an image.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec

from sdgbench import storage
from sdgbench.errors import UserError, explain_os_errors

SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
)
DEFAULT_LAYOUT = "{domain}/{class}"
FIELDS = ("domain", "class", "split")
Split = Literal["train", "val", "test", ""]
WORDS: dict[str, Split] = {  # how files and folders spell the splits
    "train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val",
    "crossval": "val", "test": "test", "testing": "test",
}  # fmt: skip


@dataclass(frozen=True, order=True)
class Item:
    """One image: its path below the root, its domain and class, and its split if it is known."""

    domain: str
    label: str
    path: str
    split: Split = ""


@dataclass(frozen=True)
class Listing:
    """All images of a folder, sorted by domain, class and path."""

    items: tuple[Item, ...]
    empty: tuple[str, ...] = ()  # folders of classes without any image, as domain/class

    @property
    def domains(self) -> tuple[str, ...]:
        """The names of the domains, sorted."""
        return tuple(dict.fromkeys(item.domain for item in self.items))

    def classes(self, domain: str | None = None) -> tuple[str, ...]:
        """The classes with at least one image, of one domain or of all, sorted."""
        items = [item for item in self.items if domain in (None, item.domain)]
        return tuple(sorted({item.label for item in items}))


def list_images(root: Path, layout: str = DEFAULT_LAYOUT, split_file: str = "") -> Listing:
    """Find the images of a folder; what was read stays in memory until the folder changes."""
    if not root.is_dir():
        raise UserError(f"{root} is not a folder. Give the folder of your images: --set root=DIR")
    return _listed(root, layout, split_file, root.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _listed(root: Path, layout: str, split_file: str, changed: int) -> Listing:
    pattern = _pattern(layout)
    with explain_os_errors("read", root):
        if split_file:
            return Listing(tuple(sorted(set(_from_lists(root, pattern, split_file)))))
        listing = _from_tree(root, pattern)
    if not listing.items:
        raise UserError(_nothing(root, layout))
    return listing


def _pattern(layout: str) -> re.Pattern[str]:
    """Turn a layout such as "{domain}/{split}/{class}" into an expression for relative paths."""
    parts = [part for part in layout.split("/") if part]
    for name in ("domain", "class"):
        if parts.count(f"{{{name}}}") != 1:
            raise UserError(
                f'The layout "{layout}" needs {{{name}}} once, as in {DEFAULT_LAYOUT}; {{split}} '
                "may be a part, and * stands for any folder."
            )
    expressions = []
    for part in parts:
        if part in [f"{{{name}}}" for name in FIELDS]:
            expressions.append(f"(?P<{part[1:-1]}>[^/]+)")
        elif "{" in part:
            raise UserError(f'"{part}" in the layout is not known: use {{domain}}, {{class}}, *.')
        else:
            expressions.append("[^/]+" if part == "*" else re.escape(part))
    return re.compile("/".join(expressions) + "(?:/.+)?")


def _from_tree(root: Path, pattern: re.Pattern[str]) -> Listing:
    items, folders = [], set()
    for folder, subfolders, files in os.walk(root, followlinks=True):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        relative = Path(folder).relative_to(root).as_posix()
        match = pattern.fullmatch(relative)
        if match is None:
            continue
        names = match.groupdict()
        folders.add((names["domain"], names["class"]))
        split = _split_word(names.get("split") or "")
        for name in files:
            if _is_image(name):
                items.append(Item(names["domain"], names["class"], f"{relative}/{name}", split))
    used = {(item.domain, item.label) for item in items}
    return Listing(tuple(sorted(items)), tuple("/".join(pair) for pair in sorted(folders - used)))


def _is_image(name: str) -> bool:
    return not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES


def _split_word(text: str) -> Split:
    """The split that a word means; the last word of a file's name that means one counts."""
    words = [word for word in re.split(r"[^a-z]+", text.lower()) if word in WORDS]
    return WORDS[words[-1]] if words else ""


def _from_lists(root: Path, pattern: re.Pattern[str], split_file: str) -> Iterator[Item]:
    """Images that lists name: text files ("path label" lines) or JSON of CoOp's form."""
    files = _list_files(root, split_file)
    for file in files:
        if file.suffix == ".json":
            yield from _from_json(file, root, pattern)
        else:
            yield from _from_text(file, root, pattern)


def _list_files(root: Path, split_file: str) -> list[Path]:
    place = Path(split_file).expanduser()
    place = place if place.is_absolute() else root / place
    if place.is_file():
        return [place]
    if place.is_dir():
        found = sorted(file for file in place.iterdir() if file.suffix in (".txt", ".json"))
        if found:
            return found
    raise UserError(
        f"There are no lists of images in {place}. Give a .txt file of 'path label' lines, a "
        ".json file of CoOp's form, or a folder of them: --set splits=FILE"
    )


def _from_text(file: Path, root: Path, pattern: re.Pattern[str]) -> Iterator[Item]:
    """Lines "path" or "path label"; the file's name says which split it is (train, val, test).

    Domain and class are read off the path. PACS's own lists (photo_train_kfold.txt) are like this;
    their label is a number that the class's folder repeats.
    """
    split = _split_word(file.stem)
    for number, line in enumerate(storage.read_bytes(file).decode().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        path, _, label = line.strip().rpartition(" ")
        if not path or _is_image(line.strip()):
            path, label = line.strip(), ""
        yield _listed_item(path, label, split, root, pattern, f"{file}:{number}")


def _from_json(file: Path, root: Path, pattern: re.Pattern[str]) -> Iterator[Item]:
    """The form of CoOp: {"train": [[path, number, class], ...], "val": [...], "test": [...]}."""
    try:
        content = msgspec.json.decode(
            storage.read_bytes(file), type=dict[str, list[tuple[str, int, str]]]
        )
    except msgspec.DecodeError as error:
        raise UserError(f"{file} is not a list of splits in CoOp's form: {error}.") from None
    for name, rows in content.items():
        for number, (path, _, label) in enumerate(rows):
            where = f"{file}: {name}[{number}]"
            yield _listed_item(path, label, _split_word(name), root, pattern, where)


def _listed_item(
    path: str, label: str, split: Split, root: Path, pattern: re.Pattern[str], where: str
) -> Item:
    relative = Path(path.replace("\\", "/")).as_posix()
    if Path(relative).is_absolute() or ".." in relative.split("/"):
        raise UserError(f"{where}: {path} is not a path below the root {root}.")
    match = pattern.fullmatch(relative.rpartition("/")[0])
    if match is None:
        raise UserError(
            f"{where}: {path} does not have the layout {_layout_of(pattern)}. Name the layout of "
            "your paths: --set layout={domain}/{class}"
        )
    if not (root / relative).is_file():
        raise UserError(f"{where}: there is no file {root / relative}.")
    named = match.groupdict()
    known = label if label and not label.isdigit() else named["class"]
    return Item(named["domain"], known, relative, split or _split_word(named.get("split") or ""))


def _layout_of(pattern: re.Pattern[str]) -> str:
    return "/".join(f"{{{name}}}" for name in pattern.groupindex)


def _nothing(root: Path, layout: str) -> str:
    """Why no image was found, with the layout that the folder seems to have."""
    depths = {}
    for folder, _, files in os.walk(root):
        for name in files:
            if _is_image(name):
                relative = Path(folder).relative_to(root)
                depths[len(relative.parts)] = (relative / name).as_posix()
    if not depths:
        return f"{root} has no images: there is no file with a suffix such as .jpg or .png in it."
    depth, example = max(depths.items())
    return f"{root} has images, but none at the layout {layout}; an example: {example}. " + (
        "Put each class into a folder of its domain: DIR/photo/dog/1.jpg"
        if depth < 2
        else f"Name the layout, such as --set layout={'*/' * (depth - 2)}{DEFAULT_LAYOUT}"
    )
