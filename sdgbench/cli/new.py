"""``sdgbench new``: write the first version of a method's or a dataset's file, which runs."""

import importlib
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import click

from sdgbench import registry
from sdgbench.cli import templates
from sdgbench.errors import UserError, explain_os_errors


@click.group("new", epilog="Examples: sdgbench new method my-idea; sdgbench new dataset my-data")
def command() -> None:
    """Write the file of a new method or dataset."""


def _output(folder: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    where = f"{folder}/NAME.py in a checkout of sdgbench, else NAME.py here"
    return click.option(
        "--output",
        "-o",
        metavar="FILE.py",
        type=click.Path(path_type=Path),
        help=f"Write this file. Default: {where}.",
    )


@command.command(
    "method",
    epilog="""\b
Examples:
  sdgbench new method my-idea
  sdgbench new method my-idea --output ideas/first.py""",
)
@click.argument("name")
@_output("methods")
def method(name: str, output: Path | None) -> None:
    """Write a commented file that runs and passes ``sdgbench check``; then add your idea."""
    file, shown, plugin = _write("methods", name, output, templates.METHOD)
    click.echo(
        f"Wrote {file}, which trains with noise on the images. Make it yours, then:\n"
        f"  sdgbench check {shown}\n"
        f"  sdgbench run --method erm,{name} --dataset digits-mini --preset smoke{plugin}\n"
        f"  sdgbench compare --dataset digits-mini --preset smoke"
    )


@command.command(
    "dataset",
    epilog="""\b
Examples:
  sdgbench new dataset my-data
  sdgbench new dataset my-data --output data/mine.py
Folders of images need no file: sdgbench run --dataset folder --set root=DIR ...""",
)
@click.argument("name")
@_output("datasets")
def dataset(name: str, output: Path | None) -> None:
    """Write a commented file that runs and passes ``sdgbench check``; then add your data."""
    file, shown, plugin = _write("datasets", name, output, templates.DATASET)
    click.echo(
        f"Wrote {file}, which draws stripes. Make it yours, then:\n"
        f"  sdgbench check {shown}\n"
        f"  sdgbench run --method erm --dataset {name} --preset smoke{plugin}\n"
        f"  sdgbench compare --dataset {name} --preset smoke"
    )


def _write(kind: str, name: str, output: Path | None, text: str) -> tuple[Path, str, str]:
    """Write a template; returns the file, its name for a shell, and the --plugin it needs."""
    _refuse_taken_name(name)
    file = output or _default_folder(kind) / f"{re.sub('[-.]', '_', name)}.py"
    if file.suffix != ".py":
        raise UserError(f"{file} does not end in .py. {kind.capitalize()} are Python files.")
    if file.exists():
        raise UserError(f"{file} exists and is not overwritten. Choose another name or --output.")
    text = text.replace("@NAME@", name).replace("@CLASS@", _class_name(name))
    with explain_os_errors("write", file), file.open("x", encoding="utf-8") as opened:
        opened.write(text)
    shown = shlex.quote(str(file))
    return file, shown, "" if _is_built_in(kind, file) else f" --plugin {shown}"


def _refuse_taken_name(name: str) -> None:
    registry.check_name(name)
    kinds: tuple[registry.Kind, ...] = ("method", "dataset")
    for kind in kinds:
        if taken := registry.entries(kind).get(name):
            raise UserError(
                f'The name "{name}" is taken by the {kind} in {taken.file} ({taken.origin}). '
                "Choose another."
            )


def _class_name(name: str) -> str:
    words = re.split("[-._]+", name)
    class_name = "".join(word[:1].upper() + word[1:] for word in words)
    reserved = (
        "Any",
        "Classification",
        "Dataset",
        "Domain",
        "False",
        "Literal",
        "Method",
        "None",
        "Recipe",
        "Split",
        "Tensor",
        "True",
    )
    if class_name in reserved or class_name[0].isdigit():
        return f"My{class_name}"
    return class_name


def _default_folder(kind: str) -> Path:
    checkout = Path("methods/erm.py").is_file() and Path("sdgbench/method.py").is_file()
    return Path(kind) if checkout else Path()


def _is_built_in(kind: str, file: Path) -> bool:
    """Whether the registry finds the file without ``--plugin``."""
    folders = importlib.import_module(f"sdgbench.{kind}").__path__
    return file.resolve().parent in [Path(folder).resolve() for folder in folders]
