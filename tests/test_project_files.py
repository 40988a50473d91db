"""The files around the code agree with it: pre-commit, workflow, templates, citation."""

import re
import tomllib

import yaml
from conftest import ROOT
from doc_checks import faults


def test_pre_commit_runs_what_make_lint_runs():
    makefile = (ROOT / "Makefile").read_text()
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.M)[1]
    wanted = [line.strip().removeprefix("@$(VENV)/bin/") for line in recipe.splitlines()]
    configuration = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    (repository,) = configuration["repos"]
    assert [hook["entry"] for hook in repository["hooks"]] == wanted
    assert all(hook["pass_filenames"] is False for hook in repository["hooks"])


def test_the_workflow_runs_the_ci_script():
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    steps = workflow["jobs"]["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == ["bash .ci/run"]
    assert (ROOT / ".ci" / "run").exists()


def test_issue_templates_are_forms():
    templates = {file.stem: file for file in ROOT.glob(".github/ISSUE_TEMPLATE/*.yml")}
    assert set(templates) == {"new_method", "new_dataset", "new_result", "bug"}
    for file in templates.values():
        form = yaml.safe_load(file.read_text())
        assert {"name", "description", "body"} <= set(form)
        for field in form["body"]:
            assert field["type"] in ("input", "textarea", "checkboxes")
            assert field["attributes"]["label"]


def test_the_citation_matches_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]
    assert all({"type", "title", "authors"} <= set(entry) for entry in citation["references"])


def test_templates_name_commands_that_exist():
    for file in ROOT.glob(".github/**/*.yml"):
        assert faults(file.read_text(encoding="utf-8")) == []
