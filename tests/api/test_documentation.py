"""Every example runs: of the page, of the docstrings, of the notebook."""

import doctest
import inspect

import pytest
from conftest import ROOT
from doc_checks import codes

import sdgbench


@pytest.mark.usefixtures("registry_restored")
def test_the_examples_of_the_page_run(inside):
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = [code.text for code in codes(text) if code.language == "python"]
    namespace = {"__name__": "__main__"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"docs/python.md, block {number}", "exec"), namespace)
    assert list(namespace["means"].index) == ["erm", "gud"]
    assert (inside / "table.tex").read_text().count(r"\begin{tabular}") >= 1
    assert {record.spec.method for record in namespace["records"]} == {"erm", "smoothed"}


def public():
    for name in sdgbench.__all__:
        value = getattr(sdgbench, name)
        yield name, value
        if inspect.isclass(value):
            for member, function in vars(value).items():
                if inspect.isfunction(function) and not member.startswith("_"):
                    yield f"{name}.{member}", function


@pytest.mark.usefixtures("registry_restored")
def test_the_examples_of_docstrings_run(inside):
    import torch

    from sdgbench.method import Method
    from sdgbench.networks.base import Network

    (inside / "my_method.py").write_text(
        '"""Mine."""\nfrom sdgbench.method import Method\nfrom sdgbench import register_method\n\n\n'
        '@register_method("mine")\nclass Mine(Method):\n    """Plain training."""\n'
    )
    records = sdgbench.run("erm", "digits-mini", preset="smoke", seeds="0-1", progress=False)
    names = {
        "sdgbench": sdgbench,
        "torch": torch,
        "Method": Method,
        "Network": Network,
        "records": records,
        "run": sdgbench.load_run(records.folders[0]),
        "__name__": "__main__",
    }
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    ran = 0
    for name, value in public():
        test = parser.get_doctest(inspect.getdoc(value), dict(names), name, None, 0)
        result = runner.run(test)
        assert result.failed == 0, name
        ran += result.attempted
    assert ran >= 20


def test_every_public_name_has_an_example():
    for name in sdgbench.__all__:
        assert ">>> " in inspect.getdoc(getattr(sdgbench, name)), name


def test_the_notebook_runs_and_shows_its_output(finished, tmp_path):
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient").NotebookClient
    file = ROOT / "examples" / "python.ipynb"
    shown = nbformat.read(file, as_version=4)
    nbformat.validate(shown)
    codes = [cell for cell in shown.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in codes)
    assert sum("image/png" in str(cell.outputs) for cell in codes) == 2
    (tmp_path / "data").symlink_to(finished / "data")
    folder = {"metadata": {"path": str(tmp_path)}}
    again = client(shown, timeout=300, kernel_name="python3", resources=folder).execute()
    errors = [o for c in again.cells for o in c.get("outputs", ()) if o.output_type == "error"]
    assert errors == []
