"""A check of a method, its possible outcomes, and running checks in turn."""

import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sdgbench.conformance.harness import MethodHarness
from sdgbench.errors import UserError

Outcome = Literal["ok", "failed", "skipped"]


class Failed(Exception):
    """A rule is broken. The message says what is wrong and how to fix it."""


class Skipped(Exception):
    """A check makes no sense here. The message says why."""


@dataclass(frozen=True)
class Check:
    """One rule for methods; ``function`` raises ``Failed`` where it is broken."""

    name: str
    rule: str  # one sentence
    function: Callable[[MethodHarness], None]
    needs: tuple[str, ...]  # checks whose failure this one would only repeat
    once: bool  # does not depend on the dataset

    def __call__(self, harness: MethodHarness) -> None:
        """Check one method on one dataset."""
        if not self.once and (reason := harness.spec.skipped()):
            raise Skipped(f"The method skips this dataset: {reason}.")
        self.function(harness)


@dataclass(frozen=True)
class Result:
    """The outcome of one check on one dataset."""

    check: Check
    dataset: str
    outcome: Outcome
    message: str = ""


def run_checks(
    checks: Iterable[Check], harness: MethodHarness, roots: dict[str, str]
) -> Iterator[Result]:
    """Run checks in turn on one dataset.

    ``roots`` maps each check that failed or was not done to the failed check that caused it.
    """
    for check in checks:
        root = next((roots[need] for need in check.needs if need in roots), "")
        result = not_checked(check, harness.dataset_name, root) if root else _run(check, harness)
        if root or result.outcome == "failed":
            roots[check.name] = root or check.name
        yield result


def not_checked(check: Check, dataset: str, root: str) -> Result:
    """The result of a check that is not done, because it would only repeat a failure."""
    return Result(check, dataset, "skipped", f'It was not checked, because "{root}" failed.')


def _run(check: Check, harness: MethodHarness) -> Result:
    name = harness.dataset_name
    try:
        check(harness)
    except Skipped as error:
        return Result(check, name, "skipped", str(error))
    except Failed as error:
        return Result(check, name, "failed", str(error))
    except Exception as error:  # the contributor's code may raise anything
        return Result(check, name, "failed", explain(error, harness.entry.file))
    return Result(check, name, "ok")


def explain(error: BaseException, file: Path, kind: str = "method") -> str:
    """What was raised, and by which lines of the contributor's file."""
    cause = error.__cause__ if isinstance(error, UserError) and error.__cause__ else error
    frames = [
        frame
        for frame in traceback.extract_tb(cause.__traceback__)
        if Path(frame.filename).resolve() == file.resolve()
    ]
    if isinstance(error, UserError) and not frames:
        return str(error)
    text = (str(cause).strip().splitlines() or [""])[0]
    lines = [f"The {kind} raised {type(cause).__name__}{f': {text}' if text else ''}"]
    if isinstance(cause, SyntaxError):
        lines.append(f"  {file.name}:{cause.lineno}")
    if not frames and not isinstance(cause, SyntaxError):  # raised by what the method returned
        frames = traceback.extract_tb(cause.__traceback__)[-1:]
    for frame in frames[-3:]:
        lines.append(f"  {Path(frame.filename).name}:{frame.lineno} in {frame.name}")
        lines.append(f"    {frame.line}")
    return "\n".join(lines)
