"""The page in a real browser: it draws, sorts, filters and explains, and sends no request.

What a click, a key or the pointer changes is read by ``expect``, which waits for it: a browser on
a loaded machine is slower than the test.
"""

import json
import re
import shutil
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import sample_records as records
from PIL import Image

from sdgbench.leaderboard import leaderboards, load
from sdgbench.paper.comparison import paper_tables
from sdgbench.report import images, page

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = playwright.expect
expect.set_options(timeout=30_000)
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs chromium")
HOSTILE = ("<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>")
METHODS = ("erm", "gud", "mada", "jigen", *HOSTILE)
SVG = "http://www.w3.org/2000/svg"
NAMES = ["cifar10c", "digits", "synthia"]  # in the order of the page


def write_curve(folder):
    with (folder / "train.jsonl").open("w") as file:
        for step in range(1, 60):
            point = {"phase": 0, "name": "train", "step": step, "loss": 2.3 / step**3}
            file.write(json.dumps(point) + "\n")
        done = {"phase": 0, "name": "validation", "step": 59, "train_step": 59, "score": 0.9}
        file.write(json.dumps(done) + "\n")


def choose_other_weights(path):
    """Make the weights that validation chose worse than the last ones, by a point."""
    record = json.loads(path.read_text())
    chosen = record["results"]["val"]
    for domain in chosen["per_domain"].values():
        domain[record["metric"]] = max(0.0, domain[record["metric"]] - 0.01)
    for average in chosen["averages"].values():
        average["mean"] = max(0.0, average["mean"] - 0.01)
    chosen["average"] = next(iter(chosen["averages"].values()))["mean"]
    path.write_text(json.dumps(record))


def made_up_samples(board):
    """Noise instead of sample images."""
    rng = np.random.default_rng(0)
    names = [row.name for row in board.rows]
    samples = {"seeds": dict.fromkeys(names, 0), "domains": [], "left_out": []}
    if board.dataset == "digits":
        strip = images.strip(rng.integers(0, 256, (6, 3, 16, 16), dtype=np.uint8))
        predicted = {name: [1, 2, 3, 0, 0, 0] for name in names}
        shown = {"strip": strip, "truth": [1, 2, 3, 4, 5, 6], "predicted": predicted}
        samples |= {"kind": "classification", "classes": list("0123456789")}
    elif board.dataset == "synthia":
        colours = [(18 * number, 100, 150) for number in range(14)]
        truth = images.label_map(rng.integers(0, 14, (12, 20), dtype=np.uint8), colours)
        photo = images.photo(rng.integers(0, 256, (3, 12, 20), dtype=np.uint8))
        predicted = {name: {"map": truth, "right": 0.5} for name in names}
        shown = {"image": photo, "truth": truth, "predicted": predicted}
        samples |= {"kind": "segmentation", "classes": records.CLASSES, "palette": colours}
    else:
        return {"missing": "The images are not here."}
    return {**samples, "domains": [{"name": name, **shown} for name in board.domains]}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    for path in records.write(folder / "runs", METHODS, range(3), NAMES):
        write_curve(path.parent)
        choose_other_weights(path)
    page.write(
        folder / "report.html",
        page.render(
            leaderboards(load([folder / "runs"]).runs), made_up_samples, publish=paper_tables
        ),
    )
    return (folder / "report.html").as_uri()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as play:
        launched = play.chromium.launch(
            executable_path=CHROMIUM, headless=True, args=["--no-sandbox"]
        )
        yield launched
        launched.close()


@pytest.fixture
def visit(browser, address):
    """Open the page; when the test is over, nothing may have gone wrong or left this machine."""
    contexts, wrong = [], []

    def open_page(width=1400, scheme="light", **options):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, **options
        )
        contexts.append(context)
        opened = context.new_page()
        opened.on("console", lambda message: wrong.append(f"console: {message.text}"))
        opened.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        opened.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        opened.on(
            "request",
            lambda request: (
                wrong.append(f"request: {request.url}")
                if not request.url.startswith(("file://", "data:", "blob:file://"))
                else None
            ),
        )
        opened.goto(address)
        opened.wait_for_selector("#records summary")
        opened.wait_for_function("document.querySelectorAll('figure svg[role=group]').length > 20")
        return opened

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def board(opened, name):
    return opened.locator(f"#board-{NAMES.index(name)}")


def methods(opened, name):
    return board(opened, name).locator(".leaderboard tbody th")


def shown_methods(opened, name):
    return methods(opened, name).all_inner_texts()


def tip(opened):
    return opened.locator("#tip")


def expect_tip(opened, start):
    """Wait until the tip begins with a text, and return all of it."""
    expect(tip(opened)).to_have_text(re.compile("^" + re.escape(start)), use_inner_text=True)
    return tip(opened).inner_text()


def column(opened, name, title):
    heads = board(opened, name).locator(".leaderboard thead tr:last-child th")
    texts = heads.all_inner_texts()
    index = texts.index(title)
    cells = board(opened, name).locator(f".leaderboard tbody tr td:nth-child({index + 1})")
    return heads.nth(index), cells


def numbers(cells):
    return [float(text.split()[0]) for text in cells.all_inner_texts()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 1400])
def test_the_page_is_no_wider_than_its_window(visit, width, scheme):
    opened = visit(width, scheme)
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    for details in opened.locator("#records details").all()[:2]:
        details.locator("summary").click()
        expect(details.locator("dl").first).to_be_visible()
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    parts = "[...document.querySelectorAll('main figure svg, main h2, main .key')]"
    widest = opened.evaluate(f"Math.max(...{parts}.map(e => e.getBoundingClientRect().right))")
    assert widest <= width


def test_every_figure_is_drawn(visit):
    opened = visit()
    titles = [board(opened, name).locator("figure h3").all_inner_texts() for name in NAMES]
    usual = ["Bars", "Heat map", "Score against cost", "Training", "Samples"]
    assert titles == [[*usual[:2], "Severities", *usual[2:]], usual, usual]
    severities = board(opened, "cifar10c").locator("figure", has_text="Severities")
    expect(severities.locator("svg[role=group]")).to_have_count(20)
    images_shown = board(opened, "synthia").locator(".scene img")
    expect(images_shown).to_have_count(10 * (2 + len(METHODS)))
    expect(board(opened, "cifar10c").get_by_text("The images are not here.")).to_be_visible()


def test_hostile_names_are_text(visit):
    opened = visit()
    assert set(shown_methods(opened, "digits")) == set(METHODS)
    assert opened.locator("img[src=x]").count() == 0
    assert opened.locator("script").count() == 2


def test_clicking_a_heading_sorts(visit):
    opened = visit()
    head, cells = column(opened, "digits", "svhn")
    expect(head).to_have_attribute("aria-sort", "none")
    head.locator("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")  # set together with the rows
    assert numbers(cells) == sorted(numbers(cells), reverse=True)
    head.locator("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert numbers(cells) == sorted(numbers(cells))
    ranked, _ = column(opened, "digits", "average")
    expect(ranked).to_have_attribute("aria-sort", "none")
    name, _ = column(opened, "digits", "method")
    name.locator("button").click()
    for position, method in enumerate(("erm", "gud", "jigen", "mada"), 2):
        expect(methods(opened, "digits").nth(position)).to_have_text(method)
    expect(methods(opened, "digits")).to_have_count(6)


def test_the_ranked_average_is_sorted_first_and_what_has_no_number_comes_last(visit):
    opened = visit()
    head, cells = column(opened, "digits", "average")
    expect(head).to_have_attribute("aria-sort", "descending")
    assert numbers(cells) == sorted(numbers(cells), reverse=True)
    gain, cells = column(opened, "digits", "gain_vs_erm")
    for order in ("descending", "ascending"):
        gain.locator("button").click()
        expect(gain).to_have_attribute("aria-sort", order)
        expect(cells.last).to_have_text("baseline")


def test_lower_is_better_where_it_is(visit):
    opened = visit()
    head, cells = column(opened, "cifar10c", "mCE19_L5_vs_erm")
    head.locator("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert numbers(cells) == sorted(numbers(cells))


def test_filtering_leaves_the_matching_methods_in_table_and_figures(visit):
    opened = visit()
    digits = board(opened, "digits")
    digits.locator("input[type=search]").fill("MAD")
    expect(methods(opened, "digits")).to_have_text(["mada"])
    expect(digits.get_by_role("status")).to_have_text(f"1 of {len(METHODS)} methods shown")
    expect(digits.locator("table.heat thead th")).to_have_text(["mada"])
    expect(digits.locator("figure", has_text="Bars").locator("rect.hit")).to_have_count(1)
    expect(methods(opened, "synthia")).to_have_count(len(METHODS))
    digits.locator("input[type=search]").fill("nobody")
    expect(methods(opened, "digits")).to_have_count(0)
    digits.locator("input[type=search]").fill("")
    expect(methods(opened, "digits")).to_have_count(len(METHODS))


def test_pointing_at_a_number_shows_its_seeds(visit):
    opened = visit()
    _, cells = column(opened, "digits", "average")
    index = shown_methods(opened, "digits").index("mada")
    cells.nth(index).hover()
    text = expect_tip(opened, "mada, average")
    assert cells.nth(index).inner_text() in text
    assert "n = 3" in text
    assert "Reduced scale" in text
    for seed in range(3):
        average = records.make("mada", seed)["results"]["last"]["average"]
        assert f"seed {seed}: {100 * average:.2f}" in text
    opened.mouse.move(5, 5)
    expect(tip(opened)).to_be_hidden()


def test_the_keyboard_reaches_the_same(visit):
    opened = visit()
    board(opened, "digits").locator(".leaderboard thead button").last.focus()
    opened.keyboard.press("Tab")
    expect_tip(opened, f"{shown_methods(opened, 'digits')[0]}, average")
    opened.keyboard.press("ArrowRight")
    opened.keyboard.press("ArrowDown")
    expect_tip(opened, f"{shown_methods(opened, 'digits')[1]}, gain_vs_erm")
    focused = opened.locator("*:focus")
    expect(focused).to_have_attribute("aria-describedby", "tip")
    opened.keyboard.press("Enter")
    expect(focused).to_have_text(re.compile("^settings "))
    opened.keyboard.press("Escape")
    expect(tip(opened)).to_be_hidden()
    expect(opened.locator("td:focus")).to_have_count(1)


def test_a_number_leads_to_its_records_settings(visit):
    opened = visit()
    _, cells = column(opened, "digits", "average")
    index = shown_methods(opened, "digits").index("gud")
    cells.nth(index).hover()
    link = opened.locator("#tip a").nth(1)
    expect(link).to_have_text(f"settings {records.make('gud', 1)['id']}")
    link.click()
    record = opened.locator("#records details[open]")
    expect(record).to_have_count(1)
    expect(record.locator("summary")).to_have_text(re.compile("^gud, seed 1, digits, quick"))
    for setting in (
        "convnet-32",
        "AMD EPYC (2 cores)",
        "2.15.0",
        "reduced scale",
        "1,023,991,808",
        "32; 32",
        "name train, steps 600, seconds 18.7",
    ):
        expect(record).to_contain_text(setting, use_inner_text=True)
    expect(record).to_be_in_viewport()
    opened.evaluate("window.location.hash = '#record-2'")
    expect(opened.locator("#record-2[open] dl").first).to_be_visible()


def test_figures_show_their_numbers_too(visit):
    opened = visit()
    digits = board(opened, "digits")
    digits.locator("table.heat td[data-tip]").first.hover()
    expect(tip(opened)).to_contain_text("seed 0: ")
    digits.locator("figure", has_text="Score against cost").locator("circle.hit").first.focus()
    expect(tip(opened)).to_contain_text("median latency")
    severities = board(opened, "cifar10c").locator("figure", has_text="Severities")
    severities.locator("circle.hit").first.focus()
    expect(tip(opened)).to_contain_text("clean")


def test_one_corruption_can_be_seen_large(visit):
    opened = visit()
    severities = board(opened, "cifar10c").locator("figure", has_text="Severities")
    severities.locator("select").select_option(label="fog")
    expect(severities.locator("h4")).to_have_text(["fog\nweather"], use_inner_text=True)
    assert severities.locator("svg[role=group]").bounding_box()["width"] > 800


def test_the_heat_map_shows_another_severity_and_differences(visit):
    opened = visit()
    heat = board(opened, "cifar10c").locator("figure", has_text="Heat map")
    fog = heat.locator("tbody tr", has_text="fog")
    before = fog.inner_text()
    heat.locator("select").first.select_option("1")
    expect(fog).not_to_have_text(before, use_inner_text=True)
    heat.locator("select").nth(1).select_option("gain")
    index = heat.locator("thead th").all_inner_texts().index("erm")
    gains = heat.locator(f"tbody td:nth-of-type({index + 1})")
    expect(gains).to_have_text(["0.0"] * heat.locator("tbody tr").count())


def test_right_and_wrong_are_marked_without_colour(visit):
    opened = visit()
    samples = board(opened, "digits").locator("figure", has_text="Samples")
    first = samples.locator(".tiles").first.locator("b")
    expect(first).to_have_text(["✓ 1", "✓ 2", "✓ 3", "✗ 0 (4)", "✗ 0 (5)", "✗ 0 (6)"])
    samples.locator("select").select_option("gud")
    expect(samples).to_contain_text("Predictions of gud, seed 0", use_inner_text=True)


def test_published_numbers_have_a_separate_block(visit):
    opened = visit()
    block = board(opened, "digits").locator(".published")
    expect(block.locator("table").first).to_be_hidden()
    block.locator("summary").click()
    expect(block.locator("table").first).to_be_visible()
    expect(block).to_contain_text("ADA", use_inner_text=True)
    expect(block).to_contain_text("reduced scale: not comparable", use_inner_text=True)
    tables = block.locator("table")
    assert tables.nth(4).locator("[data-tip]").count() == 0  # after four that have ours next to it
    ours = tables.first.locator("tbody tr").first.locator("[data-tip]")
    ours.first.hover()
    expect(tip(opened)).to_contain_text("settings ")
    assert ours.count() == 2  # our mean and the gap, not the published value
    assert "[object" not in opened.locator("main").inner_text()


def test_views_change_the_table(visit):
    opened = visit()
    cifar = board(opened, "cifar10c")
    cifar.get_by_role("button", name="Corruptions").click()
    expect(cifar.locator(".leaderboard thead th", has_text="fog")).to_have_count(1)
    expect(cifar.locator(".leaderboard th.group", has_text="weather")).to_have_count(1)
    for name, pressed in (("Corruptions", "true"), ("Domains", "false")):
        button = cifar.get_by_role("button", name=name)
        expect(button).to_have_attribute("aria-pressed", pressed)


def test_figures_show_the_weights_of_the_table(visit):
    opened = visit()
    digits = board(opened, "digits")
    bars = digits.locator("figure", has_text="Bars")
    heat = digits.locator("table.heat tbody td").first
    before = heat.inner_text()
    expect(bars.locator("figcaption .tag").nth(1)).to_be_hidden()
    digits.get_by_role("button", name="Chosen on source").click()
    expect(bars.locator("figcaption .tag").nth(1)).to_have_text("chosen on source")
    expect(bars.locator("figcaption .tag").nth(1)).to_be_visible()
    expect(heat).not_to_have_text(before, use_inner_text=True)
    _, cells = column(opened, "digits", "average")
    index = shown_methods(opened, "digits").index("mada")
    shown = cells.nth(index).inner_text()
    label = bars.locator("rect.hit[aria-label^='mada: ']").get_attribute("aria-label")
    assert label == f"mada: {shown}"
    digits.get_by_role("button", name="Domains").click()
    expect(heat).to_have_text(before, use_inner_text=True)


def test_a_row_that_lacks_seeds_stays_last_however_it_is_sorted(browser, tmp_path):
    records.write(tmp_path / "runs", ("erm", "gud"), range(3))
    records.write(tmp_path / "runs", ("mada",), range(1))  # the best of them, with one seed
    boards = leaderboards(load([tmp_path / "runs"]).runs)
    page.write(tmp_path / "report.html", page.render(boards, lambda board: {"missing": "none"}))
    opened = browser.new_page()
    opened.goto((tmp_path / "report.html").as_uri())
    names = opened.locator(".leaderboard tbody th")
    expect(names).to_have_text(["gud", "erm", "mada"])
    opened.locator(".leaderboard thead button", has_text="usps").click()
    expect(names).to_have_text(["gud", "erm", "mada"])
    opened.close()


@pytest.mark.parametrize(
    ("name", "title", "parts"),
    [
        ("cifar10c", "Severities", {"svg": 20 + len(METHODS), "image": 0}),  # panels, legend
        ("digits", "Samples", {"svg": 4 * 6, "image": 4 * 6}),
        ("synthia", "Samples", {"svg": 0, "image": 10 * (2 + len(METHODS))}),
    ],
)
def test_panels_and_samples_download_as_they_are_shown(visit, name, title, parts):
    opened = visit()
    figure = board(opened, name).locator(f"figure:has(h3:text-is('{title}'))")
    with opened.expect_download() as started:
        figure.get_by_role("button", name="SVG").click()
    tree = ET.fromstring(started.value.path().read_bytes())
    counts = {tag: len(list(tree.iterfind(f"{{{SVG}}}{tag}"))) for tag in ("svg", "image")}
    counts["image"] += len(list(tree.iterfind(f"{{{SVG}}}svg/{{{SVG}}}image")))
    assert counts == parts
    with opened.expect_download() as started:
        figure.get_by_role("button", name="PNG").click()
    with Image.open(started.value.path()) as image:
        assert image.size == tuple(2 * int(tree.get(side)) for side in ("width", "height"))
        assert len(image.convert("RGB").getcolors(2**24)) > 20  # not a blank sheet


def test_boards_fold_and_a_link_unfolds_them(visit):
    opened = visit()
    opened.locator("#fold").click()
    expect(board(opened, "digits").locator(".leaderboard")).to_be_hidden()
    expect(opened.locator("#fold")).to_have_text("Unfold all")
    opened.locator("#jump a", has_text="digits").click()
    expect(board(opened, "digits").locator(".leaderboard")).to_be_visible()
    expect(board(opened, "synthia").locator(".leaderboard")).to_be_hidden()
    board(opened, "synthia").locator("summary").first.click()
    expect(board(opened, "synthia").locator(".leaderboard")).to_be_visible()


def test_the_ranked_column_is_visible_on_a_narrow_screen(visit):
    opened = visit(400)
    _, cells = column(opened, "digits", "average")
    box = cells.first.bounding_box()
    assert box["x"] + box["width"] <= 400


def test_a_curve_is_the_mean_over_seeds_with_a_band(visit):
    opened = visit()
    training = board(opened, "digits").locator("figure:has(h3:text-is('Training'))")
    loss = training.locator("svg[role=group]").first
    expect(loss.locator("path.band")).to_have_count(len(METHODS))
    expect(loss.locator("path.hit")).to_have_count(len(METHODS))
    training.locator("select").select_option("1")
    expect(loss.locator("path.band")).to_have_count(0)
    expect(loss.locator("path.hit")).to_have_count(len(METHODS))


def test_ticks_of_small_numbers_differ(visit):
    """A loss of 1e-5 is no 0."""
    training = board(visit(), "digits").locator("figure:has(h3:text-is('Training'))")
    ticks = training.locator("svg[role=group]").first.locator("text[text-anchor=end]")
    texts = ticks.all_text_contents()
    assert "1e-4" in texts
    assert len(set(texts)) == len(texts)


LINES_OF_WORDS = """(heading) => {
  const node = heading.firstChild;
  return [...node.textContent.matchAll(/[A-Za-z0-9]+/g)].map((word) => {
    const range = document.createRange();
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    return [word[0], new Set([...range.getClientRects()].map((box) => box.top)).size];
  });
}"""


@pytest.mark.parametrize("width", [400, 1280])
def test_headings_of_the_heat_map_break_between_words(visit, width):
    headings = board(visit(width), "digits").locator("table.heat thead th")
    broken = [heading.evaluate(LINES_OF_WORDS) for heading in headings.all()]
    assert len(broken) == len(METHODS)
    assert [word for words in broken for word, lines in words if lines > 1] == []


@pytest.mark.parametrize(("scheme", "other"), [("light", "dark"), ("dark", "light")])
def test_the_theme_follows_the_system_and_can_be_changed(visit, scheme, other):
    opened = visit(scheme=scheme)
    body = opened.locator("body")
    colours = {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 21, 24)"}
    expect(body).to_have_css("background-color", colours[scheme])
    opened.locator("#theme").click()
    expect(body).to_have_css("background-color", colours[other])
    opened.locator("#theme").click()
    expect(body).to_have_css("background-color", colours[scheme])


CONTRAST = """() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgb = (text) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = (c) => c.slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => { for (let n = node; n; n = n.parentElement) {
    const c = rgb(getComputedStyle(n).backgroundColor); if (c[3] > 250) return c; }
    return rgb('white'); };
  const faint = [];
  for (const node of document.querySelectorAll('main :not(svg *, i, option, select)')) {
    const hasText = [...node.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim());
    if (!hasText || !node.offsetParent) continue;
    const [a, b] = [light(rgb(getComputedStyle(node).color)), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) faint.push(`${ratio.toFixed(2)} ${node.className} ${node.textContent.slice(0, 30)}`);
  }
  return faint;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(visit, scheme):
    assert visit(scheme=scheme).evaluate(CONTRAST) == []


ALL_SHADES = """() => {
  const ramps = [['--low', '--high'], ['--even', '--minus'], ['--even', '--plus']];
  const shades = ramps.flatMap(([from, to]) => [...Array(101).keys()].map((share) =>
    `color-mix(in oklab, var(${to}) ${share}%, var(${from}))`));
  const host = document.querySelector('.heat tbody tr');
  for (const shade of shades) {
    const cell = host.appendChild(document.createElement('td'));
    cell.style.setProperty('--cell', shade);
    cell.textContent = shade;
  }
  return shades.length;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_stand_out_on_every_shade_of_the_heat_map(visit, scheme):
    opened = visit(scheme=scheme)
    assert opened.evaluate(ALL_SHADES) == 303
    assert opened.evaluate(CONTRAST) == []


def test_records_with_few_fields_still_make_a_page(browser, tmp_path):
    record = records.make("erm", dataset="new", scores={"a": 0.0})
    record |= {"efficiency": {}, "cost": {}, "machine": {}, "packages": {}, "flags": {}}
    records.save(tmp_path / "runs", record)
    text = page.render(
        leaderboards(load([tmp_path / "runs"]).runs), lambda board: {"missing": "none"}
    )
    page.write(tmp_path / "report.html", text)
    opened, wrong = browser.new_page(), []
    opened.on("console", lambda message: wrong.append(message.text))
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.goto((tmp_path / "report.html").as_uri())
    opened.locator("figure rect.hit").hover()
    expect(tip(opened)).to_contain_text("0.0 (n=1)")
    opened.locator("#records summary").click()
    expect(opened.locator("#records")).to_contain_text("nothing", use_inner_text=True)
    assert "undefined" not in opened.locator("main").inner_text()
    assert "NaN" not in opened.locator("main").inner_html()
    opened.close()
    assert wrong == []


def test_a_finger_can_read_a_number(visit):
    opened = visit(380, has_touch=True)
    _, cells = column(opened, "digits", "source")
    cells.first.tap()
    expect(tip(opened)).to_contain_text("seed 0: ")
    box = opened.locator("#tip").bounding_box()
    assert 0 <= box["x"] <= 380 - box["width"]
