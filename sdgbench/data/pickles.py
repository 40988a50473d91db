"""Read the pickles of public data sets without unpickling them: nothing they name is ever called.

The opcodes are interpreted here, and only those that plain values and arrays of bytes need. The
standard unpickler is no choice, even with a list of allowed names: it would let a file build a
NumPy array of pointers, which crashes the process.
"""

import io
import math
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_RANK = 8
_VALUES = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_INTEGERS = ("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "INT", "LONG")
_BYTES = ("SHORT_BINBYTES", "BINBYTES", "BINBYTES8")
_TEXT = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE")
_OLD_TEXT = ("SHORT_BINSTRING", "BINSTRING")  # bytes of Python 2
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_ARRAY = (
    "numpy.ndarray",
    "numpy.core.multiarray._reconstruct",
    "numpy._core.multiarray._reconstruct",
)


@dataclass(frozen=True)
class _Name:
    """What a pickle refers to by name, such as numpy.dtype."""

    text: str


@dataclass
class _Pending:
    """An array or a type whose state has not come yet."""

    kind: str
    value: np.ndarray | None = None


_MARK = object()


def read_pickle(data: bytes) -> Any:
    """The plain values and uint8 arrays of a pickle; a ValueError says what it must not contain."""
    reader = _Reader(len(data))
    try:
        for opcode, argument, _ in pickletools.genops(io.BytesIO(data)):
            reader.step(opcode.name, argument)
    except (IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"its opcodes do not fit together ({error!r:.80})") from None
    return _finished(reader.result)


def _finished(value: Any) -> Any:
    """Replace arrays, which come as values of a dictionary at the top."""
    if isinstance(value, dict):
        return {key: _finished_item(item) for key, item in value.items()}
    return _finished_item(value)


def _finished_item(value: Any) -> Any:
    if not isinstance(value, _Pending):
        return value
    if value.value is None:
        raise ValueError("it has an array without content")
    return value.value


class _Reader:
    """The machine of a pickle: a stack and a memo."""

    def __init__(self, size: int) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.result: Any = None
        self.encoded, self.size = 0, size

    def step(self, name: str, argument: Any) -> None:
        """Execute one opcode."""
        if name in ("PROTO", "FRAME"):
            return
        if name in _INTEGERS or name in _BYTES or name in _TEXT:
            self.stack.append(argument)
        elif name in _OLD_TEXT:
            self.stack.append(argument.encode("latin-1"))
        elif name in _VALUES:
            self.stack.append(_VALUES[name])
        elif name in ("BINPUT", "LONG_BINPUT"):
            self.memo[argument] = self.stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = self.stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])
        elif name == "GLOBAL":
            self.stack.append(_name(*argument.split(" ")))
        elif name in _TUPLES:
            self._pack(_TUPLES[name])
        else:
            self._other(name)()

    def _other(self, name: str) -> Callable[[], None]:
        action = getattr(self, f"_{name.lower()}", None)
        if action is None:
            raise ValueError(f"it uses the opcode {name}, which a data file does not need")
        function: Callable[[], None] = action
        return function

    def _stop(self) -> None:
        (self.result,) = self.stack

    def _mark(self) -> None:
        self.stack.append(_MARK)

    def _empty_dict(self) -> None:
        self.stack.append({})

    def _empty_list(self) -> None:
        self.stack.append([])

    def _empty_tuple(self) -> None:
        self.stack.append(())

    def _tuple(self) -> None:
        self.stack.append(tuple(self._since_mark()))

    def _append(self) -> None:
        self._extend([self.stack.pop()])

    def _appends(self) -> None:
        self._extend(self._since_mark())

    def _setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._update([key, value])

    def _setitems(self) -> None:
        self._update(self._since_mark())

    def _stack_global(self) -> None:
        attribute, module = self.stack.pop(), self.stack.pop()
        self.stack.append(_name(module, attribute))

    def _reduce(self) -> None:
        arguments, name = self.stack.pop(), self.stack.pop()
        if not isinstance(name, _Name) or not isinstance(arguments, tuple):
            raise ValueError("it calls something that is not a name")
        self.stack.append(self._called(name.text, arguments))

    def _build(self) -> None:
        state = self.stack.pop()
        pending = self.stack[-1]
        if not isinstance(pending, _Pending) or not isinstance(state, tuple):
            raise ValueError("it gives a state to something that has none")
        if pending.kind == "array":
            pending.value = _array(state)

    def _called(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if name == "numpy.dtype" and arguments[0] in ("u1", b"u1"):
            return _Pending("type")
        if name == "_codecs.encode" and len(arguments) == 2 and isinstance(arguments[0], str):
            self.encoded += len(arguments[0])
            if self.encoded > self.size:  # the same text again and again would fill the memory
                raise ValueError("it repeats its content")
            return arguments[0].encode("latin-1")
        if name in _ARRAY[1:] and arguments[0] == _Name(_ARRAY[0]):
            return _Pending("array")
        raise ValueError(f"it calls {name} in a way that a data file must not")

    def _pack(self, count: int) -> None:
        items = [self.stack.pop() for _ in range(count)]
        self.stack.append(tuple(reversed(items)))

    def _extend(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise ValueError("it appends to something that is not a list")
        self.stack[-1].extend(items)

    def _update(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], dict) or len(items) % 2:
            raise ValueError("it sets items of something that is not a dictionary")
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def _since_mark(self) -> list[Any]:
        items = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]


def _name(module: Any, attribute: Any) -> _Name:
    text = f"{module}.{attribute}"
    if text not in (*_ARRAY, "numpy.dtype", "_codecs.encode"):
        raise ValueError(f"it refers to {text:.80}, which a data file must not")
    return _Name(text)


def _array(state: tuple[Any, ...]) -> np.ndarray:
    """A uint8 array from the state that NumPy pickles: version, shape, type, order, content."""
    _, shape, kind, fortran, content = state
    if not isinstance(kind, _Pending) or kind.kind != "type" or not isinstance(content, bytes):
        raise ValueError("it has an array that is not one of bytes")
    if not isinstance(shape, tuple) or len(shape) > MAX_RANK:
        raise ValueError("it has an array without a shape")
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError("it has an array with an impossible shape")
    if math.prod(shape) != len(content):
        raise ValueError("it has an array whose content does not fit its shape")
    order: Any = "F" if fortran is True or fortran == 1 else "C"
    return np.frombuffer(content, np.uint8).reshape(shape, order=order)
