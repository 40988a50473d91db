"""Names of methods and datasets, found without importing them.

Files are read as syntax trees: the decorator's literal arguments and the class's docstring are
all that listing needs, so ``sdgbench list`` never waits for torch. A file is imported only when
its entry is loaded.
"""

import ast
import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar

from sdgbench.errors import UserError, unknown

Kind = Literal["method", "dataset"]
PLUGIN_VARIABLE = "SDGBENCH_PLUGINS"
_FOLDERS: dict[Kind, str] = {"method": "sdgbench.methods", "dataset": "sdgbench.datasets"}
_plugins: list[Path] = []
C = TypeVar("C", bound=type)


@dataclass(frozen=True)
class Entry:
    """One registered name: where it is, what it says of itself, and how to get its class."""

    kind: Kind
    name: str
    doc: str
    file: Path
    module: str
    details: dict[str, Any] = field(default_factory=dict)
    origin: str = "built-in"
    error: str = ""  # an installed plugin that cannot be read is listed with its reason

    def load(self) -> type:
        """Import the file and return the class."""
        if self.error:
            raise UserError(self.error)
        for value in vars(_import(self)).values():
            if isinstance(value, type) and vars(value).get("registered") == (self.kind, self.name):
                return value
        raise UserError(f'{self.file} did not register the {self.kind} "{self.name}".')

    @property
    def source_sha256(self) -> str:
        """The hash of the file, so that a record can tell which version of it ran."""
        return hashlib.sha256(self.file.read_bytes()).hexdigest()


def register_method(
    name: str, *, paper: str = "", skips: Mapping[str, str] | None = None
) -> Callable[[C], C]:
    """Make a ``Method`` known under ``name``. All arguments must be literals.

    ``skips`` says for which kind of task ("classification", "segmentation") it makes no sense,
    and why.
    """
    decorate = _register("method", name, "sdgbench.method", "Method")

    def with_skips(cls: C) -> C:
        cls.skips = dict(skips or {})  # type: ignore[attr-defined]
        return decorate(cls)

    return with_skips


def register_dataset(name: str, *, paper: str = "") -> Callable[[C], C]:
    """Make a ``Dataset`` known under ``name``. All arguments must be literals."""
    return _register("dataset", name, "sdgbench.dataset", "Dataset")


def _register(kind: Kind, name: str, module: str, base: str) -> Callable[[C], C]:
    def decorate(cls: C) -> C:
        parent = getattr(importlib.import_module(module), base)
        if not (isinstance(cls, type) and issubclass(cls, parent)):
            raise UserError(
                f'{_file_of(cls)}: the {kind} "{name}" must inherit from {module}.{base}: '
                f"class {cls.__name__}({base})."
            )
        cls.name = name  # type: ignore[attr-defined]
        cls.registered = (kind, name)  # type: ignore[attr-defined]
        return cls

    return decorate


def _file_of(cls: Any) -> str:
    return getattr(sys.modules.get(cls.__module__), "__file__", None) or cls.__module__


def add_plugin(file: Path) -> None:
    """Read a plugin file (``--plugin``); its names are known from now on."""
    file = file.expanduser().resolve()
    if file not in _plugins:
        _plugins.append(file)
        entries.cache_clear()


def plugins() -> list[Path]:
    """All plugin files: those added, then those of the environment."""
    from_environment = [Path(p) for p in os.environ.get(PLUGIN_VARIABLE, "").split(os.pathsep) if p]
    return [*_plugins, *(path.expanduser().resolve() for path in from_environment)]


def get(kind: Kind, name: str) -> Entry:
    """Find an entry by name, or say what was probably meant."""
    found = entries(kind)
    if name not in found:
        raise unknown(kind, name, found, "All: sdgbench list")
    return found[name]


@cache
def entries(kind: Kind) -> dict[str, Entry]:
    """List all entries of a kind by name: built-in, installed (entry points), plugin files."""
    found: dict[str, Entry] = {}
    for entry in _discover(kind):
        earlier = found.get(entry.name)
        if earlier and earlier.file == entry.file:
            continue  # the same file given twice, say as a plugin and as an entry point
        if earlier:
            raise UserError(
                f'The {kind} name "{entry.name}" is taken twice: by {earlier.file} and by '
                f"{entry.file}. Rename one of them."
            )
        found[entry.name] = entry
    return dict(sorted(found.items()))


def _discover(kind: Kind) -> Iterator[Entry]:
    for folder in importlib.import_module(_FOLDERS[kind]).__path__:
        for file in sorted(Path(folder).glob("*.py")):
            if not file.name.startswith("_"):
                yield from _scan(kind, file, f"{_FOLDERS[kind]}.{file.stem}", "built-in")
    for point in importlib.metadata.entry_points(group=_FOLDERS[kind]):
        yield from _scan_entry_point(kind, point)
    for file in plugins():
        tag = hashlib.sha256(str(file).encode()).hexdigest()[:8]
        yield from _scan(kind, file, f"sdgbench_plugin_{file.stem}_{tag}", f"plugin {file.name}")


def _scan_entry_point(kind: Kind, point: importlib.metadata.EntryPoint) -> Iterator[Entry]:
    # A broken package somewhere in the environment must not stop everybody else: it is listed
    # with its reason, and only asking for it is an error.
    package = point.dist.name if point.dist else point.module
    try:
        spec = importlib.util.find_spec(point.module)
        if spec is None or not spec.origin:
            raise UserError(f"its module {point.module} is not installed")
        yield from _scan(kind, Path(spec.origin), point.module, f"package {package}")
    except Exception as error:
        reason = f'The {kind} "{point.name}" of the package {package} cannot be read: {error}'
        yield Entry(kind, point.name, "", Path(point.module), point.module, {}, package, reason)


def _scan(kind: Kind, file: Path, module: str, origin: str) -> Iterator[Entry]:
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
    except OSError as error:
        raise UserError(f"Cannot read the plugin {file}: {error.strerror}.") from None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f"{file}:{line}" if line else str(file)
        raise UserError(f"{where} is not valid Python: {getattr(error, 'msg', error)}.") from None
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            for decorator in node.decorator_list:
                call = _literal_call(decorator, f"register_{kind}", file)
                if call is not None:
                    name, details = call
                    doc = ast.get_docstring(node) or ""
                    yield Entry(kind, name, doc, file, module, details, origin)


def _literal_call(node: ast.expr, function: str, file: Path) -> tuple[str, dict[str, Any]] | None:
    if not isinstance(node, ast.Call):
        return None
    called = (
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    )
    if called != function:
        return None
    try:
        positional = [ast.literal_eval(argument) for argument in node.args]
        named = {kw.arg: ast.literal_eval(kw.value) for kw in node.keywords if kw.arg}
        name = positional[0] if positional else named.pop("name")
    except (ValueError, KeyError):
        name, named = None, {}
    if not isinstance(name, str):
        raise UserError(
            f'{file}:{node.lineno}: {function} takes literal arguments: @{function}("my-name").'
        )
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or name == "recipe":
        raise UserError(
            f'{file}:{node.lineno}: "{name}" cannot be a name: take letters, digits, dots, dashes.'
        )
    return name, {str(key): value for key, value in named.items()}


def _import(entry: Entry) -> ModuleType:
    try:
        if not entry.module.startswith("sdgbench_plugin_"):
            return importlib.import_module(entry.module)
        if entry.module not in sys.modules:
            spec = importlib.util.spec_from_file_location(entry.module, entry.file)
            assert spec is not None
            assert spec.loader is not None
            module = sys.modules[entry.module] = importlib.util.module_from_spec(spec)
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[entry.module]
                raise
        return sys.modules[entry.module]
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"{entry.file} cannot be imported: {type(error).__name__}: {error}. "
            "Mend it, or leave the plugin away."
        ) from error
