"""``sdgbench info``: describe a method, a dataset or a network."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sdgbench import registry
from sdgbench.cli import options
from sdgbench.errors import UserError, unknown

if TYPE_CHECKING:
    from rich.console import Console


@click.command(
    "info",
    epilog="Examples: sdgbench info digits-mini; sdgbench info mada --dataset pacs; "
    "sdgbench info timm:resnet18",
)
@click.argument(
    "name",
    shell_complete=lambda ctx, param, text: [
        name
        for name in [*registry.entries("method"), *registry.entries("dataset")]
        if name.startswith(text)
    ],
)
@click.option(
    "--dataset",
    metavar="NAME",
    shell_complete=options.completer("dataset"),
    help="Show a method's parameters on this dataset, and where each comes from.",
)
@click.option(
    "--preset",
    default="paper",
    show_default=True,
    metavar="NAME",
    help="The preset of --dataset: paper, quick or smoke.",
)
@options.data
@options.plugins
def command(name: str, dataset: str | None, preset: str, data: Path) -> None:
    """Describe a method, a dataset or a network: what it is, parameters, recipe, domains."""
    from rich.console import Console

    methods, datasets = registry.entries("method"), registry.entries("dataset")
    networks = registry.entries("network")
    console = Console(highlight=False)
    kind = next(
        (key for key in networks if name == key or name.startswith((f"{key}:", f"{key}-"))), ""
    )
    if name not in methods and name not in datasets and kind:
        _network(console, networks[kind], name)
        return
    if name not in methods and name not in datasets:
        known = [*methods, *datasets, *networks]
        raise unknown("method, dataset or network", name, known, "All: sdgbench list")
    if dataset and name not in methods:
        raise UserError(f"{name} is no method, and --dataset shows a method's parameters. Omit it.")
    if dataset:
        _head(console, methods[name])
        _resolved(console, methods[name], registry.get("dataset", dataset), preset)
        return
    if name in methods:
        _method(console, methods[name])
    if name in datasets:
        _dataset(console, datasets[name], data)


def _head(console: "Console", entry: registry.Entry) -> None:
    title = f" ({entry.title})" if entry.kind == "method" and entry.title != entry.name else ""
    console.print(f"{entry.kind} {entry.name}{title}", style="bold", markup=False)
    for paragraph in entry.doc.split("\n\n"):
        console.print(" ".join(paragraph.split()), markup=False)
    if entry.details.get("paper"):
        console.print(f"Paper: {entry.details['paper']}", markup=False)
    for task, reason in entry.details.get("skips", {}).items():
        console.print(f"Not for {task}: {reason}.", markup=False)
    for flag, reason in entry.details.get("flags", {}).items():
        console.print(f"Flag {flag}: {reason}.", style="yellow", markup=False)
    console.print(f"File: {entry.file}", markup=False, soft_wrap=True)


def _settings(console: "Console", title: str, cls: Any, values: dict[str, Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from sdgbench.spec import parameters

    fields = parameters.fields(cls)
    console.print()
    console.print(f"{title}{'' if fields else ': none'}", style="bold")
    if fields:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        for column in ("key", "value", "doc"):
            table.add_column(column, no_wrap=column == "key", overflow="fold")
        for name, field in fields.items():
            default = parameters.show(values.get(name, field.default)) or "-"
            range_ = f"; tune: {field.search}" if field.search else ""
            about = f"{field.doc} ({field.type_name}{range_})"
            table.add_row(escape(name), escape(default), escape(about))
        console.print(table)


def _method(console: "Console", entry: registry.Entry) -> None:
    from sdgbench.spec import parameters

    cls = entry.load()
    _head(console, entry)
    _settings(console, "Parameters (--set key=value)", cls.Params, {})  # type: ignore[attr-defined]
    for where, values in getattr(cls, "per_dataset", {}).items():
        changed = ", ".join(f"{key}={parameters.show(value)}" for key, value in values.items())
        console.print(f"On {where}: {changed}", markup=False)
    for where, values in getattr(cls, "recipes", {}).items():
        changed = ", ".join(f"{key}={parameters.show(value)}" for key, value in values.items())
        console.print(
            f"Published recipe on {where} (--set recipe=published): {changed}", markup=False
        )


def _resolved(
    console: "Console", entry: registry.Entry, dataset: registry.Entry, preset: str
) -> None:
    """The method's parameters on a dataset, each with where it comes from."""
    from rich.markup import escape
    from rich.table import Table

    from sdgbench.dataset import Dataset
    from sdgbench.method import Method
    from sdgbench.spec import parameters
    from sdgbench.spec.run_spec import explained_defaults

    cls: type[Method] = entry.load()
    where: type[Dataset] = dataset.load()
    size = where.recipe(preset).image_size
    console.print()
    console.print(
        f"Parameters on {dataset.name} at {preset} ({size[0]} x {size[1]} pixels)", style="bold"
    )
    if reason := cls.skip(where.task):
        console.print(f"Not for {where.task.kind}: {reason}.", markup=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("parameter", "value", "default", "from"):
        table.add_column(title, no_wrap=title == "parameter", overflow="fold")
    usual = parameters.fields(cls.Params)
    explained = explained_defaults(cls, where, preset)
    for name, (value, origin) in explained.items():
        shown, default = parameters.show(value) or "-", parameters.show(usual[name].default) or "-"
        row = [name, shown, "" if default == shown else default, origin]
        table.add_row(*map(escape, row), style="" if origin != "default" else "dim")
    console.print(table)
    rules = [vars(c)["scaled"].__doc__ for c in cls.__mro__ if "scaled" in vars(c)][:-1]
    if any(layer.startswith("rule") for _, layer in explained.values()):
        console.print("The rules for datasets without published values:", markup=False)
        for rule in rules:  # those of all base classes but Method
            console.print(f"- {' '.join((rule or '').split())}", markup=False)


def _network(console: "Console", entry: registry.Entry, name: str) -> None:
    """What a network is; its size, normalisation and stages if the name is that of one."""
    _head(console, entry)
    examples = ", ".join(entry.details.get("examples", (entry.name,)))
    console.print(f"For {entry.details.get('task', 'classification')}. Examples: {examples}")
    if name == entry.name and name not in entry.details.get("examples", (name,)):
        return
    from sdgbench import networks

    cls, variant = networks.load(name)
    classes, size = 10, (224, 224) if name.startswith(("timm:", "smp:", "fcn32")) else (32, 32)
    network = networks.build(name, classes, size)
    count = sum(weight.numel() for weight in network.parameters())
    address = cls.hub_address(variant)
    console.print()
    console.print(f"Parameters: {count:,} with {classes} classes and {size[0]} x {size[1]} pixels")
    stages = network.stage_names()
    console.print(f"Stages: {', '.join(stages) if stages else 'none'}", markup=False)
    if network.normalises:
        mean, std = (
            ", ".join(f"{value:.3g}" for value in tensor.flatten().tolist())
            for tensor in (network.mean, network.std)
        )
        console.print(f"Normalisation: mean {mean}; standard deviation {std}")
    console.print(f"Pretrained weights: {address.name if address else 'none'}", markup=False)


def _dataset(console: "Console", entry: registry.Entry, data: Path) -> None:
    from rich.markup import escape
    from rich.table import Table

    from sdgbench.data.domain import Domain
    from sdgbench.dataset import Dataset
    from sdgbench.errors import MissingData
    from sdgbench.launch import progress
    from sdgbench.recipe import PRESETS, Recipe
    from sdgbench.spec import parameters

    cls: type[Dataset] = entry.load()
    _head(console, entry)
    options_used = parameters.build(cls.Options, {})
    _settings(console, "Options (--set key=value)", cls.Options, {})

    console.print()
    console.print("Recipe (--set recipe.key=value)", style="bold")
    presets = [name for name in PRESETS if name in cls.recipes()]
    recipes = [parameters.as_plain(cls.recipe(name)) for name in presets]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("", *presets):
        table.add_column(title, overflow="fold")
    for name in parameters.fields(Recipe):
        if name != "reduced":
            table.add_row(name, *(escape(parameters.show(recipe[name])) for recipe in recipes))
    console.print(table)
    for preset, recipe in zip(presets, recipes, strict=True):
        if recipe["reduced"]:
            console.print(f"{preset} is at reduced scale: {recipe['reduced']}", markup=False)

    console.print()
    console.print(
        f"Domains (task: {type(cls.task).__name__.lower()}, {cls.task.classes} classes, "
        f"scored by {cls.task.metric})",
        style="bold",
        markup=False,
    )
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
