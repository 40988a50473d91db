import math

import numpy as np
import pytest
import sample_records as records

from sdgbench.corruptions.names import ALL_19
from sdgbench.errors import UserError
from sdgbench.leaderboard import make_table
from sdgbench.paper import published, verdicts
from sdgbench.paper.comparison import paper_tables

TABLES = {table.name: table for table in published.tables()}


def test_every_file_tells_its_source_and_protocol():
    assert {"digits", "cifar10c_level5", "cifar10c_severity", "synthia", "digits_later"} <= set(
        TABLES
    )
    for table in TABLES.values():
        assert len(table.protocol) > 20
        assert table.metric
        assert table.references
        assert all(len(full) > 10 for full in table.references.values())
        assert {row.tag for row in table.rows} <= set(published.TAGS)
        assert table.kind in ("paper", "later", "context")


def test_digits_as_printed():
    table = TABLES["digits"]
    assert table.columns == ("svhn", "mnist-m", "syn", "usps")
    assert table.row("mada").cells == {"svhn": 42.55, "mnist-m": 67.94, "syn": 48.95, "usps": 78.53}
    assert table.row("nobody") is None
    assert table.row("mada").mean(["svhn", "usps"]) == pytest.approx((42.55 + 78.53) / 2)
    assert table.row("mada").mean(["svhn", "elsewhere"]) is None


@pytest.mark.parametrize("name", ["digits", "cifar10c_level5", "synthia", "few_shot"])
def test_averages_of_the_paper_add_up(name):
    for row in TABLES[name].rows:
        if "average" in row.printed and row.complete:
            assert row.mean() == pytest.approx(row.printed["average"], abs=0.0051), row.method
        assert not [remark for remark in row.remarks if "add up" in remark]


def test_rows_that_do_not_add_up_are_annotated():
    found = {row.method: row.remarks for row in TABLES["digits_later"].rows}
    assert found["RandConv"] == ["does not add up: printed average 72.88, its cells 73.14"]
    assert found["FFM"] == ["average as printed; its cells are not known"]
    assert found["AdvFrequency"] == []
    odd = [
        (t.name, r.method)
        for t in TABLES.values()
        for r in t.rows
        for remark in r.remarks
        if "add up" in remark
    ]
    assert odd == [("digits_later", "RandConv"), ("pacs", "L2D"), ("pacs", "LEAwareSGD")]


def test_mce_of_the_level_5_table_comes_out_as_printed():
    table = TABLES["cifar10c_level5"]
    assert set(table.columns) == set(ALL_19)
    for row in table.rows:
        assert round(table.mce(row.method), 2) == row.printed["mce"], row.method
    assert table.mce("mada") == pytest.approx(0.8196, abs=5e-5)
    assert table.mce("nobody") is None


def test_level_5_agrees_between_the_tables():
    for row in TABLES["cifar10c_severity"].rows:
        fine = TABLES["cifar10c_level5"].row(row.method)
        assert row.cells["acc19_L5"] == pytest.approx(fine.mean(), abs=0.06)


def test_the_four_category_means_follow_from_the_level_5_table():
    groups = {
        "weather": ("fog", "snow", "frost"),
        "blur": ("zoom_blur", "defocus_blur", "glass_blur", "motion_blur"),
        "noise": ("shot_noise", "impulse_noise", "gaussian_noise"),
        "digital": ("jpeg_compression", "pixelate", "elastic_transform", "brightness", "contrast"),
    }
    for later, name in (
        ("ERM", "erm"),
        ("CCSA", "ccsa"),
        ("d-SNE", "dsne"),
        ("GUD", "gud"),
        ("M-ADA", "mada"),
    ):
        cells = TABLES["cifar10c_level5"].row(name).cells
        for group, names in groups.items():
            mean = np.mean([cells[corruption] for corruption in names])
            assert TABLES["cifar10c_later"].row(later).cells[group] == pytest.approx(
                mean, abs=0.0051
            )


def test_sources_of_synthia_are_kept_apart():
    for source, average in (
        ("highway/dawn", 22.33),
        ("highway/fog", 29.00),
        ("highway/spring", 37.47),
    ):
        (table,) = published.tables_for("synthia", source)
        assert [row.method for row in table.rows] == ["erm", "gud", "mada"]
        assert table.row("mada").mean() == pytest.approx(average, abs=0.0051)
    assert published.tables_for("synthia", "highway/night") == []
    assert published.tables_for("digits", "usps") == []
    assert published.tables_for("digits-mini", "handwriting") == []


HEAD = "# kind: later\n# metric: m\n# protocol: p\n# reference: A: somebody\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("method,a\nx,1\n", "it has no kind"),
        (
            "# kind: paper\n# metric: m\n# protocol: p\nmethod,a\nx,1\n",
            "it has no reference",
        ),
        (HEAD + "method,a,tag,source\nx,1,,A\n", "no provenance tag"),
        (HEAD + "method,a,tag,source\nx,1,P,B\n", "no known reference"),
        (HEAD + "method,a,tag,source\nx,1,P\n", "too few or too many fields"),
        (HEAD + "method,a,tag,source\nx,one,P,A\n", "could not convert"),
    ],
)
def test_a_file_that_does_not_say_enough_is_refused(text, message, tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        published.read(path)
    assert str(path) in str(caught.value)


# Beside ours


@pytest.mark.parametrize(
    ("mean", "half", "expected"),
    [
        (59.0, 0.1, "reproduced"),
        (60.5, 0.1, "reproduced"),
        (58.5, 0.1, "reproduced"),
        (60.6, 0.1, "better"),
        (58.4, 0.1, "not reproduced"),
        (62.0, 2.5, "reproduced"),
        (57.0, 2.5, "reproduced"),
        (57.0, 2.4, "not reproduced"),
        (59.5, None, "one seed: no verdict"),
        (70.0, None, "one seed: no verdict"),
    ],
)
def test_verdicts(mean, half, expected):
    assert verdicts.verdict(mean, half, 59.5) == expected


def ours(method, scores, n=3, preset="paper", **more):
    return [
        records.make(
            method,
            s,
            "digits",
            preset,
            scores={k: v + 0.001 * (s - 1) for k, v in scores.items()},
            **more,
        )
        for s in range(n)
    ]


MADA = {"svhn": 0.4255, "mnist-m": 0.6994, "syn": 0.50, "usps": 0.70}


def compared(found, **more):
    (board,) = records.leaderboards(found)
    tables = paper_tables(board, **more)
    first = tables[0]
    return {(line.method, line.cells["domain"].text): line for line in first.lines}, tables


def test_ours_theirs_gap_and_verdict_per_domain():
    lines, tables = compared(ours("mada", MADA))
    assert [table.kind for table in tables] == [*3 * ["paper"], "published", "later"]
    svhn = lines["mada", "svhn"].cells
    assert [str(svhn[name]) for name in ("ours", "paper", "gap", "verdict")] == [
        "42.5 ±0.2",
        "42.55",
        "+0.0",
        "reproduced",
    ]
    assert lines["mada", "mnist-m"].cells["verdict"].text == "better"
    assert lines["mada", "usps"].cells["verdict"].text == "not reproduced"
    average = lines["mada", "average over 4"].cells
    assert average["paper"].mean == pytest.approx(59.4925)
    assert average["gap"].mean == pytest.approx(100 * np.mean(list(MADA.values())) - 59.4925)
    assert verdicts.RULE in tables[0].notes
    assert any("Qiao, Zhao, Peng" in note for note in tables[0].notes)


def test_averages_are_over_the_same_domains_only():
    lines, _ = compared(ours("mada", {k: MADA[k] for k in ("svhn", "usps")}))
    average = lines["mada", "average over 2 of 4"].cells
    assert average["paper"].mean == pytest.approx((42.55 + 78.53) / 2)
    assert ("mada", "syn") not in lines


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (ours("mada", MADA, preset="quick"), "reduced scale: not comparable"),
        (
            ours("mada", MADA, flags={"reduced_parameters": {"K": [1, 3]}}),
            "reduced scale: not comparable",
        ),
        (
            ours("mada", MADA, flags={"incomplete_source": "2 of 5"}),
            "reduced scale: not comparable",
        ),
        (ours("mada", MADA), "reproduced"),
        (ours("mada", MADA, n=1), "one seed: no verdict"),
    ],
)
def test_a_verdict_needs_the_papers_scale(found, expected):
    lines, _ = compared(found)
    assert lines["mada", "svhn"].cells["verdict"].text == expected


def test_a_changed_recipe_is_not_comparable():
    found = ours("mada", MADA)
    for record in found:
        record["spec"]["recipe_changes"] = ["lr"]
    lines, _ = compared(found)
    assert lines["mada", "svhn"].cells["verdict"].text == "changed recipe: not comparable"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"source": "mnist"}, "reproduced"),
        ({"mnist_offset": 5000}, "reproduced"),
        ({"mnist_images": 60000}, "changed options: mnist_images=60000"),
    ],
)
def test_options_that_the_protocol_does_not_leave_open_are_no_ground_for_a_verdict(
    options, expected
):
    found = ours("mada", MADA)
    for record in found:
        record["spec"] |= {"options": options, "option_changes": list(options)}
    lines, _ = compared(found)
    assert lines["mada", "svhn"].cells["verdict"].text == expected


PARAMS = {"relaxation": "wae", "beta": 2000.0, "K": 3, "alpha": 1.0}


def variant(changed, n=3, method="mada", **values):
    return ours(method, MADA, n, params={**PARAMS, **values}, flags={"params_changed": changed})


@pytest.mark.parametrize(
    ("found", "name", "expected"),
    [
        (variant([]), "mada", "reproduced"),
        (variant(["beta"], beta=10.0), "mada (beta=10.0)", "changed parameters: beta=10"),
        (
            variant(["beta", "K", "alpha"], beta=10.0, K=5, alpha=0.5),
            "mada (K=5, alpha=0.5, beta=10.0)",
            "changed parameters: beta=10, K=5 and 1 more",
        ),
        (variant(None), "mada", "parameters not recorded: no verdict"),
    ],
)
def test_changed_parameters_make_a_variant_without_a_verdict(found, name, expected):
    lines, _ = compared(found)
    assert lines[name, "svhn"].cells["verdict"].text == expected
    assert lines[name, "svhn"].cells["gap"].mean is not None


def question(found, about, **more):
    (board,) = records.leaderboards(found)
    (table,) = [t for t in paper_tables(board, **more) if about in t.title]
    return {(line.method, line.cells["what"].text): line for line in table.lines}, table


def sized(records_, parameters):
    for record in records_:
        record["efficiency"]["parameters_inference"] = parameters
    return records_


def test_efficiency_beside_the_paper():
    found = [*sized(ours("gud-ensemble", MADA), 31_832_262), *sized(variant([]), 4_547_466)]
    lines, table = question(found, "efficiency")
    size = lines["mada", "params_M"].cells
    assert [str(size[name]) for name in ("ours", "paper", "gap", "verdict")] == [
        "4.55",
        "4.54",
        "+0.01",
        "reproduced",
    ]
    assert lines["mada", "params_M"].n == 3
    assert lines["gud-ensemble", "params_M"].cells["verdict"].text == "reproduced"
    latency = lines["mada", "ms per image"].cells
    assert latency["paper"].mean == 3.07
    assert latency["verdict"].text == "other hardware: not comparable"
    assert lines["mada", "average"].cells["ours"].mean == pytest.approx(
        100 * np.mean(list(MADA.values()))
    )
    assert lines["mada", "average"].cells["paper"].mean == 59.5
    assert any("ours on AMD EPYC (2 cores), cpu" in note for note in table.notes)
    lines, _ = question(sized(variant([]), 4_600_000), "efficiency")
    assert lines["mada", "params_M"].cells["verdict"].text == "not reproduced"
    assert lines["gud-ensemble", "params_M"].cells["ours"].text == "no runs yet"
    assert lines["gud-ensemble", "params_M"].cells["paper"].mean == 31.9
    small = sized(ours("mada", MADA, preset="quick"), 287_466)
    lines, _ = question(small, "efficiency")
    assert lines["mada", "params_M"].cells["verdict"].text == "reduced scale: not comparable"


def test_relaxations_beside_the_paper():
    found = [
        *variant([]),
        *variant(["relaxation"], relaxation="pixel"),
        *variant(["relaxation", "beta"], relaxation="pixel", beta=1.0),
        *variant(["relaxation"], relaxation="literal"),
        *variant([], method="mada-no-relax", beta=0.0),
    ]
    lines, table = question(found, "relaxations")
    assert lines["mada", "wae"].cells["paper"].mean == 59.49
    pixel = lines["mada (relaxation=pixel)", "pixel"].cells
    assert pixel["paper"].mean == 55.71
    assert pixel["ours"].mean == pytest.approx(58.1225)
    assert pixel["verdict"].text == "better"
    assert lines["mada (beta=1.0, relaxation=pixel)", "pixel"].cells["verdict"].text == (
        "changed parameters: beta=1"
    )
    assert str(lines["mada", "ae"].cells["ours"]) == "no runs yet"
    assert any("mada (relaxation=literal), mada-no-relax" in note for note in table.notes)
    cifar = [records.make("mada", s, "cifar10c", "paper", params=PARAMS) for s in range(2)]
    lines, _ = question(cifar, "relaxations")
    (board,) = records.leaderboards(cifar)
    assert lines["mada", "wae"].cells["paper"].mean == 65.59
    assert lines["mada", "wae"].cells["ours"].mean == pytest.approx(
        make_table(board).lines[0].cells["acc19_L5"].mean
    )


def test_few_shot_rows_say_how_many_images_they_were_given():
    rows = {(row.method, row.shots): row for row in published.table("few_shot").rows}
    assert rows["mada", "7"].cells["mnist_to_svhn"] == 56.33
    assert rows["dirt-t", "all"].cells == {"mnist_to_svhn": 54.5, "svhn_to_mnist": 99.4}


def test_methods_that_the_paper_does_not_have_are_named():
    lines, tables = compared([*ours("mada", MADA), *ours("new", MADA)])
    assert {method for method, _ in lines} == {"mada"}
    assert "nothing is published there for: new" in tables[0].notes
    (board,) = records.leaderboards(ours("mada", MADA))
    tables = paper_tables(board, methods=["nobody"])
    assert [table.kind for table in tables] == ["published", "later"]


def test_cifar10c_beside_the_paper():
    found = [records.make(m, s, "cifar10c", "paper") for m in ("erm", "mada") for s in range(2)]
    lines, tables = compared(found)
    assert [t.kind for t in tables] == [*3 * ["paper"], *2 * ["published"], *2 * ["later"]]
    assert lines["mada", "fog/5"].cells["paper"].mean == 69.36
    assert lines["mada", "average over 19"].cells["paper"].mean == pytest.approx(65.5916, abs=1e-4)
    assert lines["mada", "acc19_L1"].cells["paper"].mean == 90.5
    mce = lines["mada", "mCE19_L5_vs_erm"].cells
    assert mce["paper"].mean == pytest.approx(0.8196, abs=5e-5)
    assert mce["verdict"].text == "-"
    assert lines["mada", "RmCE19_L5_vs_erm"].cells["paper"].mean == 0.77
    for later in tables[5:]:  # rows of many papers: there is no ERM that all of them share
        assert "gain" not in [column.name for column in later.columns]
    board = records.leaderboards(found)[0]
    row = next(line for line in make_table(board).lines if line.method == "mada")
    assert mce["ours"].mean == pytest.approx(row.cells["mCE19_L5_vs_erm"].mean)
    without = [record for record in found if record["spec"]["method"] != "erm"]
    lines, _ = compared(without)
    assert ("mada", "mCE19_L5_vs_erm") not in lines


def test_published_blocks_are_never_ranked_and_carry_their_own_erm():
    _, tables = compared(ours("mada", MADA))
    for table in tables[3:]:
        assert not any(
            cell.rank or cell.ties for line in table.lines for cell in line.cells.values()
        )
        assert "not ranked" in table.title
        assert all(line.n is None for line in table.lines)
        assert any("protocol of" in note for note in table.notes)
    block, later = tables[3:]
    cells = {line.method: line.cells for line in block.lines}
    assert str(cells["mada"]["gain"]) == "+10.21"
    assert str(cells["erm"]["gain"]) == "ERM"
    assert str(cells["erm"]["average"]) == "49.29"  # as printed; its cells say 49.285
    cells = {line.method: line.cells for line in later.lines}
    assert str(cells["AugMix (ICLR 2020)"]["from"]) == "S AF"
    assert str(cells["RandConv (ICLR 2021)"]["average"]) == "73.14"
    assert str(cells["FFM (WACV 2023)"]["average"]) == "73.45 printed"
    assert str(cells["Pro-RandConv, reproduced (2024)"]["average"]) == "75.37 (3 of 4)"
    assert "gain" not in cells["AugMix (ICLR 2020)"]
    assert "RandConv: does not add up: printed average 72.88, its cells 73.14" in later.notes
    assert all(
        math.isfinite(c.mean)
        for line in later.lines
        for c in line.cells.values()
        if c.mean is not None
    )


def test_embedded_data_have_no_published_numbers():
    (board,) = records.leaderboards([records.make(dataset="digits-mini", preset="paper")])
    assert paper_tables(board) == []
