"""Records read fast: what is not needed, or known from another record, is not parsed.

``storage.write_json`` puts every key on a line of its own, two spaces deeper than its parent, and
a line break never stands inside of a JSON string: so the lines tell where a block begins and ends.
A file of any other layout is parsed as a whole.
"""

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from sdgbench import record as records
from sdgbench.errors import UserError, explain_os_errors
from sdgbench.record import Record

LAYOUT = b'{\n  "schema": '
# In a string its quotes would stand behind backslashes: this is found as a key only.
PER_CLASS = re.compile(rb'"class_accuracy": \[[^\]]*\]')


class Reader:
    """Reads many records; what is not wanted of them comes empty.

    That is a choice of weights that is not among ``choices``, and without ``classes`` the accuracy
    of each class in each domain.
    """

    def __init__(self, choices: Collection[str] = ("last", "val"), classes: bool = True) -> None:
        self.leaves_out_val = "val" not in choices
        self.leaves_out_classes = not classes
        self._domains: dict[bytes, Any] = {}  # records of a dataset have the same ones

    def __call__(self, path: str | Path) -> Record:
        """Read and check one record."""
        try:
            with open(path, "rb") as file:  # noqa: PTH123  (a Path for each costs a tenth)
                data = file.read()
        except OSError:
            with explain_os_errors("read", Path(path)):
                raise
        try:
            found = self._parse(data)
        except ValueError as error:
            raise UserError(f"{path} is damaged or half-written ({error}). Delete it.") from error
        return records.check(found, path)

    def _parse(self, data: bytes) -> Any:
        if not data.startswith(LAYOUT):
            return json.loads(data)
        shared = None
        results = _block(data, b"results", 1) if self.leaves_out_val else None
        if results and (val := _block(data, b"val", 2, *results)):
            data = data[: val[0]] + b"null" + data[val[1] :]
        if self.leaves_out_classes:
            data = PER_CLASS.sub(b'"class_accuracy": []', data)
        if domains := _block(data, b"domains", 1):
            text = data[slice(*domains)]
            if text not in self._domains:
                self._domains[text] = json.loads(text)
            shared = self._domains[text]
            data = data[: domains[0]] + b"null" + data[domains[1] :]
        found = json.loads(data)
        if shared is not None:
            found["domains"] = shared
        return found


def _block(
    data: bytes, key: bytes, depth: int, start: int = 0, end: int | None = None
) -> tuple[int, int] | None:
    """Where the object of a key at some depth stands, with its braces."""
    indent = b"\n" + b"  " * depth
    head = indent + b'"' + key + b'": {\n'
    place = data.find(head, start, end)
    if place < 0:
        return None
    first = place + len(head) - 2
    last = data.find(indent + b"}", first, end)
    return (first, last + len(indent) + 1) if last >= 0 else None
