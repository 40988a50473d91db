"""Where runs are on disk: the folders ``<root>/<dataset>/<method>/<id>`` of a runs folder."""

import os
from pathlib import Path

from sdgbench.errors import UserError, unknown


def run_folders(
    root: Path, containing: str = "", problems: list[UserError] | None = None
) -> list[str]:
    """All run folders of a runs folder in order, or only those that contain a file of this name.

    Links to folders are not followed, so that every command sees the same runs; ``problems``
    gets an error for each.

    Texts and ``os.scandir`` instead of ``Path.glob``: a fifth of the time for thousands of runs.
    """
    folders = [str(root)]
    for _ in ("dataset", "method", "id"):
        folders = [sub for folder in folders for sub in _subfolders(folder, problems)]
    if not containing:
        return folders
    return [folder for folder in folders if os.path.lexists(f"{folder}/{containing}")]


def record_files_below(folder: Path, problems: list[UserError] | None = None) -> list[Path]:
    """All ``record.json`` at any depth below a folder, which need not be a whole runs folder.

    Links to folders are not followed, as in ``run_folders``.
    """
    files = []
    for parent, folders, names in os.walk(folder):
        if problems is not None:
            paths = (os.path.join(parent, name) for name in sorted(folders))  # noqa: PTH118
            problems += [not_followed(path) for path in paths if os.path.islink(path)]  # noqa: PTH114
        if "record.json" in names:
            files.append(Path(parent, "record.json"))
    return sorted(files)


def not_followed(path: str) -> UserError:
    """What a command says about a link in a runs folder."""
    return UserError(f"{path} is a link, which is not followed.")


def find_run(root: Path, start: str) -> Path:
    """The folder of the one run whose id starts with ``start``, finished or not."""
    folders = [Path(folder) for folder in run_folders(root)]
    matching = [path for path in folders if path.name.startswith(start)]
    if not matching:
        known = [path.name for path in folders if (path / "record.json").exists()]
        raise unknown(
            f"run in {root} with the id",
            start,
            known,
            f"Ids are the folders in {root}/DATASET/METHOD.",
        )
    if len(matching) > 1:
        names = ", ".join(path.name for path in matching[:5])
        raise UserError(
            f'"{start}" is the start of {len(matching)} ids: {names}. Give more characters.'
        )
    return matching[0]


def find_finished_run(which: Path | str, root: Path) -> Path:
    """The folder of a finished run, given as that folder, as its record, or by its id in a root."""
    path = Path(which)
    if path.name == "record.json" and path.is_file():
        return path.parent
    if path.is_dir() and (path / "record.json").is_file():
        return path
    if len(path.parts) != 1 or path.is_dir():
        raise UserError(f"There is no finished run in {path}. Give its folder or its id.")
    folder = find_run(root, str(which))
    if not (folder / "record.json").exists():
        raise UserError(f"The run {folder} is not finished. Run its command again to go on.")
    return folder


def _subfolders(folder: str, problems: list[UserError] | None) -> list[str]:
    folders = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif problems is not None and entry.is_symlink() and entry.is_dir():
                    problems.append(not_followed(entry.path))
    except OSError:  # deleted meanwhile, or no permission to read it
        return []
    return sorted(folders)
