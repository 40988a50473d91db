"""The list of the paper's experiments, and the page that shows them."""

import shlex

import pytest
import sample_records as records

from sdgbench import registry
from sdgbench.cli.app import VERBS
from sdgbench.paper import experiments


def test_names_tell_kind_and_subject_and_are_not_shared():
    names = [item.name for item in experiments.ITEMS]
    assert len(set(names)) == len(names)
    assert experiments.Item("table", "digits", "", "", number="1").name == "table-1-digits"


def test_every_method_and_dataset_of_the_list_exists():
    for command in [*experiments.RUNS, *(item.command for item in experiments.ITEMS)]:
        words = shlex.split(command)
        for option, kind in (
            ("--method", "method"),
            ("--methods", "method"),
            ("--ablation", "method"),
            ("--dataset", "dataset"),
        ):
            if option in words:
                for name in words[words.index(option) + 1].split(","):
                    assert name in registry.entries(kind), command


def test_a_dry_run_shows_the_commands_and_makes_nothing(tmp_path, cli):
    done = cli("paper", "--dry-run", "--preset", "smoke", "--jobs", 2, "--output", "out")
    assert done.code == 0
    lines = done.out.splitlines()
    assert len(lines) == len(experiments.RUNS) + sum(
        2 if i.kind == "table" else 1 for i in experiments.ITEMS
    )
    assert lines[0].startswith("sdgbench run --method mada")
    assert "--preset smoke --jobs 2 --runs out/runs" in lines[0]
    for line in lines:
        if "--grid" in line:
            assert "--runs out/variants" in line
        if "--ablation" in line:
            assert "--runs out/runs --runs out/variants" in line
    assert not (tmp_path / "out").exists()


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """As if all runs were done; no run has kept predictions or samples."""
    monkeypatch.setattr(experiments, "RUNS", ())
    for dataset in (experiments.DIGITS, experiments.SHAPES, experiments.STREETS):
        for method in (
            "erm",
            "ccsa",
            "dsne",
            "jigen",
            "gud",
            "gud-ensemble",
            "mada",
            "mada-no-relax",
            "mada-no-meta",
        ):
            record = records.make(method, 0, dataset, params={"K": 3}, flags={"params_changed": []})
            record["transport"] = {
                "sample": {"exact": 5, "sliced": 5},
                "domains": [
                    {
                        "images": 9,
                        "pixel": {"exact": 0.25, "sliced": 0.125},
                        "embedding": {"exact_relative": 0.5, "sliced_relative": 0.375},
                    }
                ],
            }
            records.save(tmp_path / "out" / "runs", record)
    for K in (1, 5):
        changed = {"params_changed": ["K"]}
        record = records.make("mada", 0, experiments.DIGITS, params={"K": K}, flags=changed)
        records.save(tmp_path / "out" / "variants", record)
    return tmp_path / "out"


def test_what_can_be_made_is_made_and_the_rest_is_named(finished, cli):
    done = cli("paper", "--output", "out", "--data", "nowhere")
    assert done.code == 1
    lacking = {"table-few-shot", "figure-embedding", "figure-segmentation"}
    not_made = [line for line in done.err.splitlines() if line.startswith("Not made")]
    assert ["few-shot" in line for line in not_made] == [True, True, False, False]
    assert [line.split()[4] for line in not_made[2:]] == ["tsne", "gallery"]
    made = {path.name for path in finished.iterdir() if path.is_file()}
    assert made == {"index.html"} | {
        f"{item.name}.{suffix}"
        for item in experiments.ITEMS
        if item.name not in lacking
        for suffix in (("md",) if item.kind == "table" else ("svg", "pdf"))
    }
    page = (finished / "index.html").read_text()
    assert "reduced scale, other data" in page
    for item in experiments.ITEMS:
        assert f'<h2 id="{item.name}">' in page
    assert page.count('src="data:image/svg+xml;base64,') == 3
    assert page.count("Not made: sdgbench plot") == 2
    assert "mada (K=5)" in page
    for printed in ("31.90", "22.10", "59.49", "55.71"):  # efficiency, digits, relaxation
        assert f"<td>{printed}</td>" in page
    assert "src=" not in page.replace('src="data:', "")
    assert "0.25000" in (finished / "table-transport.md").read_text()
    assert "0.078" in (finished / "table-transport.md").read_text()
    assert "mada (K" not in (finished / "table-digits.md").read_text()


def test_a_published_table_is_shown_as_printed():
    lines = {line.method: line.cells for line in experiments.printed("few_shot").lines}
    assert lines["mada (7 per class)"]["mnist_to_svhn"].mean == 56.33
    assert lines["mada (10 per class)"]["average"].mean == 80.88
    scenes = {line.method: line.cells for line in experiments.printed("synthia").lines}
    assert scenes["highway/fog: gud"]["average"].mean == 28.53


def test_the_verb_is_listed():
    assert "paper" in VERBS
