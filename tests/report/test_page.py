"""The page as text: what it holds, what cannot break out of it, and how the command behaves."""

import json
import math
import re

import numpy as np
import pytest
import sample_records as records
from sample_records import sampled

from sdgbench.leaderboard import available, leaderboards, load, make_table
from sdgbench.paper.comparison import paper_tables
from sdgbench.paper.style import COLOUR_ORDER
from sdgbench.report import curves, palette, series
from sdgbench.report.content import content
from sdgbench.report.page import block, render

HOSTILE = ("<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "{{script}}")
DATASETS = ("cifar10c", "digits", "synthia")
SEVEN = ("erm", "gud", "mada", "jigen", "ccsa", "dsne", "gud-ensemble")


def no_samples(board):
    return {"missing": "no samples here"}


def boards_of(root):
    return leaderboards(load([root]).runs)


def page_data(text):
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
    text = render(boards_of(tmp_path), no_samples, publish=paper_tables)
    assert text.count("<script") == 2
    assert text.count("</script") == 2
    assert "<img" not in text
    assert text.count("'use strict'") == 1  # {{script}} is a name here, not a placeholder
    assert {row["name"] for row in page_data(text)["boards"][0]["rows"]} == {"erm", *HOSTILE}


def test_the_block_has_no_character_that_html_or_javascript_could_stumble_over():
    value = {"<a>&\u2028": ["\u202e\x00", float("nan"), "</script><!--"]}
    text = block(value)
    assert not set("<>&\u2028\u2029\u202e\x00") & set(text)
    assert json.loads(text) == {"<a>&\ufffd": ["\ufffd\ufffd", "nan", "</script><!--"]}


def test_only_the_pages_own_script_and_style_may_run(tmp_path):
    import base64
    import hashlib

    records.write(tmp_path, seeds=[0])
    text = render(boards_of(tmp_path), no_samples)
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
    text = render(boards_of(tmp_path), no_samples, publish=paper_tables)
    markup = text[: text.index('id="data">')]
    assert not re.search(r"(src|href)=\"(?!#)", markup)
    assert "@import" not in markup
    assert "innerHTML" not in text


def test_numbers_are_those_of_the_table(tmp_path):
    records.write(tmp_path, seeds=range(3), datasets=DATASETS)
    for board, shown in zip(boards_of(tmp_path), boards_on_page(tmp_path), strict=True):
        assert [table["kind"] for table in shown["tables"][:-1]] == available(board)
        for view, table in zip(available(board), shown["tables"], strict=False):
            expected = make_table(board, view)
            assert table["notes"] == list(expected.notes)
            for line, shown_line in zip(expected.lines, table["lines"], strict=True):
                assert [cell["shown"] for cell in shown_line["cells"]] == [
                    str(line.cells[column["name"]]) for column in table["columns"]
                ]


def boards_on_page(root):
    return page_data(render(boards_of(root), no_samples, publish=paper_tables))["boards"]


def test_each_seed_of_a_mean_has_its_own_record(tmp_path):
    records.write(tmp_path, ("erm", "mada"), (3, 7))
    data = page_data(render(boards_of(tmp_path), no_samples))
    board = data["boards"][0]
    (average,) = [i for i, c in enumerate(board["tables"][0]["columns"]) if c["name"] == "average"]
    for line in board["tables"][0]["lines"]:
        row, cell = board["rows"][line["row"]], line["cells"][average]
        assert row["name"] == line["name"]
        assert row["seeds"] == [3, 7]
        for seed, value, index in zip(row["seeds"], cell["seeds"], row["records"], strict=True):
            record = records.make(row["name"], seed)
            assert value == pytest.approx(100 * record["results"]["last"]["average"], abs=0.006)
            assert data["records"][index]["id"] == record["id"]
    gain = next(
        i for i, c in enumerate(board["tables"][0]["columns"]) if c["name"] == "gain_vs_erm"
    )
    cells = {line["name"]: line["cells"] for line in board["tables"][0]["lines"]}
    differences = np.subtract(cells["mada"][average]["seeds"], cells["erm"][average]["seeds"])
    assert cells["mada"][gain]["seeds"] == pytest.approx(differences, abs=0.02)
    assert "seeds" not in cells["erm"][gain]


def test_a_records_settings_are_there_and_its_machines_folders_are_not(tmp_path):
    records.write(tmp_path, ("erm",), (0,))
    text = render(boards_of(tmp_path), no_samples)
    data = page_data(text)
    (record,) = data["records"]
    sections = {name: data["pool"][index] for name, index in record["sections"].items()}
    expected = records.make("erm", 0)
    assert sections["recipe"] == expected["spec"]["recipe"]
    assert sections["packages"] == expected["packages"]
    assert sections["code"] == expected["code"]
    assert sections["cost"] == expected["cost"]
    assert record["folder"] == f"digits/erm/{expected['id']}"
    assert str(tmp_path) not in text


def test_reduced_scale_is_stated_for_the_board_and_each_record(tmp_path):
    records.write(tmp_path, ("erm",), (0,), preset="smoke")
    page = page_data(render(boards_of(tmp_path), no_samples))
    reason = records.RECIPES["smoke"]["reduced"]
    assert page["boards"][0]["reduced"] == reason
    assert page["records"][0]["reduced"] == reason


def test_a_score_of_nothing_is_still_a_number(tmp_path):
    records.save(tmp_path, records.make("erm", dataset="new", scores={"a": 0.0, "b": 0.0}))
    (board,) = boards_on_page(tmp_path)
    table = board["tables"][0]
    cells = zip(table["columns"], table["lines"][0]["cells"], strict=True)
    assert [cell["mean"] for column, cell in cells if column["name"] != "source"] == [0, 0, 0, 0]


def test_published_rows_are_separate(tmp_path):
    records.write(tmp_path, ("erm", "mada"), (0, 1), ("digits",), "paper")
    (board,) = boards_on_page(tmp_path)
    assert board["published"]
    ours = {row["name"] for row in board["rows"]}
    assert all({line["name"] for line in table["lines"]} <= ours for table in board["tables"])
    assert any(table["kind"] == "published" for table in board["published"])


def test_severity_panels_are_means_over_seeds(tmp_path):
    records.write(tmp_path, ("erm",), range(3), ("cifar10c",))
    (board,) = boards_of(tmp_path)
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
    assert series.severity_panels(boards_of(tmp_path / "other")[0]) == []


def front(**rows):
    """The front of rows given as cost, its half-width, and the score of each seed."""
    costs = {name: series.Estimate(cost, half) for name, (cost, half, _) in rows.items()}
    scores = {name: dict(enumerate(values)) for name, (_, _, values) in rows.items()}
    return series.front(costs, scores)


LOW, MIDDLE, HIGH = (50.0, 50.5, 51.0), (60.1, 60.4, 61.1), (70.0, 70.6, 71.0)


def test_the_pareto_front_holds_what_nothing_beats():
    shown = front(
        cheap=(1, 0.1, LOW), good=(3, 0.1, HIGH), beaten=(3, 0.1, MIDDLE), worst=(9, 0.1, LOW)
    )
    assert shown == ["cheap", "good"]


def test_differences_that_intervals_do_not_support_make_no_front():
    # Three networks that are the same: their latencies differ by less than their intervals.
    assert front(a=(0.73, 0.64, HIGH), b=(0.79, 0.64, HIGH), c=(0.90, 0.64, HIGH)) == []
    noisy = (50.0, 71.0, 60.0)
    assert front(a=(1, 0, MIDDLE), b=(1, 0, noisy)) == []
    # A supported gain in one respect and a tie in the other is enough.
    assert front(a=(0.73, 0.64, HIGH), b=(0.90, 0.64, LOW)) == ["a"]
    assert front(a=(1, 0, MIDDLE), b=(2, 0, noisy)) == ["a"]


def test_a_row_without_intervals_takes_no_part_in_the_front():
    assert front(one=(0.1, 0.01, (99.0,)), a=(1, 0.1, HIGH), b=(1, 0.1, LOW)) == ["a"]
    assert front(untimed=(0.1, None, HIGH), a=(1, 0.1, MIDDLE), b=(1, 0.1, LOW)) == ["a"]


def test_a_cost_has_the_wider_of_its_intervals(tmp_path):
    for seed in range(3):
        record = records.make("erm", seed)
        record["efficiency"]["latency"]["batch_1"] |= {"p50_ms": 2.0, "half_ms": 0.3}
        records.save(tmp_path, record)
    (board,) = boards_of(tmp_path)
    by_name = {cloud.name: cloud.costs["erm"] for cloud in series.clouds(board)}
    assert by_name["latency"] == series.Estimate(2.0, pytest.approx(0.3))  # equal medians
    assert by_name["parameters"].half == 0
    assert by_name["training"].half > 0


def test_figures_follow_the_choice_of_weights(tmp_path):
    for seed in range(2):
        record = records.make("erm", seed, scores={"svhn": 0.5, "usps": 0.7})
        chosen = record["results"]["val"]
        chosen["per_domain"]["svhn"]["accuracy"] = 0.9
        chosen["average"] = chosen["averages"]["average"]["mean"] = 0.8
        records.save(tmp_path, record)
    (board,) = boards_on_page(tmp_path)
    shown = {choice: figures["scores"][0][0][0] for choice, figures in board["choices"].items()}
    assert shown == {"last": 50, "val": 90}
    ys = {c: figures["clouds"][0]["points"][0]["y"][0] for c, figures in board["choices"].items()}
    assert ys == {"last": 60, "val": 80}


def test_the_ranked_column_comes_first_on_the_page(tmp_path):
    records.write(tmp_path, ("erm", "mada"), (0, 1))
    (board,) = boards_on_page(tmp_path)
    names = [column["name"] for column in board["tables"][0]["columns"]]
    assert names[:3] == ["average", "gain_vs_erm", "source"]


def test_rows_that_lack_seeds_are_marked_for_the_page(tmp_path):
    records.write(tmp_path, ("erm", "mada"), (0, 1))
    records.write(tmp_path, ("gud",), (0,))
    (board,) = boards_on_page(tmp_path)
    marks = {line["name"]: line["unranked"] for line in board["tables"][0]["lines"]}
    assert marks == {"mada": False, "erm": False, "gud": True}


def test_curves_are_means_over_the_steps_that_all_seeds_have():
    one = curves.Curve([(1, 2.0), (2, 1.0)], [(2, 80.0)])
    two = curves.Curve([(1, 4.0), (2, 1.0), (3, 0.5)], [(2, 90.0)])
    loss, validation = curves.means([one, two])
    assert [(point.step, point.mean) for point in loss] == [
        (1, pytest.approx(math.sqrt(8))),  # the geometric mean
        (2, 1.0),
    ]
    # 12.706: t of one degree of freedom
    factor = math.exp(12.706 * math.log(2) / 2)
    assert loss[0].low == pytest.approx(loss[0].mean / factor, rel=1e-3)
    assert loss[0].high == pytest.approx(loss[0].mean * factor, rel=1e-3)
    assert (validation[0].mean, validation[0].high) == (85, 100)  # not 149
    assert validation[0].low == pytest.approx(85 - 12.706 * 5, abs=0.01)
    assert curves.means([one])[0][0].low is None
    assert curves.means([]) == ([], [])


def test_a_loss_that_is_not_positive_has_an_ordinary_mean():
    one, two = (curves.Curve([(1, value)], []) for value in (-1.0, 2.0))
    (point,), _ = curves.means([one, two])
    assert point.mean == 0.5
    assert point.high - point.mean == pytest.approx(point.mean - point.low)


def test_a_mean_over_seeds_has_few_points():
    """The loss of single steps is mostly noise, and so would be the band of three of them."""
    long = curves.Curve([(step, 2.0) for step in range(200)], [])
    loss, _ = curves.means([long, long])
    assert len(loss) == curves.MOST_MEANS
    assert loss[-1].step == 199


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
    few, many = (palette.looks(boards_of(tmp_path / name), COLOUR_ORDER) for name in "ab")
    assert few["mada"] == many["mada"]
    assert len({(look.colour, look.marker, look.dash) for look in many.values()}) == 9
    assert len({many[name].colour for name in SEVEN}) == 7


def test_variants_share_a_colour_but_not_a_look(tmp_path):
    for k in (1, 2):
        records.save(tmp_path, records.make("mada", params={"K": k}))
    first, second = palette.looks(boards_of(tmp_path)).values()
    assert first.colour == second.colour
    assert (first.marker, first.dash) != (second.marker, second.dash)


def test_seven_methods_on_three_datasets_stay_far_below_five_megabytes(tmp_path):
    for path in records.write(tmp_path, SEVEN, range(5), DATASETS):
        write_curve(path.parent)
    text = render(boards_of(tmp_path), no_samples, publish=paper_tables)
    assert len(text.encode()) < 1.5e6  # images have the rest


# Samples


def test_samples_show_truth_and_prediction(tmp_path, data):
    from sdgbench.report import samples

    sampled(tmp_path, data, wrong=64)
    (board,) = boards_of(tmp_path)
    shown = samples.collect(board, data)
    assert [domain["name"] for domain in shown["domains"]] == ["street", "scan"]
    for domain in shown["domains"]:
        assert domain["strip"].startswith("data:image/jpeg;base64,")
        assert len(domain["truth"]) == samples.PER_DOMAIN
        expected = [(label + 1) % 10 for label in domain["truth"]]
        assert domain["predicted"]["erm"] == expected


def test_the_choice_of_samples_does_not_depend_on_predictions(tmp_path, data):
    from sdgbench.report import samples

    strips = []
    for wrong in (0, 64):
        sampled(tmp_path / str(wrong), data, wrong=wrong)
        (board,) = boards_of(tmp_path / str(wrong))
        strips.append([d["strip"] for d in samples.collect(board, data)["domains"]])
    assert strips[0] == strips[1]


def test_samples_of_other_content_are_not_shown(tmp_path, data):
    from sdgbench.report import samples

    folder = sampled(tmp_path, data)
    path = folder / "record.json"
    record = json.loads(path.read_text())
    record["domains"]["scan"]["sha256"] = "0" * 64
    path.write_text(json.dumps(record))
    (board,) = boards_of(tmp_path)
    shown = samples.collect(board, data)
    assert [domain["name"] for domain in shown["domains"]] == ["street"]
    assert "other content" in shown["left_out"][0]


@pytest.mark.parametrize("lost", ["data", "predictions", "damaged predictions", "dataset"])
def test_samples_report_what_is_missing(tmp_path, data, lost):
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
    (board,) = boards_of(tmp_path)
    missing = samples.collect(board, tmp_path / "nowhere" if lost == "data" else data)["missing"]
    assert {"data": "sdgbench run", "dataset": "--plugin"}.get(lost, "predictions.npz") in missing
    assert not (tmp_path / "nowhere").exists()  # showing makes no data


def test_segmentation_samples_show_how_much_is_right(tmp_path, data):
    from sdgbench.report import samples

    sampled(tmp_path, data, "streets-mini", ("city/fog",), wrong=0)
    (board,) = boards_of(tmp_path)
    shown = samples.collect(board, data)
    (domain,) = shown["domains"]
    assert shown["kind"] == "segmentation"
    assert domain["predicted"]["erm"]["right"] == 1.0
    assert domain["predicted"]["erm"]["map"] == domain["truth"]
    assert domain["truth"].startswith("data:image/png;base64,")
    assert len(shown["palette"]) == len(shown["classes"]) == 14


# The command


def test_the_command_prints_path_and_size(tmp_path, cli):
    records.write(tmp_path / "runs", seeds=[0, 1])
    done = cli("report", "--no-samples", "--output", "out/page.html")
    assert (done.code, done.err) == (0, "")
    size = (tmp_path / "out" / "page.html").stat().st_size
    assert done.out == f"Wrote out/page.html ({size / 1e6:.2f} MB).\n"


def test_broken_records_are_named_and_skipped(tmp_path, cli):
    paths = records.write(tmp_path / "runs", ("erm", "mada"), (0,))
    paths[0].write_text(paths[0].read_text()[:500])
    done = cli("report", "--no-samples")
    assert done.code == 1
    assert str(paths[0].relative_to(tmp_path)) in done.err
    page = page_data((tmp_path / "report.html").read_text())
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
    assert "missing" in page_data((tmp_path / "report.html").read_text())["boards"][0]["samples"]


def test_only_what_was_asked_for(tmp_path, cli):
    records.write(tmp_path / "runs", datasets=("digits", "synthia"), seeds=[0])
    arguments = ("--no-samples", "--dataset", "digits", "--methods", "gud")
    assert cli("report", *arguments).code == 0
    (board,) = page_data((tmp_path / "report.html").read_text())["boards"]
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
