"""Names of methods and datasets as patterns, and flags of methods from ``list`` to the tables."""

import json

import pytest
import sample_records as records

from sdgbench import registry
from sdgbench.registry import match

KNOWN = ("erm", "gud", "gud-ensemble", "mada", "mada-no-meta", "mada-no-relax")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["erm"], ["erm"]),
        (["all"], list(KNOWN)),
        (["mada*"], ["mada", "mada-no-meta", "mada-no-relax"]),
        (["mada-no-*", "erm", "mada*"], ["mada-no-meta", "mada-no-relax", "erm", "mada"]),
        (["?ud"], ["gud"]),
        (["nothing*", "typo"], ["nothing*", "typo"]),  # refused by whoever looks them up
    ],
)
def test_patterns_stand_for_known_names(names, expected):
    assert match(names, KNOWN) == expected


def test_run_understands_patterns(cli, tmp_path):
    command = ("run", "--dataset", "digits-m*", "--preset", "smoke", "--set", "recipe.steps=1")
    assert cli(*command, "--method", "er?,rc-*").code == 0
    assert {path.parent.name for path in tmp_path.glob("runs/digits-mini/*/*")} == {"erm", "rc-img"}


def test_a_pattern_without_a_match_is_refused_with_the_nearest_name(cli):
    done = cli("run", "--method", "mda*", "--dataset", "digits-mini")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert 'No method "mda*". Did you mean "mada"?' in done.err


def test_all_is_every_method_but_those_that_cannot_be_read(monkeypatch):
    broken = registry.Entry("method", "broken", "", None, "m", error="no")  # type: ignore[arg-type]
    entries = {**registry.entries("method"), "broken": broken}
    with monkeypatch.context() as patch:
        patch.setattr(registry, "entries", lambda kind: entries)
        assert set(registry.expand("method", ["all"])) == set(entries) - {"broken"}


@pytest.mark.parametrize("name", ["all", "recipe"])
def test_a_method_cannot_have_a_name_with_another_meaning(name):
    with pytest.raises(Exception, match="cannot be a name"):
        registry.check_name(name)


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    for seed in range(3):
        for method, flags in {
            "erm": {},
            "gud": {"pretrained": True},
            "trivialaugment": {"method": ["corruption_overlap"]},
            "mada": {},
            "mada-no-meta": {"method": ["homemade"]},
        }.items():
            records.save(folder, records.make(method, seed, "cifar10c", flags=flags))
    return folder


def methods(done):
    assert done.code == 0, done.err
    return {row["method"] for row in json.loads(done.out)}


def test_tables_understand_patterns(runs, cli):
    compare = ("compare", "--format", "json")
    assert methods(cli(*compare, "--methods", "mada*")) == {"mada", "mada-no-meta"}
    assert methods(cli(*compare, "--dataset", "cifar*", "--methods", "all")) == {
        *("erm", "gud", "trivialaugment", "mada", "mada-no-meta")
    }
    done = cli(*compare, "--methods", "gdu*")
    assert done.code == 2
    assert 'Did you mean "gud"?' in done.err


@pytest.mark.parametrize(
    ("flags", "missing"),
    [
        ("corruption_overlap", {"trivialaugment"}),
        ("homemade", {"mada-no-meta"}),
        ("corruption_overlap,pretrained", {"trivialaugment", "gud"}),
        ("corruption_overlap,homemade", {"trivialaugment", "mada-no-meta"}),
    ],
)
def test_flagged_rows_can_be_left_out(flags, missing, runs, cli):
    every = methods(cli("compare", "--format", "json"))
    assert methods(cli("compare", "--format", "json", "--without", flags)) == every - missing


def test_an_unknown_flag_is_refused(runs, cli):
    done = cli("compare", "--without", "corruption-overlap")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert 'Did you mean "corruption_overlap"?' in done.err


def test_no_row_may_be_left(tmp_path, cli):
    flags = {"method": ["homemade"]}
    records.save(tmp_path / "runs", records.make("gud", 0, flags=flags))
    done = cli("compare", "--without", "homemade")
    assert done.code == 2
    assert "Omit --without" in done.err


def test_flags_are_shown_with_their_reason(runs, cli, without_torch):
    reason = "it trains on changes of contrast"
    assert reason in " ".join(cli("info", "trivialaugment").out.split())
    assert "Flag corruption_overlap" in " ".join(without_torch("list").split())
    assert f"trivialaugment: corruption_overlap ({reason}" in " ".join(cli("compare").out.split())


@pytest.mark.parametrize(
    ("dataset", "flags"), [("digits-mini", []), ("shapes10c", ["corruption_overlap"])]
)
def test_an_overlap_is_recorded_where_corruptions_are_tested(dataset, flags, cli, tmp_path):
    command = ("run", "--method", "trivialaugment", "--dataset", dataset, "--preset", "smoke")
    targets = ["--targets", "contrast/5"] if dataset == "shapes10c" else []
    assert cli(*command, "--set", "recipe.steps=1", "--set", "recipe.epochs=0", *targets).code == 0
    (path,) = tmp_path.glob("runs/*/*/*/record.json")
    assert json.loads(path.read_text())["flags"]["method"] == flags


def test_the_score_per_image_is_in_the_view_of_costs(tmp_path, cli):
    record = records.make("erm", 0, scores={"svhn": 0.4, "usps": 0.6})
    record["cost"]["images_forward"] = 250_000
    records.save(tmp_path / "runs", record)
    (row,) = json.loads(cli("compare", "--view", "cost", "--format", "json").out)
    assert row["score_per_M_images"] == pytest.approx(50 / 0.25)
