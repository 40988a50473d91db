"""``sdgbench new``: a first file for a contributor, which already runs."""

import importlib
import re
import shlex
from pathlib import Path

import click

from sdgbench import registry
from sdgbench.errors import UserError, explain_os_errors

TEMPLATE = '''"""@NAME@: say here what the method is about."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sdgbench.method import Method
from sdgbench.registry import register_method
from sdgbench.settings import param


# Whose idea it is: authors, title, venue and year. `sdgbench info @NAME@` shows it.
@register_method("@NAME@", paper="")
class @CLASS@(Method):
    """Train on images with noise: replace this by a sentence of yours."""

    @dataclass(frozen=True)
    class Params:
        """What can be set, as in `--set noise=0.2`: a type, a default and a line each."""

        # A value at which the method becomes ERM lets a test show that nothing else differs.
        noise: float = param(0.1, "standard deviation of the noise on each pixel; 0: plain ERM")

        def __post_init__(self) -> None:
            if self.noise < 0:
                raise ValueError(f"noise must not be below 0, not {self.noise}")

    # Values for single datasets, where they differ from the defaults above:
    # per_dataset = {"digits": {"noise": 0.2}, "digits/quick": {"noise": 0.3}}

    def train_step(self, x: Tensor, y: Tensor) -> Tensor:
        """Learn from one batch of the source: images in [0, 1] and their labels."""
        # Draw random numbers as you like: each step starts freshly seeded.
        if self.params.noise > 0:
            x = x + self.params.noise * torch.randn_like(x)
        # The network and the task are those of the dataset; the loss is a mean cross-entropy
        # over images or pixels. optimise does the backward pass and the step, on schedule.
        return self.optimise(self.task.loss(self.network(x), y))

    # More, where a method needs it (sdgbench/method.py says all):
    # setup()              makes further networks, optimisers and tensors as attributes of self;
    #                      all of them are saved, but for names with a leading underscore
    # plan()               returns phases: [Phase("warm", 100), Phase("train", self.train_steps)];
    #                      each calls its own step, warm_step(x, y) and train_step(x, y)
    # predict(x)           gives logits, by default self.network(x), and changes nothing
    # inference_modules()  lists what predict uses
'''


@click.group("new", epilog="Example: sdgbench new method my-idea")
def command() -> None:
    """Write the file of a new method."""


@command.command(
    "method",
    epilog="""\b
Examples:
  sdgbench new method my-idea
  sdgbench new method my-idea --output ideas/first.py""",
)
@click.argument("name")
@click.option("--output", metavar="FILE.py", type=click.Path(path_type=Path),
              help="Write this file. Default: methods/NAME.py in a checkout of sdgbench, "
                   "else NAME.py here.")  # fmt: skip
def method(name: str, output: Path | None) -> None:
    """Write a commented file that already runs and keeps the rules; the rest is your idea."""
    _refuse_bad_name(name)
    file = output or _usual_folder() / f"{re.sub('[-.]', '_', name)}.py"
    if file.suffix != ".py":
        raise UserError(f"{file} does not end in .py. Methods are Python files.")
    if file.exists():
        raise UserError(f"{file} exists and is left as it is. Choose another name or --output.")
    text = TEMPLATE.replace("@NAME@", name).replace("@CLASS@", _class_name(name))
    with explain_os_errors("write", file), file.open("x", encoding="utf-8") as opened:
        opened.write(text)
    shown = shlex.quote(str(file))
    plugin = "" if _is_found_by_itself(file) else f" --plugin {shown}"
    click.echo(
        f"Wrote {file}, which trains with noise on the images. Make it yours, then:\n"
        f"  sdgbench check {shown}\n"
        f"  sdgbench run --method erm,{name} --dataset digits-mini --preset smoke{plugin}\n"
        f"  sdgbench compare --dataset digits-mini --preset smoke"
    )


def _refuse_bad_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or name == "recipe":
        raise UserError(f'"{name}" cannot be a name: take letters, digits, dots, dashes.')
    kinds: tuple[registry.Kind, ...] = ("method", "dataset")
    for kind in kinds:
        if taken := registry.entries(kind).get(name):
            raise UserError(
                f'The name "{name}" is taken by the {kind} in {taken.file} ({taken.origin}). '
                "Choose another."
            )


def _class_name(name: str) -> str:
    words = re.split("[-._]+", name)
    found = "".join(word[:1].upper() + word[1:] for word in words)
    reserved = ("False", "Method", "None", "Tensor", "True")
    return f"Method{found}" if found in reserved or found[0].isdigit() else found


def _usual_folder() -> Path:
    checkout = Path("methods/erm.py").is_file() and Path("sdgbench/method.py").is_file()
    return Path("methods") if checkout else Path()


def _is_found_by_itself(file: Path) -> bool:
    folders = importlib.import_module("sdgbench.methods").__path__
    return file.resolve().parent in [Path(folder).resolve() for folder in folders]
