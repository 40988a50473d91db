"""Names of methods, datasets and networks, found without importing them.

Files are read as syntax trees: the decorator's literal arguments and the class's docstring are
all that listing needs, so ``sdgbench list`` never waits for torch. A file is imported only when
its entry is loaded.
"""

import ast
import fnmatch
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar

from sdgbench.errors import UserError, unknown

Kind = Literal["method", "dataset", "network"]
PLUGIN_VARIABLE = "SDGBENCH_PLUGINS"
BASELINE = "erm"  # the method that gains, mCE and RmCE refer to unless another is named
FIRST_RUN = f"sdgbench run --method {BASELINE} --dataset digits-mini --preset quick"  # in messages
RESERVED = ("recipe", "all")  # in --set recipe.KEY and --method all
_FOLDERS: dict[Kind, str] = {
    "method": "sdgbench.methods",
    "dataset": "sdgbench.datasets",
    "network": "sdgbench.networks",
}
_SCANNED = (*(f"{folder}." for folder in _FOLDERS.values()), "sdgbench_plugin_")  # modules
_plugins: list[Path] = []
C = TypeVar("C", bound=type)


@dataclass(frozen=True)
class Entry:
    """One registered name: its file, its description, and how to load its class."""

    kind: Kind
    name: str
    doc: str
    file: Path
    module: str
    details: dict[str, Any] = field(default_factory=dict)
    origin: str = "built-in"
    class_name: str = ""
    error: str = ""  # an installed plugin that cannot be read is listed with its reason
    defined: type | None = None  # the class itself, where this process defined it

    def load(self) -> type:
        """Import the file and return the class."""
        if self.error:
            raise UserError(self.error)
        if self.defined:
            return self.defined
        for value in vars(_import(self)).values():
            if isinstance(value, type) and vars(value).get("registered") == (self.kind, self.name):
                return value
        raise UserError(f'{self.file} did not register the {self.kind} "{self.name}".')

    @property
    def title(self) -> str:
        """The display name: ``title=`` of the decorator, or the name of the class."""
        return str(self.details.get("title") or self.class_name or self.name)

    @property
    def source_sha256(self) -> str:
        """The hash of the file, by which a record states which version of it ran."""
        if self.defined:
            return hashlib.sha256(_source_of(self.defined)).hexdigest()
        return hashlib.sha256(self.file.read_bytes()).hexdigest()

    def check_importable(self) -> None:
        """Refuse a class that only this process knows, where other processes need it."""
        if self.defined:
            raise UserError(
                f'Other processes do not know the {self.kind} "{self.name}", because it was '
                "defined in this one. Use jobs=1, or write it to a file and add that as a plugin."
            )


_defined: dict[tuple[Kind, str], Entry] = {}  # by this process, in no file that is scanned


def register_method(
    name: str,
    *,
    title: str = "",
    paper: str = "",
    skips: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
) -> Callable[[C], C]:
    """Make a ``Method`` known under ``name``. All arguments must be literals.

    ``title`` is the display name in LaTeX tables and figures, where it is not the class's name.
    ``skips`` maps a kind of task ("classification", "segmentation") that the method does not
    support to the reason. ``flags`` are what a reader of a table must know of the method, such as
    "reconstruction", each with a sentence that says why; tables can leave flagged methods out.

    >>> @sdgbench.register_method("halved")
    ... class Halved(Method):
    ...     "ERM on half of the loss."
    ...
    ...     def train_step(self, x, y):
    ...         return self.optimise(self.task.loss(self.network(x), y) / 2)
    >>> sdgbench.list_methods()["halved"]
    'ERM on half of the loss.'
    """
    details = {
        "title": title,
        "paper": paper,
        "skips": dict(skips or {}),
        "flags": dict(flags or {}),
    }
    decorate = _register("method", name, "sdgbench.method", "Method", details)

    def with_skips_and_flags(cls: C) -> C:
        cls.skips = dict(skips or {})  # type: ignore[attr-defined]
        cls.flags = dict(flags or {})  # type: ignore[attr-defined]
        return decorate(cls)

    return with_skips_and_flags


def register_dataset(name: str, *, paper: str = "") -> Callable[[C], C]:
    """Make a ``Dataset`` known under ``name``. All arguments must be literals.

    >>> @sdgbench.register_dataset("my-digits")
    ... class MyDigits(type(sdgbench.load_dataset("digits-mini"))):
    ...     "The same digits under another name."
    >>> sdgbench.list_datasets()["my-digits"]
    'The same digits under another name.'
    """
    return _register("dataset", name, "sdgbench.dataset", "Dataset", {"paper": paper})


def register_network(
    name: str,
    *,
    task: Literal["classification", "segmentation"] = "classification",
    examples: Sequence[str] = (),
) -> Callable[[C], C]:
    """Make a ``Network`` known as ``name``, ``name-VARIANT`` and ``name:VARIANT``.

    All arguments must be literals. ``task`` is the kind of task that it is for; ``examples`` are
    full names with a variant, which messages suggest.

    >>> @sdgbench.register_network("tiny")
    ... class Tiny(Network):
    ...     "A network with one layer."
    >>> sdgbench.registry.get("network", "tiny").doc
    'A network with one layer.'
    """
    details = {"task": task, "examples": tuple(examples) or (name,)}
    return _register("network", name, "sdgbench.networks.base", "Network", details)


def _register(
    kind: Kind, name: str, module: str, base: str, details: dict[str, Any]
) -> Callable[[C], C]:
    def decorate(cls: C) -> C:
        parent = getattr(importlib.import_module(module), base)
        if not (isinstance(cls, type) and issubclass(cls, parent)):
            raise UserError(
                f'{_file_of(cls)}: the {kind} "{name}" must inherit from {module}.{base}: '
                f"class {cls.__name__}({base})."
            )
        cls.name = name  # type: ignore[attr-defined]
        cls.registered = (kind, name)  # type: ignore[attr-defined]
        if not cls.__module__.startswith(_SCANNED):
            _define(kind, name, cls, details)
        return cls

    return decorate


def _define(kind: Kind, name: str, cls: type, details: dict[str, Any]) -> None:
    """Make a class known that a notebook, a prompt or a script defined; again: replace it."""
    check_name(name)
    file = Path(_file_of(cls))
    known = entries(kind).get(name)
    if known and known.defined is None:
        if known.file.resolve() == file.resolve():
            return  # an installed package, whose files are scanned
        raise UserError(f'The {kind} name "{name}" is taken by {known.file}. Choose another one.')
    doc = inspect.cleandoc(cls.__doc__ or "")
    _defined[kind, name] = Entry(
        kind,
        name,
        doc,
        file,
        cls.__module__,
        details,
        origin="this process",
        class_name=cls.__name__,
        defined=cls,
    )
    entries.cache_clear()


def _source_of(cls: type) -> bytes:
    """The source of a class; of its functions where Python does not know that of the class."""
    try:
        return inspect.getsource(cls).encode()
    except (OSError, TypeError):
        functions = [value for value in vars(cls).values() if inspect.isfunction(value)]
    parts = []
    for function in functions:
        try:
            parts.append(inspect.getsource(function).encode())
        except (OSError, TypeError):
            parts.append(function.__code__.co_code)
    return b"\n".join(parts)


def _file_of(cls: Any) -> str:
    return str(getattr(sys.modules.get(cls.__module__), "__file__", None) or cls.__module__)


def add_plugin(file: Path | str) -> None:
    """Add a plugin file (``--plugin``): what it registers is known from now on.

    >>> sdgbench.add_plugin("my_method.py")
    >>> sdgbench.list_methods()["mine"]
    'Plain training.'
    """
    file = Path(file).expanduser().resolve()
    if file not in _plugins:
        _plugins.append(file)
        entries.cache_clear()


def plugins() -> list[Path]:
    """All plugin files: those that were added, then those of the environment variable."""
    from_environment = [Path(p) for p in os.environ.get(PLUGIN_VARIABLE, "").split(os.pathsep) if p]
    return [*_plugins, *(path.expanduser().resolve() for path in from_environment)]


def get(kind: Kind, name: str) -> Entry:
    """Find an entry by name; the error for an unknown name suggests the nearest one."""
    known = entries(kind)
    if name not in known:
        raise unknown(kind, name, known, "All: sdgbench list")
    return known[name]


def match(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Replace ``all`` and patterns such as ``mada*`` by the known names that they stand for.

    Other names stay, and so does a pattern that stands for none, so that the caller refuses it.
    """
    known = list(known)
    matched: dict[str, None] = {}
    for name in names:
        pattern = "*" if name == "all" else name
        literal = name in known or not set(pattern) & set("*?[")
        fitting = [name] if literal else fnmatch.filter(known, pattern)
        matched.update(dict.fromkeys(fitting or [name]))
    return list(matched)


def expand(kind: Kind, names: Iterable[str]) -> list[str]:
    """The registered names that names and patterns stand for; an unknown one is an error."""
    usable = [name for name, entry in entries(kind).items() if not entry.error]
    return [get(kind, name).name for name in match(names, usable)]


def check_name(name: str, where: str = "") -> None:
    """Refuse a name that does not fit into a path, a command line and ``--set NAME.key``."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or name in RESERVED:
        raise UserError(
            f'{where}"{name}" cannot be a name: use letters, digits, dots, dashes, underscores.'
        )


@cache
def entries(kind: Kind) -> dict[str, Entry]:
    """List all entries of a kind by name: built-in, installed (entry points), plugin files."""
    by_name: dict[str, Entry] = {}
    for entry in _discover(kind):
        earlier = by_name.get(entry.name)
        if earlier and earlier.file == entry.file:
            continue  # the same file given twice, such as a plugin and an entry point
        if earlier:
            raise UserError(
                f'The {kind} name "{entry.name}" is taken twice: by {earlier.file} and by '
                f"{entry.file}. Rename one of them."
            )
        by_name[entry.name] = entry
    by_name |= {name: entry for (k, name), entry in _defined.items() if k == kind}
    return dict(sorted(by_name.items()))


def _discover(kind: Kind) -> Iterator[Entry]:
    package = importlib.util.find_spec(_FOLDERS[kind])  # does not import it
    for folder in (package and package.submodule_search_locations) or ():
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
    # with the reason, and only loading it is an error.
    package = point.dist.name if point.dist else point.module
    try:
        spec = importlib.util.find_spec(point.module)
        if spec is None or not spec.origin:
            raise UserError(f"its module {point.module} is not installed")
        yield from _scan(kind, Path(spec.origin), point.module, f"package {package}")
    except Exception as error:
        reason = f'The {kind} "{point.name}" of the package {package} cannot be read: {error}'
        yield Entry(
            kind, point.name, "", Path(point.module), point.module, {}, package, error=reason
        )


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
                    yield Entry(kind, name, doc, file, module, details, origin, node.name)


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
    check_name(name, f"{file}:{node.lineno}: ")
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
    except (Exception, SystemExit, GeneratorExit) as error:
        raise UserError(
            f"{entry.file} cannot be imported: {type(error).__name__}: {error}. "
            "Fix it, or omit --plugin."
        ) from error
