"""The paper's other figures: what is drawn is what was computed."""

import numpy as np
import pytest
import sample_records as records

from sdgbench.evaluation import hulls
from sdgbench.leaderboard import leaderboards, load, statistics
from sdgbench.paper import figures, sweeps
from sdgbench.report import palette, samples
from sdgbench.report.figures import Canvas


def put(root, method, average, changed=None, dataset="digits", seeds=(0, 1, 2), **params):
    for seed in seeds:
        value = average + 0.01 * seed**2
        record = records.make(
            method,
            seed,
            dataset,
            scores=dict.fromkeys(records.TAGS[dataset], value),
            params=params,
            flags={"params_changed": changed or []},
        )
        records.save(root, record)


def canvas(root, **more):
    found = leaderboards(load([root]).runs)
    assert len(found) == 1
    return Canvas(found[0], palette.looks(found), 6.75, **more)


@pytest.fixture
def grid(tmp_path):
    put(tmp_path, "mada", 0.50, beta=2000.0, K=3, relaxation="wae")
    for K, score in ((1, 0.41), (2, 0.45), (5, 0.47)):
        put(tmp_path, "mada", score, ["K"], beta=2000.0, K=K, relaxation="wae")
    put(tmp_path, "mada", 0.44, ["beta"], beta=2.0, K=3, relaxation="wae")
    put(tmp_path, "mada", 0.10, ["beta", "K"], beta=2.0, K=5, relaxation="wae")
    put(tmp_path, "mada", 0.20, ["relaxation"], beta=2000.0, K=3, relaxation="ae")
    return tmp_path


def test_a_sweep_holds_the_runs_that_differ_in_one_parameter(grid):
    found = {one.parameter: one for one in sweeps.sweeps(canvas(grid).board)}
    assert set(found) == {"K", "beta"}  # a relaxation is no number
    assert found["K"].values == [1, 2, 3, 5]
    assert (found["K"].default, found["beta"].default) == (3, 2000.0)
    for score, average in zip(found["K"].scores, (0.41, 0.45, 0.50, 0.47), strict=True):
        mean, half = statistics.mean_interval([100 * (average + 0.01 * s**2) for s in (0, 1, 2)])
        assert (score.mean, score.half) == pytest.approx((mean, half))
    assert found["beta"].values == [2.0, 2000.0]  # not the run that also has another K


def test_the_figure_draws_the_sweep(grid):
    drawn = figures.sweep(canvas(grid))
    found = {one.parameter: one for one in sweeps.sweeps(canvas(grid).board)}
    panels = {axes.get_xlabel().split()[0]: axes for axes in drawn.axes}
    assert set(panels) == {"K", "beta"}
    for name, axes in panels.items():
        line = axes.lines[0]
        assert list(line.get_xdata()) == found[name].values
        assert list(line.get_ydata()) == [score.mean for score in found[name].scores]
    assert (panels["K"].get_xscale(), panels["beta"].get_xscale()) == ("linear", "log")
    drawn.draw_without_rendering()
    texts = [text.get_text() for text in panels["beta"].get_xticklabels(which="both")]
    assert [text for text in texts if text] == ["2", "2000"]
    assert "95% intervals" in drawn.legends[0].get_title().get_text()
    assert "Reduced scale" in drawn.get_suptitle()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, 5], "linear"),
        ([1, 99], "linear"),
        ([0.01, 1], "log"),
        ([0, 2, 2000], "symlog"),
        ([0], "linear"),
    ],
)
def test_an_axis_over_decades_is_logarithmic(values, kind):
    assert sweeps.scale(values) == kind


def test_records_without_variants_allow_no_sweep(tmp_path, cli):
    records.write(tmp_path / "runs", ("erm",), (0,))
    done = cli("plot", "sweep", "--format", "svg")
    assert done.code == 2
    assert "do not allow sweep of digits" in done.err
    assert "needs runs of one method that differ in one parameter" in done.err
    assert done.err.count("\n") == 1


def test_every_figure_that_may_be_impossible_says_what_it_needs():
    assert {"bars", "heatmap", *figures.NEEDS} == set(figures.FIGURES)


def test_gains_by_meta_learning_are_paired_by_seed(tmp_path):
    put(tmp_path, "mada", 0.50, dataset="cifar10c")
    put(tmp_path, "mada-no-meta", 0.47, dataset="cifar10c")
    (part,) = sweeps.component_gains(canvas(tmp_path).board)
    assert len(part.gains) == 20  # 19 corruptions at the highest severity, and their mean
    assert part.gains["fog"].mean == pytest.approx(3.0)
    assert part.gains["mean"].half == pytest.approx(0.0, abs=1e-9)
    drawn = figures.meta(canvas(tmp_path))
    assert drawn.axes[0].get_title() == "severity 5"
    points = drawn.axes[0].lines[0]
    assert list(points.get_xdata()) == pytest.approx(20 * [3.0])


def embedded(root):
    """A record with samples whose hulls are known."""
    folder = records.save(root, records.make("mada", preset="smoke")).parent
    rng = np.random.default_rng(0)
    found = {
        name: rng.standard_normal((20, 4)).astype(np.float32) + shift
        for name, shift in (("source/s", 0), ("augmented/1", 2), ("target/t", 4))
    }
    np.savez_compressed(folder / hulls.FILE, **found)
    return found


def test_tsne_draws_each_sample_and_states_both_areas(tmp_path):
    found = embedded(tmp_path)
    drawn = figures.tsne(canvas(tmp_path))
    plane, (axes,) = hulls.flat(found), drawn.axes
    points = {line.get_label(): np.column_stack(line.get_data()) for line in axes.lines}
    for kind in ("source", "augmented", "target"):
        assert points[kind] == pytest.approx(hulls.joined(plane, kind))
    growths = hulls.growth(hulls.areas(plane)), hulls.growth(hulls.areas(found))
    assert "growth {:.2f} (t-SNE), {:.2f} (PCA)".format(*growths) in axes.get_title()
    outlines = [patch.get_xy()[:-1] for patch in axes.patches]
    assert outlines[-1] == pytest.approx(hulls.border(plane["source/s"]))
    assert "Reduced scale" in drawn.get_suptitle()


def test_without_samples_there_is_no_tsne(tmp_path, cli):
    records.write(tmp_path / "runs", ("erm",), (0,))
    assert "do not allow tsne" in cli("plot", "tsne").err


def test_the_gallery_shows_image_truth_and_decisions_in_the_palette(tmp_path, data):
    for method, wrong in (("mada", 0), ("erm", 99)):
        records.sampled(tmp_path, data, "streets-mini", ("city/fog",), wrong, method)
    drawn = figures.gallery(canvas(tmp_path, data=data))
    titles = [axes.get_title() for axes in drawn.axes]
    assert titles == ["image", "truth", "ERM", "M-ADA"]
    image, truth, erm, mada = (np.asarray(axes.images[0].get_array()) for axes in drawn.axes)
    (scene,), palette_used = samples.scenes(
        canvas(tmp_path).board, data, ("city/fog",), ("erm", "mada")
    )
    colours = np.array(palette_used, np.uint8)
    assert (image == scene.image.transpose(1, 2, 0)).all()
    assert (truth == colours[scene.truth]).all()
    assert (mada == truth).all()
    assert (erm == colours[(scene.truth + 1) % 14]).all()
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == list(records.CLASSES)
    assert drawn.axes[0].get_ylabel() == "city/fog"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tsen"], 'Did you mean "tsne"?'),
        (["bars", "--domains", "city/fog"], "sdgbench plot gallery"),
        (["gallery", "--domains", "new-york/fgo"], 'Did you mean "new-york/fog"?'),
    ],
)
def test_bad_requests_end_in_one_line(tmp_path, cli, data, arguments, said):
    records.write(tmp_path / "runs", ("erm",), (0,), ("streets-mini",), "smoke")
    done = cli("plot", *arguments)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert said in done.err
