"""One self-contained HTML file: no network, no library, and no name in it can become markup."""

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sdgbench import storage
from sdgbench.leaderboard import VIEWS, Leaderboard
from sdgbench.leaderboard.views import Views
from sdgbench.report import palette
from sdgbench.report.content import Collect, Publish, content, no_tables

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = (
    "dom.js",
    "theme.js",
    "address.js",
    "download.js",
    "table.js",
    "chart.js",
    "figures.js",
    "samples.js",
    "page.js",
)


def render(
    boards: Sequence[Leaderboard],
    collect: Collect,
    skipped: int = 0,
    publish: Publish = no_tables,
    views: Views = VIEWS,
    usual: Sequence[str] = (),
) -> str:
    """The page as text; the arguments are those of ``content``."""
    shown = content(boards, collect, skipped, publish, views, usual)
    return assemble(asset("page.html"), asset("page.css"), map(asset, SCRIPTS), shown)


def assemble(
    template: str, style: str, scripts: Iterable[str], data: Any, may_ask_server: bool = False
) -> str:
    """A page of one file: a template with its style, its scripts and its data."""
    style = _colours() + style
    script = "'use strict';\n(() => {\n" + "\n".join(scripts) + "\n})();\n"
    # Only this script and this style may run, even if a name got past all escaping.
    policy = (
        f"default-src 'none'; img-src data:; style-src {_fingerprint(style)}; "
        f"script-src {_fingerprint(script)}; base-uri 'none'; form-action 'none'"
    )
    if may_ask_server:
        policy += "; connect-src 'self'"
    parts = {"policy": policy, "style": style, "script": script, "data": block(data)}
    # In one pass: what was put in is not searched for further {{names}}.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def write(path: Path, text: str) -> int:
    """Write the page atomically and return its size in bytes."""
    data = text.encode()
    storage.write_atomic(path, lambda file: file.write(data))
    return len(data)


def block(value: Any) -> str:
    """JSON that no end tag and no comment can break out of."""
    text = json.dumps(_printable(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _printable(value: Any) -> Any:
    """The same without what steers the direction of text, has no sign, or is no number."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return (
            value
            if value.isprintable()
            else "".join(char if char.isprintable() else "\ufffd" for char in value)
        )
    if isinstance(value, dict):
        return {_printable(str(key)): _printable(item) for key, item in value.items()}
    return [_printable(item) for item in value] if isinstance(value, (list, tuple)) else value


def _colours() -> str:
    """The colours of methods on both themes, as variables of the style."""
    pairs = zip(palette.COLOURS, palette.ON_DARK, strict=True)
    names = (f"--c{i}: light-dark({light}, {dark});" for i, (light, dark) in enumerate(pairs))
    return f":root {{ {' '.join(names)} }}\n"


def asset(name: str) -> str:
    """A file of the page."""
    return (ASSETS / name).read_text(encoding="utf-8")


def _fingerprint(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
