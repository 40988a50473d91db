"""Finds in Markdown what does not exist: links, commands, options, paths, modules."""

import importlib
import importlib.util
import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
from conftest import ROOT

from sdgbench.cli.app import cli as sdgbench_command

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.M | re.S)
# Files that a reader is told to write.
TO_BE_WRITTEN = {
    "methods/mixed.py",
    "methods/mixup.py",
    "methods/NAME.py",
    "tests/methods/test_mixup.py",
}
SCRATCH = {"runs", "data", "paper", "build", "dist", "figures", ".venv"}  # not in the repository
OLD_WORDS = re.compile(
    r"\b(mend(s|ed|ing)?|hands|crew|letters|for want of|anew|stands there|so many|undisturbed"
    r"|lea(ve|ves|ving|ft)\b[^.\n]{0,40}\baway)\b",
    re.I,
)


@dataclass(frozen=True)
class Code:
    """A piece of code in a document: a fenced block, or what is between backticks."""

    text: str
    language: str = ""
    inline: bool = False


def codes(text: str) -> Iterator[Code]:
    """All code of a document: first the blocks, then what is inline."""
    for match in FENCE.finditer(text):
        yield Code(textwrap.dedent(match[3]), match[2])
    for match in re.finditer(r"`([^`\n]+)`", FENCE.sub("", text)):
        yield Code(match[1], inline=True)


def prose(text: str) -> str:
    """A document without its code blocks, inline code and comments."""
    return re.sub(r"`[^`\n]+`|<!--.*?-->", "", FENCE.sub("", text), flags=re.S)


def name(file: Path) -> str:
    """What a report calls a document."""
    return str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else file.name


# Links --------------------------------------------------------------------------------------


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives the headings of a document."""
    counts: Counter[str] = Counter()
    slugs = set()
    for title in re.findall(r"^#{1,6} +(.+?) *$", FENCE.sub("", text), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        slugs.add(f"{slug}-{counts[slug]}" if counts[slug] else slug)
        counts[slug] += 1
    return slugs


def dead_links(file: Path) -> list[str]:
    """Relative links of a document that lead nowhere; other hosts cannot be reached from a test."""
    text = FENCE.sub("", file.read_text(encoding="utf-8"))
    dead = []
    for link in re.findall(r"\]\(([^()\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (file.parent / path).resolve() if path else file
        if not target.exists():
            dead.append(f"{name(file)}: {link} does not exist")
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
            dead.append(f"{name(file)}: {link} is no heading")
    return dead


# Commands -----------------------------------------------------------------------------------


def options_of(command: click.Command) -> set[str]:
    """The options that a command declares."""
    declared = {"-h", "--help"}
    for parameter in command.params:
        declared |= {*parameter.opts, *parameter.secondary_opts}
    return declared


def subcommand(group: click.Group, verb: str) -> click.Command | None:
    return group.get_command(click.Context(group), verb)


def all_options(command: click.Command) -> set[str]:
    """The options of a command and of all commands below it."""
    declared = options_of(command)
    if isinstance(command, click.Group):
        for verb in command.list_commands(click.Context(command)):
            declared |= all_options(subcommand(command, verb))
    return declared


EVERY_OPTION = all_options(sdgbench_command)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))


def command_faults(line: str) -> list[str]:
    """What does not exist in one shell command; programs of others are not checked."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        words = line.split()
    if words[:1] == ["make"]:
        goals = [word for word in words[1:] if "=" not in word and word.islower()]
        return [f"make {goal}" for goal in goals if goal not in TARGETS]
    if words[:1] == ["torchrun"] and "sdgbench" in words:
        words = words[words.index("sdgbench") :]
    if words[:1] != ["sdgbench"]:
        return []
    command: click.Command = sdgbench_command
    called = ["sdgbench"]
    words = words[1:]
    while isinstance(command, click.Group) and words and re.fullmatch(r"[a-z]+", words[0]):
        called.append(words.pop(0))
        if (below := subcommand(command, called[-1])) is None:
            return [" ".join(called)]
        command = below
    used = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    return [f"{' '.join(called)} {option}" for option in sorted(used - options_of(command))]


def command_lines(code: Code) -> list[str]:
    """The shell commands of a piece of code, continued lines joined."""
    if code.language not in ("", "bash", "sh", "console"):
        return []
    return code.text.replace("\\\n", " ").splitlines()


def faults(text: str) -> list[str]:
    """Commands, options and make targets of a document that do not exist."""
    wrong = []
    for code in codes(text):
        for line in command_lines(code):
            wrong += command_faults(line)
        if code.inline and code.text.startswith("--"):
            option = re.split(r"[ =]", code.text)[0]
            wrong += [] if option in EVERY_OPTION else [option]
    return wrong


# Paths --------------------------------------------------------------------------------------


def missing_paths(text: str) -> list[str]:
    """Files, folders and modules in backticks that the repository does not have."""
    missing = []
    tops = "|".join(re.escape(path.name) for path in ROOT.iterdir() if path.name not in SCRATCH)
    for code in codes(text):
        if not code.inline:
            continue
        is_path = re.fullmatch(rf"(?:{tops})(?:/[\w.\-]+)*/?", code.text)
        if is_path and code.text not in TO_BE_WRITTEN and not (ROOT / code.text).exists():
            missing.append(code.text)
        dotted = re.match(r"sdgbench(?:\.\w+)+", code.text)
        if dotted and dotted[0] != "sdgbench.toml" and not importable(dotted[0]):
            missing.append(dotted[0])
    return missing


def importable(dotted: str) -> bool:
    """Say whether a dotted name is a module, or an attribute of one."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        try:
            if importlib.util.find_spec(module) is None:
                continue
        except ModuleNotFoundError:
            continue
        value = importlib.import_module(module)
        for attribute in parts[length:]:
            if not hasattr(value, attribute):
                return False
            value = getattr(value, attribute)
        return True
    return False
