"""Figures as files: which exist, what they show, and how they are drawn."""

from itertools import combinations

import pytest
import sample_records as records
from matplotlib.text import Text
from PIL import Image

from sdgbench.leaderboard import leaderboards, load
from sdgbench.report import figures, palette
from sdgbench.report.canvas import MARKERS
from sdgbench.report.figures import FIGURES
from sdgbench.report.palette import MARKERS as NAMED

HOSTILE = "$\\frac{1}{0}$ </text><script>"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_all_that_the_records_allow_is_drawn(tmp_path, cli):
    for path in records.write(tmp_path / "runs", ("erm", "mada"), (0, 1), ("digits",)):
        line = '{"phase": 0, "name": "train", "step": %d, "loss": 2.0}\n'
        (path.parent / "train.jsonl").write_text(line % 1 + line % 2)
    records.write(tmp_path / "runs", ("erm",), (0,), ("cifar10c",))
    done = cli("plot", "--format", "svg")
    assert (done.code, done.err) == (0, "")
    # No curves were kept for cifar10c, and digits has no severities.
    assert names(tmp_path / "figures") == sorted(
        [
            *(f"digits-quick-{name}.svg" for name in FIGURES if name != "severity"),
            *(f"cifar10c-quick-{name}.svg" for name in FIGURES if name != "curves"),
        ]
    )
    assert done.out.split() == [
        f"figures/{n}" for n in sorted(names(tmp_path / "figures"), key=done.out.index)
    ]


@pytest.mark.parametrize(
    ("width", "pixels"), [("3.25in", 975), ("one-column", 975), ("17.145cm", 2025)]
)
def test_a_figure_is_as_wide_as_asked(tmp_path, cli, width, pixels):
    records.write(tmp_path / "runs", seeds=(0, 1))
    assert cli("plot", "bars", "--format", "png", "--width", width).code == 0
    with Image.open(tmp_path / "figures" / "digits-quick-bars.png") as image:
        assert image.width == pytest.approx(pixels, abs=1)


def test_fonts_of_a_pdf_are_embedded_as_truetype(tmp_path, cli):
    records.write(tmp_path / "runs", seeds=(0, 1))
    cli("plot", "bars", "--format", "pdf")
    data = (tmp_path / "figures" / "digits-quick-bars.pdf").read_bytes()
    assert b"/FontFile2" in data
    assert b"/Type3" not in data


@pytest.mark.parametrize("figure", FIGURES)
def test_reduced_scale_is_stated_in_each_figure(tmp_path, monkeypatch, figure):
    path = records.write(tmp_path, ("erm",), (0,), ("cifar10c",), "smoke")[0]
    (path.parent / "train.jsonl").write_text('{"phase": 0, "name": "train", "step": 1, "loss": 2}')
    boards = leaderboards(load([tmp_path]).runs)
    drawn = FIGURES[figure](figures.Canvas(boards[0], palette.looks(boards), 6.75))
    assert "Reduced scale: ConvNet of an eighth" in drawn.get_suptitle().replace("\n", " ")


def test_ticks_over_decades_are_plain_numbers(tmp_path):
    path = records.write(tmp_path, ("erm",), (0,))[0]
    line = '{"phase": 0, "name": "train", "step": %d, "loss": %g}\n'
    (path.parent / "train.jsonl").write_text(line % (1, 100) + line % (2, 0.01))
    boards = leaderboards(load([tmp_path]).runs)
    drawn = FIGURES["curves"](figures.Canvas(boards[0], palette.looks(boards), 6.75))
    drawn.draw_without_rendering()
    texts = {text.get_text() for text in drawn.axes[0].get_yticklabels(which="both")} - {""}
    # Matplotlib before 3.11 chooses the other decades.
    assert {"0.01", "1", "100"} <= texts or {"0.1", "10", "1000"} <= texts
    assert not any("$" in text for text in texts)


def board_with_long_names(folder):
    """ERM, and two variants of M-ADA, with curves; the scores need room, too."""
    changes = {"wae_leak": True, "wae_targets": "free"}
    for method, keys in (("erm", ()), ("mada", ("wae_targets",)), ("mada", tuple(changes))):
        for seed in range(2):
            record = records.make(method, seed)
            record["id"] = f"{method}{len(keys)}{seed}"
            record["spec"]["params"] |= {key: changes[key] for key in keys}
            record["flags"]["params_changed"] = list(keys)
            path = records.save(folder, record)
            line = '{"phase": 0, "name": "train", "step": %d, "loss": %g}\n'
            score = '{"phase": 0, "name": "validation", "step": 2, "train_step": 2, "score": 0.9}\n'
            (path.parent / "train.jsonl").write_text(line % (1, 2) + line % (2, 0.1) + score)
    (board,) = leaderboards(load([folder]).runs)
    return board


@pytest.mark.parametrize("width", [3.25, 6.75])
@pytest.mark.parametrize("titled", [True, False])
@pytest.mark.parametrize("figure", [name for name in FIGURES if name != "severity"])
def test_nothing_is_cut_off_and_numbers_do_not_overlap(tmp_path, figure, width, titled):
    board = board_with_long_names(tmp_path)
    canvas = figures.Canvas(board, palette.looks([board]), width, titled=titled)
    with figures._style():
        drawn = FIGURES[figure](canvas)
        drawn.draw_without_rendering()
        unseen = {label for axes in drawn.axes for label in _ticks_outside(axes)}
        shown = [text for text in drawn.findobj(Text) if text.get_text() and text not in unseen]
        assert [text.get_text() for text in shown if not _is_within(text, drawn)] == []
        numbers = [text.get_window_extent() for text in drawn.axes[0].texts]
        touching = [(a, b) for a, b in combinations(numbers, 2) if a.overlaps(b)]
        assert touching == []


def _ticks_outside(axes):
    """Labels of ticks that are not drawn, as they are beyond the ends of their axis."""
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if not low - 1e-9 <= tick.get_loc() <= high + 1e-9:
                yield from (tick.label1, tick.label2)


def _is_within(text, figure):
    box, whole = text.get_window_extent(), figure.bbox
    return box.x0 >= -1 and box.y0 >= -1 and box.x1 <= whole.x1 + 1 and box.y1 <= whole.y1 + 1


def test_costs_have_no_negative_axis_and_no_front_without_rings(tmp_path):
    for seed, seconds in enumerate((1.0, 9.0)):
        record = records.make("erm", seed)
        record["cost"]["train_seconds"] = seconds  # an interval that reaches far below 0
        records.save(tmp_path, record)
    (board,) = leaderboards(load([tmp_path]).runs)
    drawn = FIGURES["scatter"](figures.Canvas(board, palette.looks([board]), 6.75))
    assert min(axes.get_xlim()[0] for axes in drawn.axes) >= 0
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["ERM"]


def test_names_are_drawn_as_they_are(tmp_path, cli):
    records.write(tmp_path / "runs", ("erm", HOSTILE), (0, 1), ("cifar10c",))
    done = cli("plot", "--format", "svg")
    assert (done.code, done.err) == (0, "")
    for path in (tmp_path / "figures").iterdir():
        assert "<script" not in path.read_text()


def test_a_datasets_name_does_not_leave_the_folder(tmp_path, cli):
    record = records.make("erm", scores={"d": 0.5}, dataset="../../up")
    records.save(tmp_path / "runs", record)
    assert cli("plot", "bars", "--format", "svg").code == 0
    assert names(tmp_path / "figures") == ["_.._up-quick-bars.svg"]


def test_tables_of_one_dataset_do_not_overwrite_each_other(tmp_path, cli):
    for version in (1, 2):
        records.save(tmp_path / "runs", records.make("erm", version=version))
    assert cli("plot", "bars", "--format", "svg").code == 0
    assert names(tmp_path / "figures") == ["digits-quick-2-bars.svg", "digits-quick-bars.svg"]


def test_the_same_records_make_the_same_files(tmp_path, cli):
    records.write(tmp_path / "runs", seeds=(0, 1))
    for folder in ("a", "b"):
        cli("plot", "bars", "--format", "svg,pdf,png", "--output", folder)
    for name in names(tmp_path / "a"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bar"], 'Did you mean "bars"?'),
        (["--format", "pgn"], 'Did you mean "png"?'),
        (["--width", "wide"], "one-column"),
        (["--width", "900in"], "1.5in to 20in"),
        (["severity", "--dataset", "digits"], "do not allow severity of digits"),
        (["--dataset", "digit"], 'Did you mean "digits"?'),
    ],
)
def test_bad_requests_end_in_one_line(tmp_path, cli, arguments, message):
    records.write(tmp_path / "runs", ("erm",), (0,))
    done = cli("plot", *arguments)
    assert done.code == 2
    assert message in done.err


def test_without_records_it_says_what_to_run(cli):
    done = cli("plot")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "sdgbench run" in done.err


def test_numbers_stand_out_on_every_shade_of_the_heat_map():
    from matplotlib import colormaps

    shades = [colormaps["cividis"](share / 255) for share in range(256)]
    contrasts = []
    for shade in shades:
        both = sorted(
            (palette.luminance(shade), {"white": 1.0, "black": 0.0}[palette.text_on(shade)])
        )
        contrasts.append((both[1] + 0.05) / (both[0] + 0.05))
    assert min(contrasts) >= 4.5
    assert palette.luminance((1, 1, 1)) == pytest.approx(1)
    assert palette.luminance((0.5, 0.5, 0.5)) == pytest.approx(0.2140, abs=1e-4)  # by hand


def test_page_and_figures_have_as_many_markers():
    assert len(MARKERS) == len(NAMED)
    assert len(set(MARKERS)) == len(MARKERS)


def test_the_page_names_the_colours_that_the_figures_have():
    from sdgbench.report import page
    from sdgbench.report.page import ASSETS
    from sdgbench.report.palette import COLOURS, DASHES

    style = page.render([], lambda board: {})
    for index, colour in enumerate(COLOURS):
        assert f"--c{index}: light-dark({colour}, " in style
    script = (ASSETS / "chart.js").read_text()
    assert f"const COLOURS = {len(COLOURS)};" in script
    assert f"const DASHES = {list(DASHES)};".replace("'", '"') in script
