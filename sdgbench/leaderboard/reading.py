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
BEHIND = b"missing_domains"  # the key that follows the domains
RESULT = b'\n    "val": {\n      "step": '
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
        results, domains, behind = (_key(data, name) for name in (b"results", b"domains", BEHIND))
        if not 0 < results < domains < behind:
            return json.loads(data)
        head, text, tail = data[:domains], data[domains:behind], data[behind:]
        if self.leaves_out_val and head.endswith(b"\n    }\n  },"):
            val = _key(head, b"val", 2, results)
            if val > 0 and head.startswith(RESULT, val):  # the source has a "val", too
                head = head[:val] + b'\n    "val": null\n  },'
        if self.leaves_out_classes:
            head = PER_CLASS.sub(b'"class_accuracy": []', head)
        if text not in self._domains:
            self._domains[text] = json.loads(b"{" + text.removesuffix(b",") + b"}")["domains"]
        found = json.loads((head + b'\n  "domains": null,' + tail).decode())
        found["domains"] = self._domains[text]
        return found


def _key(data: bytes, name: bytes, depth: int = 1, start: int = 0) -> int:
    """Where the line before a key at some depth ends; -1: there is no such key."""
    text = b'"' + name + b'": '  # without its indent, which every line has and a search trips over
    indent = b"\n" + b"  " * depth
    place = data.find(text, start)
    while place > 0 and not data.startswith(indent, place - len(indent)):
        place = data.find(text, place + 1)
    return place - len(indent) if place > 0 else -1
