"""Tables on a terminal: numbers never wrap, wide tables go on below."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from sdgbench.leaderboard.layout import blocks, clean, leading
from sdgbench.leaderboard.table import Column, Table

GAP = INDENT = "  "
COMMAND = ": sdgbench "  # in a note
NUMBER = re.compile(r"(\d+)")
STYLES = {0: "", 1: "bold", 2: "underline"}
LONGEST_NAME = 34  # of a method; longer ones are broken into lines
LONGEST_HEAD = 22  # of a column
Styled = tuple[str, str]  # text and style
PLAIN_WIDTH = 100


def plain(tables: Sequence[Table], width: int = PLAIN_WIDTH) -> str:
    """The tables as text without colours."""
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False)
    show(console, tables)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def show(console: Console, tables: Sequence[Table], legend: bool = True) -> None:
    """Print tables, and how to read all of them once; colours only where the console has them."""
    for table in tables:
        console.print(Text(clean(table.title), style="bold"), soft_wrap=True)
        grids = _grids(table, console.width)
        for position, grid in enumerate(grids):
            if position:
                console.print()
            _print_grid(console, grid)
        if table.reduced:
            reduced = Text.assemble(("reduced scale", "yellow"), f": {clean(table.reduced)}")
            console.print(reduced)
        for note in table.notes:
            # Words are kept whole, but a command is one line: it will be copied.
            console.print(Text(clean(note), style="yellow"), soft_wrap=COMMAND in note)
        console.print()
    items = merged_legend(tables)
    if legend and items:
        console.print(Text(clean("; ".join(items)), style="dim"))
        console.print()


def merged_legend(tables: Sequence[Table]) -> list[str]:
    """The legends of several tables as one: what differs by a number alone is one item.

    Of "average: mean over 3 domains" and "... over 4 domains", neither is true of both tables.
    """
    numbers: dict[tuple[str, str], set[str]] = {}  # by the text around the only number
    for item in dict.fromkeys(item for table in tables for item in table.legend):
        term, colon, definition = item.partition(": ")
        before, *rest = NUMBER.split(definition)
        is_one = len(rest) == 2
        key = (term + colon + before, rest[1]) if is_one else (item, "")
        numbers.setdefault(key, set()).update(rest[:1] if is_one else ())
    return [
        f"{before}{' or '.join(sorted(shown, key=int))}{after}"
        for (before, after), shown in numbers.items()
    ]


@dataclass(frozen=True)
class Grid:
    """Texts in rows and columns, ready to be padded."""

    rows: list[list[Styled]]
    heads: int  # how many of the rows are headings
    left: list[bool]  # columns that are aligned to the left

    def widths(self) -> list[int]:
        """As wide as the widest cell; headings and names that are longer are broken."""
        widths = []
        for position, column in enumerate(zip(*self.rows, strict=True)):
            lengths = [cell_len(text) for text, _ in column]
            head, body = lengths[: self.heads], lengths[self.heads :]
            longest = max(body, default=0)
            if not position and longest > LONGEST_NAME:
                names = [text for text, _ in column[self.heads :]]
                pieces = (piece for name in names for piece in _fold(name, LONGEST_NAME))
                longest = max(map(cell_len, pieces))
            widths.append(max(longest, min(max(head, default=0), LONGEST_HEAD)))
        return widths


def _grids(table: Table, width: int) -> list[Grid]:
    """Blocks of columns with the method repeated."""
    upright = _grid(table, table.columns)
    lead, measured = 1 + table.is_counted, upright.widths()
    # A group's name is above its first column in each block, whichever that is.
    room = {
        column.name: len(GAP) + max(size, min(cell_len(clean(column.group)), LONGEST_HEAD))
        for column, size in zip(table.columns, measured[lead:], strict=True)
    }
    first = sum(measured[:lead]) + len(GAP) * (lead - 1)

    def divided(limit: int) -> list[list[Column]]:
        return blocks(table.columns, lambda cs: first + sum(room[c.name] for c in cs) <= limit)

    fitting = divided(width)
    if len(fitting) > 1:  # blocks of like width: no column stands alone if there is another way
        widths = (divided(limit) for limit in range(first + max(room.values()), width))
        fitting = next((even for even in widths if len(even) <= len(fitting)), fitting)
    return [_grid(table, block) for block in fitting]


def _grid(table: Table, columns: Sequence[Column]) -> Grid:
    rows: list[list[Styled]] = []
    if any(column.group for column in columns):
        seen: set[str] = set()
        groups: list[Styled] = []
        for column in columns:
            groups.append(("" if column.group in seen else column.group, "dim"))
            seen.add(column.group)
        rows.append([*[("", "")] * (1 + table.is_counted), *groups])
    first = [table.label, "n"] if table.is_counted else [table.label]
    rows.append([(name, "bold") for name in (*first, *(column.name for column in columns))])
    heads = len(rows)
    # Where a column has ties, the other numbers keep room for the sign: digits stay in line.
    with_ties = {c.name for c in columns if any(line.cells[c.name].ties for line in table.lines)}
    for line in table.lines:
        styled = [(name, "") for name in leading(table, line, str)]
        for column in columns:
            cell = line.cells[column.name]
            gap = "  " if column.name in with_ties and not cell.ties else ""
            styled.append((f"{cell}{gap}", STYLES[cell.rank]))
        rows.append(styled)
    cleaned = [[(clean(text), style) for text, style in row] for row in rows]
    left = [True, False][: 1 + table.is_counted]
    return Grid(cleaned, heads, [*left, *(column.is_text for column in columns)])


def _print_grid(console: Console, grid: Grid) -> None:
    widths = grid.widths()
    for row in grid.rows:
        parts = [_fold(text, width) for (text, _), width in zip(row, widths, strict=True)]
        for height in range(max(map(len, parts))):
            line: list[Styled] = []
            for position, (pieces, width) in enumerate(zip(parts, widths, strict=True)):
                text = pieces[height] if height < len(pieces) else ""
                room = " " * (width - cell_len(text))
                padded = [(room, ""), (text, row[position][1])]
                if grid.left[position]:
                    padded.reverse()
                line += [(GAP if position else "", ""), *padded]
            _print_line(console, line)


def _print_line(console: Console, line: Sequence[Styled]) -> None:
    if console.color_system is None:  # thousands of lines into a file need no styles
        console.file.write("".join(text for text, _ in line).rstrip() + "\n")
        return
    styled = Text.assemble(*line)
    styled.rstrip()
    console.print(styled, soft_wrap=True)


def _fold(text: str, width: int) -> list[str]:
    """Break a name that is longer than its column: between words, or else anywhere."""
    pieces, rest = [], text
    while cell_len(rest) > width:
        end = len(rest)
        while cell_len(rest[:end]) > width and end > 1:
            end -= 1
        space = rest.rfind(" ", len(rest) - len(rest.lstrip()) + 1, end + 1)
        end = space if space > 0 else end
        pieces.append(rest[:end].rstrip())
        rest = INDENT[: width // 2] + rest[end:].lstrip()  # a line that goes on is no other row
    return [*pieces, rest]
