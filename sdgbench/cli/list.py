"""``sdgbench list``: the methods, datasets and networks that are known."""

import click

from sdgbench import registry
from sdgbench.cli import options


@click.command("list", epilog="Example: sdgbench list --plugin my_method.py")
@options.plugins
def command() -> None:
    """List methods, datasets and networks, and where they come from."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    kinds: tuple[registry.Kind, ...] = ("method", "dataset", "network")
    for kind in kinds:
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for title in (kind, "what it is", "from"):
            table.add_column(title, overflow="fold", no_wrap=title != "what it is")
        for entry in registry.entries(kind).values():
            doc = entry.doc.split("\n\n")[0].replace("\n", " ") or entry.error
            for task, reason in entry.details.get("skips", {}).items():
                doc += f" Not for {task}: {reason}."
            for flag, reason in entry.details.get("flags", {}).items():
                doc += f" Flag {flag}: {reason}."
            style = "red" if entry.error else ""
            table.add_row(escape(entry.name), escape(doc), escape(entry.origin), style=style)
        console.print(table)
        console.print()
    console.print("Details: sdgbench info NAME", style="dim")
