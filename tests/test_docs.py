"""The documents are true: links, commands, options, paths, code blocks and tables exist."""

import ast
import importlib
import importlib.util
import re
from pathlib import Path

import pytest
import sample_records as records
from conftest import ROOT
from doc_checks import (
    OLD_WORDS,
    codes,
    command_lines,
    dead_links,
    faults,
    missing_paths,
    name,
    prose,
)

from sdgbench import registry


def load(file: Path):
    """Import a script that is in no package."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generated_tables = load(ROOT / "docs" / "generated_tables.py")
FOLDERS = ("docs", "leaderboards", "examples", "methods", "datasets", "sdgbench", "tests")
DOCUMENTS = sorted(
    {*ROOT.glob("*.md"), *ROOT.glob(".github/**/*.md")}
    | {file for folder in FOLDERS for file in (ROOT / folder).rglob("*.md")}
)
GENERATED = set(ROOT.glob("leaderboards/*.md")) - {ROOT / "leaderboards" / "README.md"}
WRITTEN = [file for file in DOCUMENTS if file not in GENERATED]
HISTORY = {ROOT / "CHANGELOG.md"}  # may name what is gone


# Links -------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", DOCUMENTS, ids=name)
def test_links_lead_somewhere(file):
    assert dead_links(file) == []


def test_a_dead_link_is_noticed(tmp_path):
    (tmp_path / "there.md").write_text("# A `--redo` here\n\n## Twice\n\n## Twice\n")
    page = tmp_path / "page.md"
    page.write_text("[a](there.md) [b](there.md#a---redo-here) [c](there.md#twice-1)")
    assert dead_links(page) == []
    page.write_text("[a](gone.md) ![b](gone.png) [c](there.md#gone) [d](#gone)\n```\n[e](x)\n```\n")
    assert dead_links(page) == [
        "page.md: gone.md does not exist",
        "page.md: gone.png does not exist",
        "page.md: there.md#gone is no heading",
        "page.md: #gone is no heading",
    ]


def test_every_page_is_in_the_table_of_contents():
    contents = (ROOT / "docs" / "README.md").read_text()
    readme = (ROOT / "README.md").read_text()
    for page in ROOT.glob("docs/*.md"):
        if page.name != "README.md":
            assert f"]({page.name})" in contents
            assert f"](docs/{page.name})" in readme


# Commands ----------------------------------------------------------------------------------


@pytest.mark.parametrize("file", WRITTEN, ids=name)
def test_commands_and_options_exist(file):
    assert faults(file.read_text(encoding="utf-8")) == []


def test_a_command_that_does_not_exist_is_noticed():
    text = """
`sdgbench rum --method erm`, `sdgbench run --metod erm`, `sdgbench data fetch digits`, `--sed`,
`make demos`; fine: `sdgbench data prepare digits --generate`, `pip --no-such`, `make test ARGS=x`

```
torchrun --nproc-per-node 4 -m sdgbench run --methods mada   # two lines
sdgbench run --method erm \\
    --lancher slurm
```
"""
    assert faults(text) == [
        "sdgbench run --methods",
        "sdgbench run --lancher",
        "sdgbench rum",
        "sdgbench run --metod",
        "sdgbench data fetch",
        "--sed",
        "make demos",
    ]


@pytest.mark.parametrize("file", WRITTEN, ids=name)
def test_methods_datasets_and_presets_of_commands_exist(file):
    known = {*registry.entries("method"), *registry.entries("dataset"), "mixup", "mixed", "my-data"}
    known |= {"NAME", "NAMES", "paper", "quick", "smoke"}
    for code in codes(file.read_text(encoding="utf-8")):
        for line in command_lines(code):
            for names in re.findall(r"--(?:method|dataset|preset) ([\w,-]+)", line):
                assert set(names.split(",")) <= known, line


# Paths and modules -------------------------------------------------------------------------


@pytest.mark.parametrize("file", [file for file in WRITTEN if file not in HISTORY], ids=name)
def test_paths_and_modules_exist(file):
    assert missing_paths(file.read_text(encoding="utf-8")) == []


def test_a_path_that_does_not_exist_is_noticed():
    text = "`sdgbench/device.py` `sdgbench/training/` `methods/gone.py` `runs/x` `sdgbench.method` "
    text += "`sdgbench.device.Device` `sdgbench.training.device.Device(x)`"
    assert missing_paths(text) == [
        "sdgbench/device.py",
        "methods/gone.py",
        "sdgbench.device.Device",
    ]


# Code blocks -------------------------------------------------------------------------------


def python_blocks(file: Path) -> list[str]:
    text = file.read_text(encoding="utf-8")
    return [code.text for code in codes(text) if code.language == "python"]


@pytest.mark.parametrize("file", WRITTEN, ids=name)
def test_python_blocks_import_what_exists(file):
    for block in python_blocks(file):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom):
                module = importlib.import_module(node.module)
                assert all(hasattr(module, alias.name) for alias in node.names), block


def test_the_method_of_the_readme_learns(tmp_path):
    from sdgbench.conformance import CHECKS, MethodHarness

    (block,) = python_blocks(ROOT / "README.md")
    (tmp_path / "mixed.py").write_text(f'"""Mixed."""\n{block}')
    registry.add_plugin(tmp_path / "mixed.py")
    harness = MethodHarness("mixed", "digits-mini", tmp_path / "harness")
    for check in CHECKS:
        if check.name in ("load", "documentation", "learn"):
            check(harness)


def test_the_walk_through_is_the_example():
    example = (ROOT / "examples/sdgbench-mixup/sdgbench_mixup.py").read_text()
    squeezed = re.sub(r"\s+", " ", example)
    description, parameters, step, *_ = python_blocks(ROOT / "CONTRIBUTING.md")
    for block in (description, parameters, step):
        assert re.sub(r"\s+", " ", block).strip() in squeezed


def test_the_test_of_the_walk_through_passes(tmp_path):
    registry.add_plugin(ROOT / "examples/sdgbench-mixup/sdgbench_mixup.py")
    (block,) = [b for b in python_blocks(ROOT / "CONTRIBUTING.md") if "def test_" in b]
    namespace: dict = {}
    exec(block, namespace)
    (test,) = [value for key, value in namespace.items() if key.startswith("test_")]
    test(tmp_path)


# Words and length --------------------------------------------------------------------------


def test_the_readme_is_one_screen_and_a_half():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 160


@pytest.mark.parametrize("file", WRITTEN, ids=name)
def test_documents_use_plain_words(file):
    assert [match[0] for match in OLD_WORDS.finditer(prose(file.read_text()))] == []


def test_an_old_word_is_noticed():
    text = "How to mend it: leave the option away. There are so many. `hands` for Anewton."
    assert [m[0] for m in OLD_WORDS.finditer(prose(text))] == [
        "mend",
        "leave the option away",
        "so many",
    ]


def test_every_method_and_dataset_is_documented():
    for page, kind in (("methods", "method"), ("data", "dataset")):
        for text in ((ROOT / f"docs/{page}.md").read_text(), (ROOT / "README.md").read_text()):
            for entry in registry.entries(kind):
                assert f"`{entry}`" in text


# Generated tables --------------------------------------------------------------------------


@pytest.mark.parametrize(("file", "table"), generated_tables.TABLES)
def test_generated_tables_are_not_stale(file, table):
    text = (ROOT / file).read_text(encoding="utf-8")
    made = generated_tables.TABLES[file, table]()
    current = generated_tables.with_table(text, table, made)
    assert text == current, "run: python docs/generated_tables.py"


def test_the_time_table_counts_every_record():
    rows = generated_tables.time_table().splitlines()[2:]
    counts = [int(row.split("|")[4]) for row in rows]
    assert sum(counts) == len(list(generated_tables.RECORDS.glob("*/*/*/record.json")))


def test_the_time_of_a_run_is_a_median(tmp_path):
    for seed, train in enumerate((10, 1000, 2000)):
        record = records.make("m", seed, params={"k": 2}, flags={"params_changed": ["k"]})
        record["cost"] |= {"train_seconds": train, "other_seconds": {"evaluate": 1, "analyses": 2}}
        records.save(tmp_path, record)
    (row,) = generated_tables.time_table(tmp_path).splitlines()[2:]
    assert (
        row
        == "| `digits` | `quick` | `m (k=2)` | 3 | 1,000 | 1,003 | AMD EPYC (2 cores), threads: 2 |"
    )
