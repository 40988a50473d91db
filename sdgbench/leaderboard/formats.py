"""Tables as Markdown, LaTeX, CSV, JSON and HTML. Names may hold anything: all text is escaped."""

import csv
import html
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from sdgbench.leaderboard.layout import clean, leading
from sdgbench.leaderboard.names import display_name
from sdgbench.leaderboard.table import TIE, Cell, Column, Table

RULES = {  # of a tabular: top, middle, bottom
    "booktabs": (r"\toprule", r"\midrule", r"\bottomrule"),
    "plain": (r"\hline", r"\hline", r"\hline"),
}
# Notes without which no number is shown: a caption has them, too.
MARKS = re.compile("^(unverified data|regenerated): |: starts from pretrained weights$")
# A table that is wider than the text is made smaller: else it would be cut off.
FIT = r"\ifdim\wd0>\linewidth\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi"


# Markdown


def markdown_text(value: object) -> str:
    """Escape for Markdown, also inside of a table."""
    text = re.sub(r"([\\`*\[\]<>|~$&])", r"\\\1", clean(value))
    return re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", text)  # within a word it means nothing


def _markdown_cell(cell: Cell) -> str:
    text = markdown_text(cell)
    if cell.rank == 1:
        return f"**{text}**"
    return f"<u>{text}</u>" if cell.rank == 2 else text


def _markdown(table: Table) -> str:
    names = [markdown_text(column.name) for column in table.columns]
    text = [f"**{markdown_text(table.title)}**", ""]
    head = [table.label, *(["n"] if table.is_counted else [])]
    text.append(f"| {' | '.join([*head, *names])} |")
    sides = ["---", *(["--:"] if table.is_counted else []), *map(_side, table.columns)]
    text.append(f"|{'|'.join(sides)}|")
    for line in table.lines:
        cells = [_markdown_cell(line.cells[column.name]) for column in table.columns]
        text.append(f"| {' | '.join([*leading(table, line, markdown_text), *cells])} |")
    text.append("")
    if table.reduced:
        text.append(f"- **Reduced scale**: {markdown_text(table.reduced)}")
    text += [f"- {markdown_text(note)}" for note in table.notes]
    if table.legend:
        text.append(f"- {markdown_text('; '.join(table.legend))}")
    return "\n".join(text).rstrip("\n") + "\n"


def _side(column: Column) -> str:
    return "---" if column.is_text else "--:"


def markdown(tables: Sequence[Table]) -> str:
    """All tables, one after another."""
    return "\n".join(_markdown(table) for table in tables)


# LaTeX

_LATEX = {  # \$ would ask for a font that a small TeX lacks
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\char36{}",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "{''}",
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",  # after a line's end they would be read as its arguments
    "±": r"$\pm$",
    TIE: r"$\approx$",
    "×": r"$\times$",
    "→": r"$\rightarrow$",
    "−": "$-$",
}


def latex_text(value: object) -> str:
    """Escape for LaTeX; letters that its usual fonts lack are named by their code."""
    text = "".join(
        _LATEX.get(char) or (char if _has_glyph(char) else f"U+{ord(char):04X}")
        for char in clean(value)
    )
    return re.sub(r"(?<=[-'`,!?])(?=[-'`,])", "{}", text)  # two that would become one sign


def _has_glyph(char: str) -> bool:
    return char.isascii() or (char.isalpha() and "À" <= char <= "ÿ" and char not in "ÐÞðþ")


def _latex_cell(cell: Cell) -> str:
    text = latex_text(re.sub(r"^-(?=\d)", "−", str(cell)))  # a hyphen is no minus
    if cell.rank == 1:
        return rf"\textbf{{{text}}}"
    return rf"\underline{{{text}}}" if cell.rank == 2 else text


def _latex_head(name: str) -> str:
    """The heading of a column: "gain vs ERM" where files say gain_vs_erm."""
    kind, against, baseline = name.partition("_vs_")
    return f"{kind} vs {display_name(baseline)}" if against and kind in ("gain", "p") else name


def _latex(table: Table, rules: str, with_notes: bool) -> str:
    top, middle, bottom = RULES[rules]
    marked = "; ".join(note for note in table.notes if MARKS.search(note))
    reduced = f"Reduced scale: {table.reduced}" if table.reduced else ""
    parts = (table.title, reduced, f"Note: {marked}" if marked else "")
    caption = ". ".join(part for part in parts if part)
    lines = [r"\begin{table}[htbp]", r"\centering\footnotesize\setlength{\tabcolsep}{4pt}"]
    # Room for underlines, and between the caption and the first rule.
    lines.append(r"\renewcommand{\arraystretch}{1.15}")
    lines.append(rf"\caption{{{latex_text(caption)}}}\smallskip")
    first = "lr" if table.is_counted else "l"
    sides = "".join("l" if column.is_text else "r" for column in table.columns)
    lines += [rf"\sbox0{{\begin{{tabular}}{{{first}{sides}}}", top]
    if any(column.group for column in table.columns):
        lines.append(" & " * len(first) + " & ".join(_latex_groups(table.columns)) + r" \\")
    heads = [latex_text(table.label), *(["n"] if table.is_counted else [])]
    heads += [latex_text(_latex_head(column.name)) for column in table.columns]
    lines += [" & ".join(heads) + r" \\", middle]
    for line in table.lines:
        titled = replace(line, method=display_name(line.method))
        cells = [_latex_cell(line.cells[column.name]) for column in table.columns]
        lines.append(" & ".join([*leading(table, titled, latex_text), *cells]) + r" \\")
    lines += [bottom, r"\end{tabular}}%", FIT]
    legend = "; ".join(table.legend)
    for column in table.columns:
        legend = legend.replace(f"{column.name}: ", f"{_latex_head(column.name)}: ")
    notes = [*table.notes, *([legend] if legend else [])]
    if with_notes:
        lines.append(r"\par\smallskip\begin{minipage}{\linewidth}\raggedright\scriptsize")
        lines += [rf"{latex_text(note)}\par" for note in notes]
        lines.append(r"\end{minipage}")
    else:  # what a reader must know stays next to the numbers
        lines += [f"% {clean(note)}" for note in notes]
    return "\n".join([*lines, r"\end{table}", ""])


def _latex_groups(block: Sequence[Column]) -> Iterator[str]:
    position = 0
    while position < len(block):
        group = block[position].group
        width = next(
            (i for i, column in enumerate(block[position:]) if column.group != group),
            len(block) - position,
        )
        yield rf"\multicolumn{{{width}}}{{c}}{{{latex_text(group)}}}"
        position += width


def latex(tables: Sequence[Table], rules: str = "booktabs", with_notes: bool = False) -> str:
    """Tables for a paper: one tabular each, display names of methods, notes as comments."""
    needs = "booktabs,graphicx" if rules == "booktabs" else "graphicx"
    return f"% needs \\usepackage{{{needs}}}\n" + "\n".join(
        _latex(table, rules, with_notes) for table in tables
    )


# CSV and JSON


def flat(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """One flat row per line of each table: means and half-widths, unrounded."""
    rows = []
    for table in tables:
        for line in table.lines:
            row: dict[str, Any] = {"table": table.kind, "method": line.method, "n": line.n}
            row["seeds"] = ",".join(map(str, line.seeds))
            for column in table.columns:
                cell = line.cells[column.name]
                if column.is_text:
                    row[column.name] = cell.text
                    continue
                row[column.name] = cell.mean
                if cell.half is not None:
                    row[f"{column.name} {table.spread}"] = cell.half
                if cell.text:
                    row[f"{column.name} says"] = cell.text
            row["ties_with_best"] = ", ".join(
                column.name for column in table.columns if line.cells[column.name].ties
            )
            row["notes"] = "; ".join(table.notes)
            rows.append({**table.facts, **row})
    return [
        {clean(k): clean(v) if isinstance(v, str) else v for k, v in row.items()} for row in rows
    ]


def as_json(tables: Sequence[Table]) -> str:
    """All lines as one JSON list of flat objects."""
    return json.dumps(flat(tables), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_csv(tables: Sequence[Table]) -> str:
    """All lines as one CSV file with the columns that any of them has."""
    rows = flat(tables)
    last = ["ties_with_best", "notes"]
    names = [n for n in dict.fromkeys(name for row in rows for name in row) if n not in last]
    file = io.StringIO()
    writer = csv.DictWriter(file, [*names, *last], restval="", lineterminator="\n")
    writer.writerow({name: _inert(name) for name in writer.fieldnames})
    for row in rows:
        writer.writerow({k: _inert(v) if isinstance(v, str) else v for k, v in row.items()})
    return file.getvalue()


def _inert(text: str) -> str:
    """Text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text[:1] in tuple("=+-@") and text else text


# HTML

_STYLE = (
    "body{font:14px system-ui,sans-serif;margin:2em}table{border-collapse:collapse;margin:1em 0}"
    "th,td{padding:.2em .7em;text-align:right;white-space:nowrap}thead{border-bottom:1px solid}"
    "th:first-child,td:first-child,.text{text-align:left}caption{font-weight:bold;text-align:left}"
    "ul{color:#555}"
)


def html_text(value: object) -> str:
    """Escape for HTML."""
    return html.escape(clean(value))


def html_table(table: Table) -> str:
    """One table with its notes and legend below it, as a fragment for any page."""
    heads = "".join(
        f'<th scope="col"{_class(c)} title="{html_text(c.definition)}">{html_text(c.name)}</th>'
        for c in table.columns
    )
    text = [f'<table class="{html_text(table.kind)}"><caption>{html_text(table.title)}</caption>']
    text.append("<thead>")
    if any(column.group for column in table.columns):
        groups = "".join(
            f'<th scope="colgroup" colspan="{len(columns)}">{html_text(name)}</th>'
            for name, columns in table.groups()
        )
        text.append(f'<tr><td colspan="{1 + table.is_counted}"></td>{groups}</tr>')
    first = [html_text(table.label), *(["n"] if table.is_counted else [])]
    heads = "".join(f'<th scope="col">{name}</th>' for name in first) + heads
    text.append(f"<tr>{heads}</tr>")
    text.append("</thead><tbody>")
    for line in table.lines:
        cells = "".join(
            f"<td{_class(column)}>{_html_cell(line.cells[column.name])}</td>"
            for column in table.columns
        )
        names = "".join(f"<td>{name}</td>" for name in leading(table, line, html_text))
        text.append(f"<tr>{names}{cells}</tr>")
    text.append("</tbody></table><ul>")
    if table.reduced:
        text.append(f"<li><strong>Reduced scale</strong>: {html_text(table.reduced)}</li>")
    for note in [*table.notes, *(["; ".join(table.legend)] if table.legend else [])]:
        text.append(f"<li>{html_text(note)}</li>")
    return "\n".join([*text, "</ul>"])


def _class(column: Column) -> str:
    return ' class="text"' if column.is_text else ""


def _html_cell(cell: Cell) -> str:
    text = html_text(cell)
    if cell.rank == 1:
        return f"<strong>{text}</strong>"
    return f"<u>{text}</u>" if cell.rank == 2 else text


def as_html(tables: Sequence[Table]) -> str:
    """A plain page of tables."""
    body = "\n".join(html_table(table) for table in tables)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>sdgbench</title>'
        f"<style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def as_text(tables: Sequence[Table]) -> str:
    """What a terminal shows, without colours."""
    from sdgbench.leaderboard import terminal  # only here: other formats need no rich

    return terminal.plain(tables)


FORMATS: dict[str, Callable[[Sequence[Table]], str]] = {
    "table": as_text,
    "md": markdown,
    "latex": latex,
    "csv": as_csv,
    "json": as_json,
    "html": as_html,
}
SUFFIXES = {
    ".txt": "table",
    ".md": "md",
    ".tex": "latex",
    ".csv": "csv",
    ".json": "json",
    ".html": "html",
    ".htm": "html",
}


def render(tables: Sequence[Table], style: str) -> str:
    """Render tables in one of FORMATS."""
    return FORMATS[style](tables)
