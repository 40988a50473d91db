"""The imports of the package, read from its syntax trees."""

import ast
from collections.abc import Iterator
from pathlib import Path


def modules(root: Path) -> dict[str, Path]:
    """All modules below ``root/sdgbench`` by their full names; links to folders are followed."""
    found = {}
    for folder in [root / "sdgbench", *_folders(root / "sdgbench")]:
        for file in folder.glob("*.py"):
            parts = file.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = file
    return found


def _folders(folder: Path) -> Iterator[Path]:
    for child in sorted(folder.iterdir()):
        if child.is_dir() and child.name != "__pycache__":
            yield child
            yield from _folders(child)


def imports(known: dict[str, Path]) -> dict[str, set[str]]:
    """For each module those it imports: at the top, inside functions and for type checkers."""
    return {name: set(_imported(name, file, known)) for name, file in known.items()}


def _imported(name: str, file: Path, known: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                child = f"{node.module}.{alias.name}"
                target = child if child in known else node.module
                if target != name:
                    yield target


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan, 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for child in sorted(graph[node]):
            if child not in index:
                visit(child)
                low[node] = min(low[node], low[child])
            elif child in stack:
                low[node] = min(low[node], index[child])
        if low[node] == index[node]:
            position = stack.index(node)
            component = sorted(stack[position:])
            del stack[position:]
            if len(component) > 1:
                found.append(component)

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found
