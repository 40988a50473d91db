"""What a user reads when a method crashes: its own lines first, the harness's last."""

import traceback
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from sdgbench import registry
from sdgbench.errors import printable
from sdgbench.spec.run_spec import RunSpec

LIBRARY_FRAMES = 3  # of code that is neither the method's nor ours: the innermost
CORE = Path(registry.__file__).resolve().parent


def describe_crash(error: BaseException, spec: RunSpec) -> str:
    """The error, then the frames of the method and dataset, of libraries, and of the harness.

    In each group the innermost frame comes first. The usual traceback is in ``failed.json``.
    """
    frames = list(reversed(traceback.extract_tb(error.__traceback__)))
    folders = {
        registry.get("method", spec.method).file.resolve().parent,
        registry.get("dataset", spec.dataset).file.resolve().parent,
    }
    groups: dict[str, list[traceback.FrameSummary]] = {"own": [], "library": [], "harness": []}
    for frame in frames:
        folder = Path(frame.filename).resolve().parent
        kind = "own" if folder in folders else "library"
        kind = "harness" if kind == "library" and folder.is_relative_to(CORE) else kind
        groups[kind].append(frame)
    lines = [f"{type(error).__name__}: {str(error).strip()}".rstrip(": ")]
    lines += _lines("", groups["own"], with_code=True)
    lines += _lines("in a library:", groups["library"][:LIBRARY_FRAMES], with_code=True)
    lines += _lines("called by the harness:", groups["harness"], with_code=not groups["own"])
    if cause := error.__cause__ or error.__context__:
        lines.append(f"  caused by {type(cause).__name__}: {str(cause).strip()}".rstrip(": "))
    return "\n".join(lines)


def print_crash(console: Console, spec: RunSpec, error: BaseException) -> None:
    """Print ``describe_crash``."""
    print_description(console, describe_crash(error, spec))


def print_description(console: Console, text: str) -> None:
    """Print what ``describe_crash`` made: in a terminal no line breaks inside a word."""
    whole = not console.is_terminal
    console.print(printable(text, keep="\n"), markup=False, highlight=False, soft_wrap=whole)


def _lines(
    title: str, frames: Sequence[traceback.FrameSummary], with_code: bool = False
) -> list[str]:
    lines = [f"  {title}"] if title and frames else []
    for frame in frames:
        lines.append(f"  {_short(frame.filename)}:{frame.lineno} in {frame.name}")
        if with_code and frame.line:
            lines.append(f"      {frame.line}")
    return lines


def _short(filename: str) -> str:
    """A file relative to the folder that installed it, or to the current one."""
    path = Path(filename).resolve()
    for folder in (
        CORE.parent,
        Path.cwd(),
        *(p for p in path.parents if p.name.endswith("-packages")),
    ):
        if path.is_relative_to(folder):
            return str(path.relative_to(folder))
    return str(path)
