"""``sdgbench info``: all about a method or a dataset."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sdgbench import registry
from sdgbench.cli import options
from sdgbench.errors import unknown

if TYPE_CHECKING:
    from rich.console import Console


@click.command("info", epilog="Examples: sdgbench info erm; sdgbench info digits-mini")
@click.argument("name", shell_complete=lambda ctx, param, text: [
    name for name in [*registry.entries("method"), *registry.entries("dataset")]
    if name.startswith(text)])  # fmt: skip
@options.data
@options.plugins
def command(name: str, data: Path) -> None:
    """Tell all about a method or a dataset: paper, parameters, recipe, domains, counts."""
    from rich.console import Console

    methods, datasets = registry.entries("method"), registry.entries("dataset")
    if name not in methods and name not in datasets:
        raise unknown("method or dataset", name, [*methods, *datasets], "All: sdgbench list")
    console = Console(highlight=False)
    if name in methods:
        _method(console, methods[name])
    if name in datasets:
        _dataset(console, datasets[name], data)


def _head(console: "Console", entry: registry.Entry) -> None:
    console.print(f"{entry.kind} {entry.name}", style="bold", markup=False)
    for paragraph in entry.doc.split("\n\n"):
        console.print(" ".join(paragraph.split()), markup=False)
    if entry.details.get("paper"):
        console.print(f"Paper: {entry.details['paper']}", markup=False)
    console.print(f"File: {entry.file}", markup=False, soft_wrap=True)


def _settings(console: "Console", title: str, cls: Any, values: dict[str, Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from sdgbench import settings

    fields = settings.fields(cls)
    console.print()
    console.print(f"{title}{'' if fields else ': none'}", style="bold")
    if fields:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        for column in ("key", "value", "doc"):
            table.add_column(column, no_wrap=column == "key", overflow="fold")
        for name, field in fields.items():
            default = settings.show(values.get(name, field.default)) or "-"
            table.add_row(escape(name), escape(default), escape(f"{field.doc} ({field.type_name})"))
        console.print(table)


def _method(console: "Console", entry: registry.Entry) -> None:
    from sdgbench import settings

    cls = entry.load()
    _head(console, entry)
    _settings(console, "Parameters (--set key=value)", cls.Params, {})  # type: ignore[attr-defined]
    for where, values in getattr(cls, "per_dataset", {}).items():
        changed = ", ".join(f"{key}={settings.show(value)}" for key, value in values.items())
        console.print(f"On {where}: {changed}", markup=False)


def _dataset(console: "Console", entry: registry.Entry, data: Path) -> None:
    from rich.markup import escape
    from rich.table import Table

    from sdgbench import progress, settings
    from sdgbench.dataset import PRESETS, Dataset, Domain, MissingData, Recipe

    cls: type[Dataset] = entry.load()
    _head(console, entry)
    options_used = settings.build(cls.Options, {})
    _settings(console, "Options (--set key=value)", cls.Options, {})

    console.print()
    console.print("Recipe (--set recipe.key=value)", style="bold")
    presets = [name for name in PRESETS if name in cls.recipes()]
    recipes = [settings.as_plain(cls.recipe(name)) for name in presets]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("", *presets):
        table.add_column(title, overflow="fold")
    for name in settings.fields(Recipe):
        if name != "reduced":
            table.add_row(name, *(escape(settings.show(recipe[name])) for recipe in recipes))
    console.print(table)
    for preset, recipe in zip(presets, recipes, strict=True):
        if recipe["reduced"]:
            console.print(f"{preset} is at reduced scale: {recipe['reduced']}", markup=False)

    console.print()
    console.print(f"Domains (task: {type(cls.task).__name__.lower()}, {cls.task.classes} classes, "
                  f"scored by {cls.task.metric})", style="bold", markup=False)  # fmt: skip
    dataset = cls(data, options_used, cls.recipe(presets[0]))
    try:
        with progress.reporter(console, f"making {entry.name}") as reporter:
            dataset.prepare(reporter)
    except MissingData as error:
        console.print(str(error), style="yellow", markup=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("domain", "role", "images", "size", "tags"):
        table.add_column(title, justify="right" if title == "images" else "left")
    target_tags = cls.target_tags(options_used)
    source = cls.source_name(options_used)
    rows: list[tuple[str, str, Callable[[], Domain]]] = [
        (source, "source, train", lambda: dataset.source("train")),
        (source, "source, val", lambda: dataset.source("val")),
        *((name, "unseen", partial(dataset.target, name)) for name in target_tags),
    ]
    for name, role, load in rows:
        known = target_tags.get(name, {})
        tags = ", ".join(f"{key}={value}" for key, value in known.items())
        try:
            domain = load()
            count, size = f"{len(domain):,}", "x".join(map(str, domain.images.shape[2:]))
        except MissingData:
            count, size = "no data", ""
        table.add_row(name, role, count, size, escape(tags))
    console.print(table)
