"""What a check is, and how it can end."""

import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sdgbench.conformance.world import World
from sdgbench.errors import UserError

Ending = Literal["ok", "failed", "skipped"]


class Failed(Exception):
    """A rule is broken. Its text says what is wrong and how to mend it."""


class Skipped(Exception):
    """A check makes no sense here. Its text says why."""


@dataclass(frozen=True)
class Check:
    """One rule for methods; ``function`` raises ``Failed`` where it is broken."""

    name: str
    rule: str  # one sentence
    function: Callable[[World], None]
    needs: tuple[str, ...]  # checks without which this one would only repeat their complaint
    once: bool  # the same for all datasets

    def __call__(self, world: World) -> None:
        """Check one method on one dataset."""
        if not self.once and (reason := world.spec.skipped()):
            raise Skipped(f"The method leaves this dataset out: {reason}.")
        self.function(world)


@dataclass(frozen=True)
class Result:
    """How one check ended on one dataset."""

    check: Check
    dataset: str
    ending: Ending
    message: str = ""


def examine(checks: Iterable[Check], world: World, roots: dict[str, str]) -> Iterator[Result]:
    """Run checks in turn on one dataset.

    ``roots`` names, for each check that cannot be relied on, the failure that this goes back to.
    """
    for check in checks:
        root = next((roots[need] for need in check.needs if need in roots), "")
        result = not_checked(check, world.dataset_name, root) if root else _run(check, world)
        if root or result.ending == "failed":
            roots[check.name] = root or check.name
        yield result


def not_checked(check: Check, dataset: str, root: str) -> Result:
    """What becomes of a check after a failure that it would only repeat."""
    return Result(check, dataset, "skipped", f'It was not checked, because "{root}" failed.')


def _run(check: Check, world: World) -> Result:
    name = world.dataset_name
    try:
        check(world)
    except Skipped as error:
        return Result(check, name, "skipped", str(error))
    except Failed as error:
        return Result(check, name, "failed", str(error))
    except Exception as error:  # the contributor's code may raise anything
        return Result(check, name, "failed", explain(error, world.entry.file))
    return Result(check, name, "ok")


def explain(error: BaseException, file: Path) -> str:
    """Say what was raised, and by which lines of the contributor's file."""
    cause = error.__cause__ if isinstance(error, UserError) and error.__cause__ else error
    frames = [
        frame
        for frame in traceback.extract_tb(cause.__traceback__)
        if Path(frame.filename).resolve() == file.resolve()
    ]
    if isinstance(error, UserError) and not frames:
        return str(error)
    text = (str(cause).strip().splitlines() or [""])[0]
    said = [f"The method raised {type(cause).__name__}{f': {text}' if text else ''}"]
    if isinstance(cause, SyntaxError):
        said.append(f"  {file.name}:{cause.lineno}")
    if not frames and not isinstance(cause, SyntaxError):  # raised by what the method returned
        frames = traceback.extract_tb(cause.__traceback__)[-1:]
    for frame in frames[-3:]:
        said.append(f"  {Path(frame.filename).name}:{frame.lineno} in {frame.name}")
        said.append(f"    {frame.line}")
    return "\n".join(said)
