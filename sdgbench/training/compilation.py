"""Compilation (``torch.compile``): the one place that decides what runs compiled.

A function of a network whose compilation fails goes on as plain Python, and so does a step of a
method whose compiled gradients fail. Neither affects the others, and neither ends a run.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch
from torch import nn

# Variants of one function: training and evaluation, with and without gradients of weights, each
# batch size that is not the usual one. Torch's own limit is 8, after which it silently stops.
VARIANTS = 64

Warn = Callable[[str], object]


class Compilation:
    """What was asked, what works, and what had to be given up."""

    def __init__(self, requested: bool) -> None:
        self.requested = requested
        self.given_up: list[str] = []  # functions and steps that go on without compilation
        self.compiled_calls = self.plain_calls = 0  # of the networks' functions
        self._in_use: set[str] = set()  # names of functions that this run compiles
        self._classes: dict[tuple[type[nn.Module], tuple[str, ...]], type[nn.Module]] = {}
        self._off, self._suspensions = False, 0
        self._reasons: set[str] = set()
        self._warn: Warn = lambda text: None

    @property
    def enabled(self) -> bool:
        """Whether anything is compiled, apart from what was given up."""
        all_failed = bool(self._in_use) and self._in_use <= set(self.given_up)
        return self.requested and not self._off and not all_failed

    @property
    def active(self) -> bool:
        """Whether the networks run compiled at this moment."""
        return self.enabled and not self._suspensions

    @contextmanager
    def settings(self, warn: Warn) -> Iterator[None]:
        """Set the compiler's switches for a run, which starts with nothing given up."""
        self._warn, self._off, self._suspensions = warn, False, 0
        self.given_up, self._reasons, self._in_use = [], set(), set()
        with ExitStack() as stack:
            if self.requested:
                try:
                    for context in _switches():
                        stack.enter_context(context)
                except Exception as error:
                    self._stop(error)
            yield

    def apply(self, module: nn.Module, functions: Sequence[str]) -> None:
        """Compile functions of a module and of its copies, where that was requested and works."""
        if not self.requested or self._off:
            return
        key = type(module), tuple(functions)
        if key not in self._classes:
            try:
                changed = {name: self._guarded(getattr(key[0], name)) for name in functions}
            except Exception as error:
                return self._stop(error)
            self._classes[key] = type(key[0].__name__, (key[0],), changed)
        self._in_use |= {getattr(key[0], name).__qualname__ for name in functions}
        module.__class__ = self._classes[key]

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Run everything as plain Python."""
        self._suspensions += 1
        try:
            yield
        finally:
            self._suspensions -= 1

    def give_up(self, what: str, error: Exception) -> None:
        """Never compile a function or step again in this run; each reason is said once."""
        self.given_up.append(what)
        reason = _reason(error)
        if reason not in self._reasons:
            self._warn(f"torch.compile failed in {what}, which goes on without it ({reason})")
            self._reasons.add(reason)

    def ran_compiled(self, before: tuple[int, int]) -> bool:
        """Whether all functions of networks ran compiled since ``calls`` was ``before``."""
        return self.compiled_calls > before[0] and self.plain_calls == before[1]

    @property
    def calls(self) -> tuple[int, int]:
        """How often functions of networks ran compiled, and not."""
        return self.compiled_calls, self.plain_calls

    def _stop(self, error: Exception) -> None:
        self._off = True
        self._warn(f"torch.compile failed, going on without it ({_reason(error)})")

    def _guarded(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """A compiled function that becomes the plain one when the compiler fails.

        The compiler runs at the first call and again for new shapes, so any call may fail.
        """
        compiled, name = torch.compile(plain), plain.__qualname__

        @wraps(plain)
        def guarded(*args: Any) -> Any:
            if not self.active or name in self.given_up:
                self.plain_calls += 1
                return plain(*args)
            try:
                result = compiled(*args)
            except Exception as error:
                result = plain(*args)  # where the compiler is not at fault, this fails, too
                self.give_up(name, error)
                self.plain_calls += 1
                return result
            self.compiled_calls += 1
            return result

        return guarded


def _switches() -> Iterator[Any]:
    """Contexts with the compiler's switches; what earlier runs compiled is forgotten.

    Without that, what a run computes would depend on the shapes of the runs before it.
    """
    import torch._dynamo
    import torch._functorch.config

    torch._dynamo.reset()
    limit = "recompile" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size"
    fail = "recompile" if limit == "recompile" else "cache"  # their names in older versions
    yield torch._dynamo.config.patch(
        {
            f"{limit}_limit": VARIANTS,
            # An error instead of a function that is silently not compiled.
            f"fail_on_{fail}_limit_hit": True,
        }
    )
    # Donated buffers save memory, but then a graph cannot be retained for a second gradient.
    if hasattr(torch._functorch.config, "donated_buffer"):
        yield torch._functorch.config.patch(donated_buffer=False)


def _reason(error: Exception) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first[:200]}"
