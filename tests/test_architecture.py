"""The shape of the package: who may import whom, which files know names, how long files are."""

import ast
import re

import import_graph
import pytest
from conftest import ROOT

MODULES = import_graph.modules(ROOT)
GRAPH = import_graph.imports(MODULES)
# Each folder may import only those before it in the order of the data flow. Folders of one line
# are peers: they may import each other, as long as no two modules do.
LAYERS = (
    ("errors", "storage", "reporter", "version"),
    (
        "registry",
        "spec",
        "recipe",
        "task",
        "method",
        "dataset",
        "data",
        "corruptions",
        "networks",
        "records",
        "training",
        "evaluation",
    ),
    ("methods", "datasets"),
    ("leaderboard",),
    ("launch",),
    ("adapt", "conformance", "tuning"),
    ("report",),
    ("watch",),
    ("paper",),
    ("api",),
    ("cli",),
)
# What the layers leave open.
FORBIDDEN = {
    "records": {"training", "evaluation", "method", "dataset", "networks", "data"},
    "leaderboard": {"launch", "adapt", "conformance", "training", "method", "dataset", "methods"},
    "data": {"training", "evaluation", "records"},
    "networks": {"training", "evaluation", "records", "data"},
    "storage": {"registry"},
}
NAMELESS = ("training", "evaluation", "records", "leaderboard", "report")


def folder_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def test_no_two_modules_import_each_other():
    """Imports inside functions and for type checkers count, too."""
    assert import_graph.cycles(GRAPH) == []


def test_a_cycle_is_noticed():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
    assert import_graph.cycles(graph) == [["a", "b", "c"]]


def test_imports_follow_the_data_flow():
    level = {name: number for number, names in enumerate(LAYERS) for name in names}
    wrong = []
    for module, imported in GRAPH.items():
        folder = folder_of(module)
        for other in map(folder_of, imported):
            if folder in ("", "__main__") or other in ("", folder):
                continue
            if level[other] > level[folder] or other in FORBIDDEN.get(folder, ()):
                wrong.append(f"{module} imports {other}")
    assert not wrong


@pytest.mark.parametrize("folder", NAMELESS)
def test_the_core_names_no_method_and_no_dataset(folder):
    from sdgbench import registry

    names = {*registry.entries("method"), *registry.entries("dataset")}
    names -= {"folder"}  # also a plain word
    assert len(names) >= 10
    for module, file in MODULES.items():
        if folder_of(module) == folder:
            text = file.read_text(encoding="utf-8")
            quoted = set(re.findall(r"[\"']([A-Za-z0-9._-]+)[\"']", text))
            assert not quoted & names, (module, quoted & names)


def test_files_can_be_read_in_one_sitting():
    lengths = {name: len(file.read_text().splitlines()) for name, file in MODULES.items()}
    assert not {name: length for name, length in lengths.items() if length > 400}
    methods = {name: n for name, n in lengths.items() if folder_of(name) == "methods"}
    assert methods
    assert not {name: length for name, length in methods.items() if length > 200}


def test_no_docstring_is_a_placeholder():
    for module, file in MODULES.items():
        assert len(ast.get_docstring(ast.parse(file.read_text())) or "") > 20, module
