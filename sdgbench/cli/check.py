"""``sdgbench check``: whether a method keeps the rules."""

import os
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sdgbench import registry
from sdgbench.cli import options
from sdgbench.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from sdgbench.conformance import Result

STYLES = {"ok": "green", "failed": "bold red", "skipped": "yellow"}


@click.command(
    "check",
    epilog="""\b
Examples:
  sdgbench check my_idea.py
  sdgbench check erm --dataset digits-mini""",
)
@click.argument("what", metavar="FILE_OR_NAME", shell_complete=options.completer("method"))
@click.option("--dataset", default="", metavar="NAMES", show_default="all embedded ones",
              shell_complete=options.completer("dataset"),
              help="Check on these datasets' synthetic twins.")  # fmt: skip
@options.data
@options.plugins
def command(what: str, dataset: str, data: Path) -> int:
    """Check that a method keeps the rules: all methods of a FILE.py, or one by its name.

    Each rule is checked on small synthetic twins of the datasets, with no data; at the end comes
    a real run at the smoke preset on each embedded one. Exit code 1: a rule is broken.
    """
    methods = _methods(what)
    names = options.names(dataset, "--dataset") if dataset else []
    for name in names:  # refuse typos before torch has loaded
        registry.get("dataset", name)
    from rich.console import Console

    console = Console(highlight=False)
    with console.status("starting"):
        import torch

        # Steps this small gain nothing from threads, and on a busy machine these wait for each
        # other for minutes.
        torch.set_num_threads(1)
        names = names or _embedded()
    broken = [name for name in methods if not _check(console, name, names, data)]
    return 1 if broken else 0


def _methods(what: str) -> list[str]:
    if not what.endswith(".py") and os.sep not in what:
        return [registry.get("method", what).name]
    file = Path(what).expanduser().resolve()
    if not file.is_file():
        raise UserError(f"There is no file {what}. To write one: sdgbench new method NAME")
    if not any(entry.file.resolve() == file for entry in registry.entries("method").values()):
        registry.add_plugin(file)
    entries = registry.entries("method").values()
    found = [entry.name for entry in entries if entry.file.resolve() == file]
    if not found:
        raise UserError(
            f'{what} registers no method. Write @register_method("my-name") above its class.'
        )
    return found


def _embedded() -> list[str]:
    from sdgbench.embedded import EmbeddedDataset

    entries = [entry for entry in registry.entries("dataset").values() if not entry.error]
    return [entry.name for entry in entries if issubclass(entry.load(), EmbeddedDataset)]


def _check(console: "Console", method: str, datasets: Sequence[str], data: Path) -> bool:
    """Print each check as it ends; say whether all passed."""
    from tempfile import TemporaryDirectory

    from sdgbench.conformance import World, examine_all

    console.print(f"{method} on {', '.join(datasets)}", style="bold", markup=False)
    began, endings = time.monotonic(), []
    with TemporaryDirectory(prefix="sdgbench-check-") as folder, console.status("") as status:
        worlds = [World(method, name, Path(folder, name), data) for name in datasets]

        for results in examine_all(worlds, lambda check: status.update(f"{check.name} ...")):
            _print(console, results)
            endings += [result.ending for result in results]
    failed = endings.count("failed")
    said = f"{failed} of {len(endings)} checks failed" if failed else "All checks passed"
    console.print(f"{said} in {time.monotonic() - began:.0f} s.",
                  style="bold red" if failed else "bold green")  # fmt: skip
    return not failed


def _print(console: "Console", results: "Sequence[Result]") -> None:
    """One line for a check; below it, once, what is wrong and where."""
    from rich.text import Text

    endings = {result.ending for result in results}
    ending = "failed" if "failed" in endings else "ok" if "ok" in endings else "skipped"
    check = results[0].check
    messages: dict[str, list[str]] = {}
    for result in results:
        if result.message:
            messages.setdefault(result.message, []).append(result.dataset)
    told = check.rule
    if ending == "skipped" and len(messages) == 1:  # the reason says more than the rule
        told, messages = next(iter(messages)), {}
    word = "FAILED" if ending == "failed" else ending
    line = Text.assemble((f"{word:<8}", STYLES[ending]), f"{check.name:<14}{told}")
    console.print(line, soft_wrap=True)
    for message, datasets in messages.items():
        where = "" if len(datasets) == len(results) else f"On {', '.join(datasets)}: "
        for part in f"{where}{message}".splitlines():
            console.print(_indented(part, console.width), soft_wrap=True, markup=False)


def _indented(line: str, width: int) -> str:
    indent = 8 + len(line) - len(line.lstrip())
    return textwrap.fill(line.strip(), width, initial_indent=" " * indent,
                         subsequent_indent=" " * indent)  # fmt: skip
