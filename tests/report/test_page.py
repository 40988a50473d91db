"""The page as text: what it holds, what cannot break out of it, and how the command behaves."""

import json
import re

import numpy as np
import pytest
import records
from records import sampled

from sdgbench.leaderboard import boards, load
from sdgbench.report import curves, palette, series
from sdgbench.report.content import content
from sdgbench.report.page import block, render

HOSTILE = ("<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "{{script}}")
DATASETS = ("cifar10c", "digits", "synthia")
SEVEN = ("erm", "gud", "mada", "jigen", "ccsa", "dsne", "gud-ensemble")


def no_samples(board):
    return {"missing": "no samples here"}


def found(root):
    return boards(load([root]).runs)


def held(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])


def write_curve(folder, lines=600):
    points = [{"phase": 0, "name": "wae", "step": s, "loss": 1e6} for s in range(1, 5)]
    for phase in (1, 2):
        for step in range(1, lines // 2 + 1):
            loss = 1.0 if phase == 1 else 3.0
            points.append({"phase": phase, "name": "train", "step": step, "loss": loss})
    points.append({"phase": 2, "name": "validation", "step": 1, "train_step": 301, "score": 0.5})
    text = "".join(json.dumps(point) + "\n" for point in points)
    (folder / "train.jsonl").write_text(text + '{"phase": 2, "name": "tra')


def test_names_cannot_leave_the_data_block(tmp_path):
    records.write(tmp_path, ("erm", *HOSTILE), range(2), DATASETS)
    text = render(found(tmp_path), no_samples)
    assert text.count("<script") == 2
    assert text.count("</script") == 2
    assert "<img" not in text
    assert text.count("'use strict'") == 1  # {{script}} is a name here, no place to fill
    assert {row["name"] for row in held(text)["boards"][0]["rows"]} == {"erm", *HOSTILE}


def test_the_block_has_no_character_that_html_or_javascript_could_stumble_over():
    value = {"<a>&\u2028": ["\u202e\x00", float("nan"), "</script><!--"]}
    text = block(value)
    assert not set("<>&\u2028\u2029\u202e\x00") & set(text)
    assert json.loads(text) == {"<a>&\ufffd": ["\ufffd\ufffd", "nan", "</script><!--"]}


def test_only_the_pages_own_script_and_style_may_run(tmp_path):
    import base64
    import hashlib

    records.write(tmp_path, seeds=[0])
    text = render(found(tmp_path), no_samples)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    for tag in ("style", "script"):
        inside = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.S)
        assert len(inside) == 1
        digest = base64.b64encode(hashlib.sha256(inside[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_nothing_is_fetched_from_anywhere(tmp_path):
    records.write(tmp_path, seeds=[0], datasets=DATASETS)
    text = render(found(tmp_path), no_samples)
    markup = text[: text.index('id="data">')]
    assert not re.search(r"(src|href)=\"(?!#)", markup)
    assert "@import" not in markup
    assert "innerHTML" not in text


def test_numbers_are_those_of_the_table(tmp_path):
    records.write(tmp_path, seeds=range(3), datasets=DATASETS)
    for board, shown in zip(found(tmp_path), held_boards(tmp_path), strict=True):
        assert [table["kind"] for table in shown["tables"][:-1]] == board.views()
        for view, table in zip(board.views(), shown["tables"], strict=False):
            expected = board.table(view)
            assert table["notes"] == list(expected.notes)
            for line, own in zip(expected.lines, table["lines"], strict=True):
                assert [cell["shown"] for cell in own["cells"]] == [
                    str(line.cells[column.name]) for column in expected.columns
                ]


def held_boards(root):
    return held(render(found(root), no_samples))["boards"]


def test_each_seed_stands_behind_a_mean_with_its_own_record(tmp_path):
    records.write(tmp_path, ("erm", "mada"), (3, 7))
    text = held(render(found(tmp_path), no_samples))
    board = text["boards"][0]
    (place,) = [i for i, c in enumerate(board["tables"][0]["columns"]) if c["name"] == "average"]
    for line in board["tables"][0]["lines"]:
        row, cell = board["rows"][line["row"]], line["cells"][place]
        assert row["name"] == line["name"]
        assert row["seeds"] == [3, 7]
        for seed, value, where in zip(row["seeds"], cell["seeds"], row["records"], strict=True):
            record = records.make(row["name"], seed)
            assert value == pytest.approx(100 * record["results"]["last"]["average"], abs=0.006)
            assert text["records"][where]["id"] == record["id"]
    gain = next(
        i for i, c in enumerate(board["tables"][0]["columns"]) if c["name"] == "gain_vs_erm"
    )
    cells = {line["name"]: line["cells"] for line in board["tables"][0]["lines"]}
    differences = np.subtract(cells["mada"][place]["seeds"], cells["erm"][place]["seeds"])
    assert cells["mada"][gain]["seeds"] == pytest.approx(differences, abs=0.02)
    assert "seeds" not in cells["erm"][gain]


def test_a_records_settings_are_there_and_its_machines_folders_are_not(tmp_path):
    records.write(tmp_path, ("erm",), (0,))
    text = render(found(tmp_path), no_samples)
    held_ = held(text)
    (record,) = held_["records"]
    sections = {name: held_["pool"][place] for name, place in record["sections"].items()}
    made = records.make("erm", 0)
    assert sections["recipe"] == made["spec"]["recipe"]
    assert sections["packages"] == made["packages"]
    assert sections["code"] == made["code"]
    assert sections["cost"] == made["cost"]
    assert record["place"] == f"digits/erm/{made['id']}"
    assert str(tmp_path) not in text


def test_reduced_scale_is_said_of_the_board_and_of_each_record(tmp_path):
    records.write(tmp_path, ("erm",), (0,), preset="smoke")
    page = held(render(found(tmp_path), no_samples))
    said = records.RECIPES["smoke"]["reduced"]
    assert page["boards"][0]["reduced"] == said
    assert page["records"][0]["reduced"] == said


def test_a_score_of_nothing_is_still_a_number(tmp_path):
    records.save(tmp_path, records.make("erm", dataset="new", scores={"a": 0.0, "b": 0.0}))
    (board,) = held_boards(tmp_path)
    assert [cell["mean"] for cell in board["tables"][0]["lines"][0]["cells"][1:]] == [0, 0, 0, 0]


def test_published_rows_stand_apart(tmp_path):
    records.write(tmp_path, ("erm", "mada"), (0, 1), ("digits",), "paper")
    (board,) = held_boards(tmp_path)
    assert board["published"]
    ours = {row["name"] for row in board["rows"]}
    assert all({line["name"] for line in table["lines"]} <= ours for table in board["tables"])
    assert any(table["kind"] == "published" for table in board["published"])


def test_severity_panels_are_means_over_seeds(tmp_path):
    records.write(tmp_path, ("erm",), range(3), ("cifar10c",))
    (board,) = found(tmp_path)
    panels = {panel.name: panel for panel in series.severity_panels(board)}
    assert len(panels) == 20
    (row,) = board.rows
    fog = panels["fog"].estimates(row)
    expected = np.mean([run.score("fog/4") for run in row.runs.values()])
    assert panels["fog"].levels == [0, 1, 2, 3, 4, 5]
    assert fog[4].mean == pytest.approx(100 * expected)
    assert panels[series.ALL_CORRUPTIONS].estimates(row)[5].mean == pytest.approx(
        series.ranked_estimate(row).mean
    )
    records.write(tmp_path / "other", ("erm",), (0,))
    assert series.severity_panels(found(tmp_path / "other")[0]) == []


def test_the_pareto_front_holds_what_nothing_beats():
    points = {
        "cheap": (1, 50),
        "good": (3, 70),
        "beaten": (3, 60),
        "same": (3, 70),
        "worst": (9, 9),
    }
    assert series.pareto(points) == ["cheap", "good", "same"]
    assert series.pareto({"alone": (1, 1)}) == ["alone"]
    assert series.pareto({"a": (1, 5), "b": (1, 6)}) == ["b"]


def test_curves_hold_the_task_network_only_and_few_points(tmp_path):
    write_curve(tmp_path)
    curve = curves.read(tmp_path)
    assert len(curve.loss) == curves.MOST_POINTS
    assert curve.loss[-1] == (600, 3.0)
    assert curve.loss[0][1] == 1.0  # not that of the autoencoder
    assert curve.validation == [(301, 50.0)]
    assert curves.read(tmp_path / "nowhere") == curves.Curve()


def test_thinning_keeps_the_mean():
    points = [(step, float(step)) for step in range(1, 1001)]
    thinned = curves.thin(points, 10)
    assert thinned[0] == (100, 50.5)
    assert thinned[-1][0] == 1000
    assert curves.thin(points[:7], 10) == points[:7]


def test_usual_methods_look_the_same_on_every_page(tmp_path):
    records.write(tmp_path / "a", ("erm", "mada"), (0,))
    records.write(tmp_path / "b", ("aaa", "mada", "zzz", *SEVEN), (0,))
    few, many = palette.looks(found(tmp_path / "a")), palette.looks(found(tmp_path / "b"))
    assert few["mada"] == many["mada"]
    assert len({(look.colour, look.marker, look.dash) for look in many.values()}) == 9
    assert len({many[name].colour for name in SEVEN}) == 7


def test_variants_share_a_colour_but_not_a_look(tmp_path):
    for k in (1, 2):
        records.save(tmp_path, records.make("mada", params={"K": k}))
    one, two = palette.looks(found(tmp_path)).values()
    assert one.colour == two.colour
    assert (one.marker, one.dash) != (two.marker, two.dash)


def test_seven_methods_on_three_datasets_stay_far_below_five_megabytes(tmp_path):
    for path in records.write(tmp_path, SEVEN, range(5), DATASETS):
        write_curve(path.parent)
    assert len(render(found(tmp_path), no_samples).encode()) < 1.5e6  # images have the rest


# Samples


def test_samples_tell_truth_and_decision(tmp_path, data):
    from sdgbench.report import samples

    sampled(tmp_path, data, wrong=64)
    (board,) = found(tmp_path)
    shown = samples.collect(board, data)
    assert [domain["name"] for domain in shown["domains"]] == ["street", "scan"]
    for domain in shown["domains"]:
        assert domain["strip"].startswith("data:image/jpeg;base64,")
        assert len(domain["truth"]) == samples.PER_DOMAIN
        expected = [(label + 1) % 10 for label in domain["truth"]]
        assert domain["decided"]["erm"] == expected


def test_the_choice_of_samples_does_not_depend_on_decisions(tmp_path, data):
    from sdgbench.report import samples

    strips = []
    for wrong in (0, 64):
        sampled(tmp_path / str(wrong), data, wrong=wrong)
        (board,) = found(tmp_path / str(wrong))
        strips.append([d["strip"] for d in samples.collect(board, data)["domains"]])
    assert strips[0] == strips[1]


def test_samples_of_other_content_are_not_shown(tmp_path, data):
    from sdgbench.report import samples

    folder = sampled(tmp_path, data)
    path = folder / "record.json"
    record = json.loads(path.read_text())
    record["domains"]["scan"]["sha256"] = "0" * 64
    path.write_text(json.dumps(record))
    (board,) = found(tmp_path)
    shown = samples.collect(board, data)
    assert [domain["name"] for domain in shown["domains"]] == ["street"]
    assert "other content" in shown["left_out"][0]


@pytest.mark.parametrize("lost", ["data", "predictions", "damaged predictions", "dataset"])
def test_samples_say_what_is_missing(tmp_path, data, lost):
    from sdgbench.report import samples

    name = "of-a-plugin" if lost == "dataset" else "digits-mini"
    folder = sampled(tmp_path, data)
    if lost == "predictions":
        (folder / "predictions.npz").unlink()
    elif lost == "damaged predictions":
        (folder / "predictions.npz").write_bytes(b"PK\x03\x04 cut off")
    elif lost == "dataset":
        text = (folder / "record.json").read_text()
        (folder / "record.json").write_text(text.replace("digits-mini", name))
    (board,) = found(tmp_path)
    missing = samples.collect(board, tmp_path / "nowhere" if lost == "data" else data)["missing"]
    assert {"data": "sdgbench run", "dataset": "--plugin"}.get(lost, "predictions.npz") in missing
    assert not (tmp_path / "nowhere").exists()  # showing makes no data


def test_segmentation_samples_show_how_much_is_right(tmp_path, data):
    from sdgbench.report import samples

    sampled(tmp_path, data, "streets-mini", ("city/fog",), wrong=0)
    (board,) = found(tmp_path)
    shown = samples.collect(board, data)
    (domain,) = shown["domains"]
    assert shown["kind"] == "segmentation"
    assert domain["decided"]["erm"]["right"] == 1.0
    assert domain["decided"]["erm"]["map"] == domain["truth"]
    assert domain["truth"].startswith("data:image/png;base64,")
    assert len(shown["palette"]) == len(shown["classes"]) == 14


# The command


def test_the_command_says_path_and_size(tmp_path, cli):
    records.write(tmp_path / "runs", seeds=[0, 1])
    done = cli("report", "--no-samples", "--output", "out/page.html")
    assert (done.code, done.err) == (0, "")
    size = (tmp_path / "out" / "page.html").stat().st_size
    assert done.out == f"Wrote out/page.html ({size / 1e6:.2f} MB).\n"


def test_broken_records_are_named_and_skipped(tmp_path, cli):
    paths = records.write(tmp_path / "runs", ("erm", "mada"), (0,))
    paths[0].write_text(paths[0].read_text()[:500])
    done = cli("report", "--no-samples")
    assert done.code == 0
    assert str(paths[0].relative_to(tmp_path)) in done.err
    page = held((tmp_path / "report.html").read_text())
    assert page["skipped"] == 1
    assert [row["name"] for row in page["boards"][0]["rows"]] == ["mada"]


def test_without_records_it_says_what_to_run(tmp_path, cli):
    done = cli("report")
    assert done.code == 2
    assert "sdgbench run" in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "report.html").exists()


def test_missing_data_leaves_the_rest_of_the_page(tmp_path, cli):
    records.write(tmp_path / "runs", ("erm",), (0,))
    done = cli("report", "--data", "nowhere")
    assert done.code == 0
    assert "No samples for digits" in done.err
    assert "missing" in held((tmp_path / "report.html").read_text())["boards"][0]["samples"]


def test_only_what_was_asked_for(tmp_path, cli):
    records.write(tmp_path / "runs", datasets=("digits", "synthia"), seeds=[0])
    arguments = ("--no-samples", "--dataset", "digits", "--methods", "gud")
    assert cli("report", *arguments).code == 0
    (board,) = held((tmp_path / "report.html").read_text())["boards"]
    assert (board["dataset"], [row["name"] for row in board["rows"]]) == ("digits", ["gud"])
    wrong = cli("report", "--methods", "guf")
    assert wrong.code == 2
    assert 'Did you mean "gud"?' in wrong.err


def test_without_samples_torch_is_not_imported(tmp_path, python):
    records.write(tmp_path / "runs", seeds=[0])
    code = (
        "import sys\nfrom sdgbench.cli.app import main\n"
        "try: main(['report', '--no-samples'])\n"
        "except SystemExit as stop: print(stop.code, 'torch' in sys.modules)"
    )
    done = python("-c", code, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "0 False", done.stderr


def test_content_of_no_boards_is_still_a_page():
    assert content([], no_samples)["boards"] == []
