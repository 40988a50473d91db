"""Tables of leaderboards: what ``sdgbench compare`` prints, as objects."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, overload

from sdgbench import storage
from sdgbench.api.arguments import Folder
from sdgbench.errors import UserError, unknown
from sdgbench.leaderboard import FORMATS, SUFFIXES, Leaderboard, Table, few_shot, render, sweep
from sdgbench.leaderboard.formats import html_table
from sdgbench.leaderboard.selection import (
    check_names,
    matching_methods,
    skipped,
    with_methods,
)
from sdgbench.leaderboard.views import available, make_table
from sdgbench.paper.ablation import ablate, next_to_paper
from sdgbench.paper.comparison import paper_tables
from sdgbench.paper.few_shot import with_published
from sdgbench.paper.views import VIEWS
from sdgbench.registry import BASELINE

if TYPE_CHECKING:
    import pandas as pd

VIEW_NAMES = (*VIEWS, few_shot.VIEW, sweep.VIEW)
Tell = Callable[[str], object]


class Tables(Sequence[Table]):
    """Finished tables: text when printed, HTML in a notebook, a file with ``save``.

    >>> records.compare().save("table.md").name
    'table.md'
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        self.tables = tuple(tables)

    @overload
    def __getitem__(self, index: int) -> Table: ...
    @overload
    def __getitem__(self, index: slice) -> "Tables": ...
    def __getitem__(self, index: int | slice) -> "Table | Tables":
        return Tables(self.tables[index]) if isinstance(index, slice) else self.tables[index]

    def __len__(self) -> int:
        return len(self.tables)

    def __iter__(self) -> Iterator[Table]:
        return iter(self.tables)

    def __str__(self) -> str:
        return self.render("table")

    def __repr__(self) -> str:
        return f"<Tables: {'; '.join(table.title for table in self)}>"

    def _repr_html_(self) -> str:
        return "\n".join(map(html_table, self))

    def render(self, style: str = "md") -> str:
        """The tables as text: table, md, latex, csv, json or html."""
        if style not in FORMATS:
            raise unknown("format", style, FORMATS)
        return render(self.tables, style)

    def save(self, path: Folder) -> Path:
        """Write the tables to a file in the format that its suffix names."""
        path = Path(path)
        text = self.render(style_of(path))
        storage.write_atomic(path, lambda file: file.write(text.encode()))
        return path

    def to_frame(self) -> "pd.DataFrame":
        """The rows of all tables, with the columns of the CSV format."""
        from io import StringIO

        import pandas as pd

        return pd.read_csv(StringIO(self.render("csv")))


def style_of(path: Path) -> str:
    """The format that a file's suffix names."""
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(
            f'The suffix of "{path}" names no format. Use {", ".join(SUFFIXES)}, or --format.'
        )
    return SUFFIXES[path.suffix.lower()]


def compare_tables(
    boards: Sequence[Leaderboard],
    *,
    view: str = "domains",
    methods: Sequence[str] = (),
    sort: str = "",
    baseline: str = BASELINE,
    choice: str = "last",
    ablated: str = "",
    paper: bool = False,
    tell: Tell = lambda text: None,
    damaged: list[UserError] | None = None,
) -> list[Table]:
    """The tables of one view of some leaderboards; remarks for a person go to ``tell``.

    ``damaged`` gets an error for each file of the runs that could not be read.
    """
    if view not in VIEW_NAMES:
        raise unknown("view", view, VIEW_NAMES)
    if choice not in ("last", "val"):
        raise unknown("choice of weights", choice, ("last", "val"))
    if ablated:
        boards, baseline = ablate(boards, ablated), ablated
    methods = matching_methods(boards, methods)
    shown = with_methods(boards, methods)
    if baseline != BASELINE:  # without that one, tables say what to run
        check_names(boards, [baseline], "baseline")
    if view == few_shot.VIEW:
        if choice != "last":
            raise UserError("Adaptations start from the last iterate. Omit --choice.")
        return _few_shot(shown, baseline, sort, methods, tell, damaged)
    if view == sweep.VIEW:
        return _sweep(shown, choice, methods)
    fitting = [board for board in shown if view in available(board, VIEWS)]
    if not fitting:
        names = dict.fromkeys(name for board in shown for name in available(board, VIEWS))
        known = ", ".join(name for name in VIEWS if name in names)
        raise UserError(f"Nothing here has the view {view}. There is: {known}.")
    tables: list[Table] = []
    unsortable: list[UserError] = []
    for board in fitting:
        try:
            tables.append(make_table(board, view, choice, baseline, sort, methods, VIEWS))
        except UserError as error:
            if not sort:
                raise
            unsortable.append(error)
            tables.append(make_table(board, view, choice, baseline, "", methods, VIEWS))
        # Leaderboards of one dataset share what is published for it.
        published = _published(board, choice, methods, ablated, paper, tell)
        tables += [table for table in published if table not in tables]
    if len(unsortable) == len(fitting):
        raise unsortable[0]
    if settings := sweep.swept_settings(shown, methods):
        tell(f"The values of {', '.join(settings)} side by side: --view {sweep.VIEW}")
    return tables


def _published(
    board: Leaderboard,
    choice: str,
    methods: Sequence[str],
    ablated: str,
    paper: bool,
    tell: Tell,
) -> list[Table]:
    """The paper's numbers that go with a leaderboard: of its ablations, and with --paper all."""
    variants = next_to_paper(board, ablated, choice) if ablated else None
    measured_here = paper and not board.protocol.elsewhere
    published = paper_tables(board, choice, methods) if measured_here else []
    if measured_here and not published:
        remark = f" [{board.remark}]" if board.remark else ""
        tell(f"Nothing is published for {board.dataset}{remark}.")
    return [*([variants] if variants else []), *published]


def _sweep(shown: Sequence[Leaderboard], choice: str, methods: Sequence[str]) -> list[Table]:
    tables = sweep.sweep_tables(shown, choice, methods)
    if not tables:
        raise UserError(
            "No setting of a recipe or a dataset has several values here. Run some: "
            "sdgbench run --grid recipe.lr=1e-4,1e-3 ... A parameter of a method has its values "
            "as rows of the usual table."
        )
    return tables


def _few_shot(
    shown: Sequence[Leaderboard],
    baseline: str,
    sort: str,
    methods: Sequence[str],
    tell: Tell,
    damaged: list[UserError] | None,
) -> list[Table]:
    tables, problems = few_shot.few_shot_tables(shown, baseline, sort, methods)
    if damaged is not None:
        damaged += problems
    for line in skipped(problems):
        tell(line)
    if not tables:
        raise UserError("None of these runs was adapted. Do it: sdgbench adapt --help")
    return with_published(tables)
