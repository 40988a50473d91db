"""The tables and the page of a runs folder, which ``run`` refreshes at its end."""

from pathlib import Path

from sdgbench import storage
from sdgbench.api.tables import compare_tables
from sdgbench.leaderboard import leaderboards, load, render
from sdgbench.paper.style import COLOUR_ORDER
from sdgbench.paper.views import VIEWS
from sdgbench.report import page

FOLDER = "leaderboards"
SUFFIXES = {"md": "tables.md", "csv": "tables.csv"}
NO_SAMPLES = {"missing": "This page was made without sample images. With them: sdgbench report"}


def refresh(runs: Path) -> Path:
    """Write the leaderboards of all records of a runs folder; returns the page."""
    loaded = load([runs])
    boards = leaderboards(loaded.runs)
    tables = compare_tables(boards)
    folder = runs / FOLDER
    for style, name in SUFFIXES.items():
        _write(folder / name, render(tables, style).encode())
    text = page.render(
        boards, lambda board: NO_SAMPLES, len(loaded.problems), views=VIEWS, usual=COLOUR_ORDER
    )
    page.write(folder / "index.html", text)
    return folder / "index.html"


def try_to_refresh(runs: Path) -> str:
    """The same for the end of a command: whatever goes wrong is a line, never an error."""
    try:
        return f"Leaderboards: {refresh(runs)}"
    except Exception as error:
        return f"The leaderboards of {runs} could not be written: {type(error).__name__}: {error}"


def _write(path: Path, data: bytes) -> None:
    storage.write_atomic(path, lambda file: file.write(data), durable=False)
