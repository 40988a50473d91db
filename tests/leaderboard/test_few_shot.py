"""The few-shot view: one seed is one unit, draws are averaged first."""

import csv
import io
import json
import math

import pytest
import sample_records as records

from sdgbench.leaderboard import FORMATS, leaderboards, load, render
from sdgbench.leaderboard.few_shot import few_shot_tables
from sdgbench.paper.few_shot import with_published

# accuracy by method, seed and shots; a list has one value per draw
SCORES = {
    ("erm", 0): {0: [0.50], 7: [0.70, 0.72], 10: [0.80, 0.90]},
    ("erm", 1): {0: [0.45], 7: [0.60, 0.66], 10: [0.70, 0.80]},
    ("mada", 0): {0: [0.55], 7: [0.75, 0.75], 10: [0.90, 0.94]},
    ("mada", 1): {0: [0.52], 7: [0.70, 0.72], 10: [0.80, 0.88]},
}


def adaptation(record, shots, draw, accuracy, **changes):
    asked = {
        "run": record["id"],
        "target": "svhn",
        "drawn_from": "train",
        "held_out": 0,
        "shots": shots,
        "draw": draw,
        "iterations": 300 if shots else 0,
        "lr": 1e-4 if shots else 0.0,
        "batch": 16 if shots else 0,
        **changes,
    }
    return {
        "schema": 1,
        "kind": "adaptation",
        "id": f"{shots}-{draw}",
        "asked": asked,
        "parent": {"id": record["id"], "spec": record["spec"], "checkpoint": "c" * 64},
        "results": {"accuracy": accuracy},
        "drawn": {"split": "train", "of": 73257},
        "flags": {},
        "evaluation": {
            "count": 2000,
            "sha256": "a" * 64,
            "whole": {"count": 2000, "sha256": "a" * 64},
        },
    }


def write(root, scores=SCORES, **changes):
    for (method, seed), found in scores.items():
        record = records.make(method, seed)
        folder = records.save(root, record).parent / "adapt"
        folder.mkdir()
        for shots, values in found.items():
            for draw, value in enumerate(values):
                path = folder / f"{shots}-{draw}.json"
                path.write_text(json.dumps(adaptation(record, shots, draw, value, **changes)))
    return shown(root)


def shown(root):
    tables, problems = few_shot_tables(leaderboards(load([root]).runs))
    return with_published(tables), problems


def test_cells_are_means_over_seeds_of_means_over_draws(tmp_path):
    (table, published), problems = write(tmp_path)
    assert not problems
    assert "few-shot mnist → svhn" in table.title
    assert [line.method for line in table.lines] == ["mada", "erm"]  # by the most shots
    cells = table.lines[1].cells
    # seeds: (80 + 90) / 2 = 85 and (70 + 80) / 2 = 75; t(0.975, 1) = 12.7062
    assert cells["10"].mean == pytest.approx(80)
    assert cells["10"].half == pytest.approx(12.7062 * math.sqrt(50) / math.sqrt(2), rel=1e-5)
    assert cells["7"].mean == pytest.approx((71 + 63) / 2)
    assert cells["0"].mean == pytest.approx(47.5)
    assert cells["gain_10"].mean == pytest.approx(((85 - 50) + (75 - 45)) / 2)
    assert cells["gain_7"].mean == pytest.approx(((71 - 50) + (63 - 45)) / 2)
    assert cells["sd_10"].mean == pytest.approx(math.sqrt(50))
    best = table.lines[0].cells
    assert best["10"].rank == 1
    assert best["gain_vs_erm"].mean == pytest.approx(((92 - 85) + (84 - 75)) / 2)
    assert published.kind == "published"
    assert all(cell.rank == 0 for line in published.lines for cell in line.cells.values())


def test_the_papers_rows_stand_beside_with_their_source(tmp_path):
    (_, published), _ = write(tmp_path)
    rows = {line.method: line.cells for line in published.lines}
    assert [rows["mada"][shots].mean for shots in ("0", "7", "10")] == [36.61, 56.33, 57.16]
    assert rows["mada"]["all"].mean is None
    assert rows["fada"]["7"].mean == 47.0
    assert rows["sbada"]["all"].mean == 61.08
    assert "i2i" not in rows  # it has nothing for this pair
    assert rows["mada"]["from"].text == "P MADA"
    assert "not ranked" in published.title
    assert any("CVPR 2020" in note for note in published.notes)


def test_gains_are_paired_by_draw_where_images_are_held_out(tmp_path):
    scores = {("erm", 0): {0: [0.5, 0.7], 10: [0.6, 0.9]}, ("erm", 1): {0: [0.5, 0.5], 10: [0.6]}}
    (table, *_), _ = write(tmp_path, scores, drawn_from="test", held_out=10)
    cells = table.lines[0].cells
    assert cells["0"].mean == pytest.approx((60 + 50) / 2)
    assert cells["gain_10"].mean == pytest.approx(((10 + 20) / 2 + 10) / 2)
    notes = " ".join(table.notes)
    assert (
        "svhn has no training split here: of each draw, 10 images per class are held out" in notes
    )
    assert "draws per seed: 1-2" in notes


def test_other_settings_and_other_content_are_other_tables(tmp_path):
    write(tmp_path)
    path = next(tmp_path.glob("*/*/*/adapt/10-0.json"))
    found = json.loads(path.read_text())
    found["asked"]["iterations"] = 50
    path.with_name("longer.json").write_text(json.dumps(found))
    found["evaluation"]["whole"]["sha256"] = "b" * 64
    path.with_name("content.json").write_text(json.dumps(found))
    tables, _ = shown(tmp_path)
    measured = [table for table in tables if table.kind == "few-shot"]
    assert sorted(table.facts["iterations"] for table in measured) == [50, 50, 300]
    assert len(tables) == len(measured) + 1  # one published block for all
    assert sorted("0" in [c.name for c in table.columns] for table in measured) == [
        False,
        True,
        True,
    ]


def test_a_seed_without_all_shots_is_named(tmp_path):
    scores = {**SCORES, ("erm", 1): {0: [0.45], 7: [0.6]}}
    (table, *_), _ = write(tmp_path, scores)
    erm = next(line for line in table.lines if line.method == "erm")
    assert erm.cells["10"].mean is None
    assert erm.cells["7"].mean is not None
    assert any("not adapted with all shots yet" in n and "erm, seed 1" in n for n in table.notes)


@pytest.mark.parametrize("style", FORMATS)
def test_every_format_prints_it(style, tmp_path):
    tables, _ = write(tmp_path)
    text = render(tables, style)
    assert "80.0" in text or "80.00" in text or '"10": 80.0' in text
    assert "57.16" in text
    assert "reduced" in text.lower()


def test_the_command_shows_sorts_and_filters(cli, tmp_path):
    write(tmp_path / "runs")
    done = cli("compare", "--view", "few-shot", "--format", "csv", "--methods", "erm")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [row["method"] for row in rows if row["table"] == "few-shot"] == ["erm"]
    assert float(rows[0]["10"]) == pytest.approx(80)
    assert (rows[0]["source"], rows[0]["target"]) == ("mnist", "svhn")
    assert cli("compare", "--view", "few-shot", "--sort", "sd_10").code == 0
    assert 'Did you mean "gain_10"' in cli("compare", "--view", "few-shot", "--sort", "gain10").err
    assert "last iterate" in cli("compare", "--view", "few-shot", "--choice", "val").err


def test_without_any_adaptation_it_says_what_to_do(cli, tmp_path):
    records.write(tmp_path / "runs", methods=("erm",), seeds=[0])
    done = cli("compare", "--view", "few-shot")
    assert done.code == 2
    assert "sdgbench adapt" in done.err


def test_the_table_does_not_wait_for_torch(without_torch, tmp_path):
    write(tmp_path / "runs")
    shown = without_torch("compare", "--view", "few-shot", "--runs", tmp_path / "runs")
    assert "mnist → svhn" in shown
