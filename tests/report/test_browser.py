"""The page in a real browser: it draws, sorts, filters and explains, and asks nobody for anything."""

import importlib.util
import json
import shutil

import numpy as np
import pytest
import records

from sdgbench.leaderboard import boards, load
from sdgbench.report import images, page

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.skipif(not importlib.util.find_spec("playwright"), reason="needs playwright"),
    pytest.mark.skipif(not CHROMIUM, reason="needs chromium"),
]
HOSTILE = ("<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>")
METHODS = ("erm", "gud", "mada", "jigen", *HOSTILE)
NAMES = ["cifar10c", "digits", "synthia"]  # in the order of the page


def write_curve(folder):
    with (folder / "train.jsonl").open("w") as file:
        for step in range(1, 60):
            point = {"phase": 0, "name": "train", "step": step, "loss": 2.3 / step}
            file.write(json.dumps(point) + "\n")
        done = {"phase": 0, "name": "validation", "step": 59, "train_step": 59, "score": 0.9}
        file.write(json.dumps(done) + "\n")


def made_up_samples(board):
    """Noise in the place of sample images."""
    rng = np.random.default_rng(0)
    names = [row.name for row in board.rows]
    found = {"seeds": dict.fromkeys(names, 0), "domains": [], "left_out": []}
    if board.dataset == "digits":
        strip = images.strip(rng.integers(0, 256, (6, 3, 16, 16), dtype=np.uint8))
        decided = {name: [1, 2, 3, 0, 0, 0] for name in names}
        shown = {"strip": strip, "truth": [1, 2, 3, 4, 5, 6], "decided": decided}
        found |= {"kind": "classification", "classes": list("0123456789")}
    elif board.dataset == "synthia":
        colours = [(18 * number, 100, 150) for number in range(14)]
        truth = images.label_map(rng.integers(0, 14, (12, 20), dtype=np.uint8), colours)
        photo = images.photo(rng.integers(0, 256, (3, 12, 20), dtype=np.uint8))
        decided = {name: {"map": truth, "right": 0.5} for name in names}
        shown = {"image": photo, "truth": truth, "decided": decided}
        found |= {"kind": "segmentation", "classes": records.CLASSES, "palette": colours}
    else:
        return {"missing": "The images are not here."}
    return {**found, "domains": [{"name": name, **shown} for name in board.domains]}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    for path in records.write(folder / "runs", METHODS, range(3), NAMES):
        write_curve(path.parent)
    page.write(
        folder / "report.html", page.render(boards(load([folder / "runs"]).runs), made_up_samples)
    )
    return (folder / "report.html").as_uri()


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
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
        opened.on("request", lambda asked: wrong.append(f"request: {asked.url}")
                  if not asked.url.startswith(("file://", "data:")) else None)  # fmt: skip
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


def shown_methods(opened, name):
    return board(opened, name).locator(".leaderboard tbody th").all_inner_texts()


def column(opened, name, title):
    heads = board(opened, name).locator(".leaderboard thead tr:last-child th")
    texts = heads.all_inner_texts()
    place = texts.index(title)
    cells = board(opened, name).locator(f".leaderboard tbody tr td:nth-child({place + 1})")
    return heads.nth(place), cells


def numbers(cells):
    return [float(text.split()[0]) for text in cells.all_inner_texts()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 1400])
def test_the_page_is_no_wider_than_its_window(visit, width, scheme):
    opened = visit(width, scheme)
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    for details in opened.locator("#records details").all()[:2]:
        details.locator("summary").click()
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
    assert severities.locator("svg[role=group]").count() == 20
    assert board(opened, "synthia").locator(".scene img").count() == 10 * (2 + len(METHODS))
    assert board(opened, "cifar10c").get_by_text("The images are not here.").is_visible()


def test_hostile_names_are_text(visit):
    opened = visit()
    assert set(shown_methods(opened, "digits")) == set(METHODS)
    assert opened.locator("img[src=x]").count() == 0
    assert opened.locator("script").count() == 2


def test_clicking_a_heading_sorts(visit):
    opened = visit()
    head, cells = column(opened, "digits", "svhn")
    assert head.get_attribute("aria-sort") == "none"
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert numbers(cells) == sorted(numbers(cells), reverse=True)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert numbers(cells) == sorted(numbers(cells))
    ranked, _ = column(opened, "digits", "average")
    assert ranked.get_attribute("aria-sort") == "none"
    name, _ = column(opened, "digits", "method")
    name.locator("button").click()
    assert shown_methods(opened, "digits")[2:] == ["erm", "gud", "jigen", "mada"]


def test_the_ranked_average_is_sorted_first_and_what_has_no_number_comes_last(visit):
    opened = visit()
    head, cells = column(opened, "digits", "average")
    assert head.get_attribute("aria-sort") == "descending"
    assert numbers(cells) == sorted(numbers(cells), reverse=True)
    gain, cells = column(opened, "digits", "gain_vs_erm")
    for _ in range(2):
        gain.locator("button").click()
        assert cells.all_inner_texts()[-1] == "baseline"


def test_lower_is_better_where_it_is(visit):
    opened = visit()
    head, cells = column(opened, "cifar10c", "mCE19_L5_vs_erm")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert numbers(cells) == sorted(numbers(cells))


def test_filtering_leaves_the_matching_methods_in_table_and_figures(visit):
    opened = visit()
    digits = board(opened, "digits")
    digits.locator("input[type=search]").fill("MAD")
    assert shown_methods(opened, "digits") == ["mada"]
    assert digits.get_by_role("status").inner_text() == f"1 of {len(METHODS)} methods shown"
    assert digits.locator("table.heat thead th").all_inner_texts() == ["mada"]
    assert digits.locator("figure", has_text="Bars").locator("rect.hit").count() == 1
    assert len(shown_methods(opened, "synthia")) == len(METHODS)
    digits.locator("input[type=search]").fill("nobody")
    assert shown_methods(opened, "digits") == []
    digits.locator("input[type=search]").fill("")
    assert len(shown_methods(opened, "digits")) == len(METHODS)


def test_pointing_at_a_number_tells_its_seeds(visit):
    opened = visit()
    _, cells = column(opened, "digits", "average")
    place = shown_methods(opened, "digits").index("mada")
    cells.nth(place).hover()
    text = opened.locator("#tip").inner_text()
    assert text.startswith("mada, average")
    assert cells.nth(place).inner_text() in text
    assert "n = 3" in text
    assert "Reduced scale" in text
    for seed in range(3):
        average = records.make("mada", seed)["results"]["last"]["average"]
        assert f"seed {seed}: {100 * average:.2f}" in text
    opened.mouse.move(5, 5)
    opened.wait_for_selector("#tip", state="hidden")


def test_the_keyboard_reaches_the_same(visit):
    opened = visit()
    board(opened, "digits").locator(".leaderboard thead button").last.focus()
    opened.keyboard.press("Tab")
    first = opened.locator("#tip").inner_text()
    assert first.startswith(f"{shown_methods(opened, 'digits')[0]}, source")
    opened.keyboard.press("ArrowRight")
    opened.keyboard.press("ArrowDown")
    assert (
        opened.locator("#tip")
        .inner_text()
        .startswith(f"{shown_methods(opened, 'digits')[1]}, svhn")
    )
    focused = opened.evaluate("document.activeElement.getAttribute('aria-describedby')")
    assert focused == "tip"
    opened.keyboard.press("Enter")
    assert opened.evaluate("document.activeElement.textContent").startswith("settings ")
    opened.keyboard.press("Escape")
    assert opened.locator("#tip").is_hidden()
    assert opened.evaluate("document.activeElement.tagName") == "TD"


def test_a_number_leads_to_its_records_settings(visit):
    opened = visit()
    _, cells = column(opened, "digits", "average")
    place = shown_methods(opened, "digits").index("gud")
    cells.nth(place).hover()
    link = opened.locator("#tip a").nth(1)
    assert link.inner_text() == f"settings {records.make('gud', 1)['id']}"
    link.click()
    record = opened.locator("#records details[open]")
    assert record.count() == 1
    assert record.locator("summary").inner_text().startswith("gud, seed 1, digits, quick")
    text = record.inner_text()
    for said in ("convnet-32", "AMD EPYC (2 cores)", "2.15.0", "reduced scale", "1,023,991,808",
                 "32; 32", "name train, steps 600, seconds 18.7"):  # fmt: skip
        assert said in text
    assert record.bounding_box()["y"] < 900
    opened.evaluate("window.location.hash = '#record-2'")
    opened.wait_for_selector("#record-2[open] dl")


def test_figures_tell_their_numbers_too(visit):
    opened = visit()
    digits = board(opened, "digits")
    digits.locator("table.heat td[data-tip]").first.hover()
    assert "seed 0: " in opened.locator("#tip").inner_text()
    digits.locator("figure", has_text="Score against cost").locator("circle.hit").first.focus()
    assert "median latency" in opened.locator("#tip").inner_text()
    severities = board(opened, "cifar10c").locator("figure", has_text="Severities")
    severities.locator("circle.hit").first.focus()
    assert "clean" in opened.locator("#tip").inner_text()


def test_one_corruption_can_be_seen_large(visit):
    opened = visit()
    severities = board(opened, "cifar10c").locator("figure", has_text="Severities")
    severities.locator("select").select_option(label="fog")
    assert severities.locator("h4").all_inner_texts() == ["fog\nweather"]
    assert severities.locator("svg[role=group]").bounding_box()["width"] > 800


def test_the_heat_map_shows_another_severity_and_differences(visit):
    opened = visit()
    heat = board(opened, "cifar10c").locator("figure", has_text="Heat map")
    before = heat.locator("tbody tr", has_text="fog").inner_text()
    heat.locator("select").first.select_option("1")
    assert heat.locator("tbody tr", has_text="fog").inner_text() != before
    heat.locator("select").nth(1).select_option("gain")
    place = heat.locator("thead th").all_inner_texts().index("erm")
    gains = heat.locator(f"tbody td:nth-of-type({place + 1})").all_inner_texts()
    assert set(gains) == {"0.0"}


def test_right_and_wrong_are_told_without_colour(visit):
    opened = visit()
    samples = board(opened, "digits").locator("figure", has_text="Samples")
    first = samples.locator(".tiles").first.locator("b").all_inner_texts()
    assert first == ["✓ 1", "✓ 2", "✓ 3", "✗ 0 (4)", "✗ 0 (5)", "✗ 0 (6)"]
    samples.locator("select").select_option("gud")
    assert "Decisions of gud, seed 0" in samples.inner_text()


def test_published_numbers_stand_in_a_block_of_their_own(visit):
    opened = visit()
    block = board(opened, "digits").locator(".published")
    assert block.locator("table").first.is_hidden()
    block.locator("summary").click()
    assert block.locator("table").first.is_visible()
    assert "ADA" in block.inner_text()
    assert "reduced scale: not comparable" in block.inner_text()
    tables = block.locator("table")
    assert tables.nth(4).locator("[data-tip]").count() == 0  # after four that have ours beside it
    ours = tables.first.locator("tbody tr").first.locator("[data-tip]")
    ours.first.hover()
    assert "settings " in opened.locator("#tip").inner_text()
    assert ours.count() == 2  # our mean and the gap, not the published value
    assert "[object" not in opened.locator("main").inner_text()


def test_views_change_the_table(visit):
    opened = visit()
    cifar = board(opened, "cifar10c")
    cifar.get_by_role("button", name="Corruptions").click()
    assert cifar.locator(".leaderboard thead th", has_text="fog").count() == 1
    assert cifar.locator(".leaderboard th.group", has_text="weather").count() == 1
    assert cifar.get_by_role("button", name="Corruptions").get_attribute("aria-pressed") == "true"
    assert cifar.get_by_role("button", name="Domains").get_attribute("aria-pressed") == "false"


@pytest.mark.parametrize(("scheme", "other"), [("light", "dark"), ("dark", "light")])
def test_the_theme_follows_the_system_and_can_be_changed(visit, scheme, other):
    opened = visit(scheme=scheme)
    background = "getComputedStyle(document.body).backgroundColor"
    colours = {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 21, 24)"}
    assert opened.evaluate(background) == colours[scheme]
    opened.locator("#theme").click()
    assert opened.evaluate(background) == colours[other]
    opened.locator("#theme").click()
    assert opened.evaluate(background) == colours[scheme]


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
    const own = [...node.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim());
    if (!own || !node.offsetParent) continue;
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


def test_records_that_tell_little_still_make_a_page(browser, tmp_path):
    record = records.make("erm", dataset="new", scores={"a": 0.0})
    record |= {"efficiency": {}, "cost": {}, "machine": {}, "packages": {}, "flags": {}}
    records.save(tmp_path / "runs", record)
    made = page.render(boards(load([tmp_path / "runs"]).runs), lambda board: {"missing": "none"})
    page.write(tmp_path / "report.html", made)
    opened, wrong = browser.new_page(), []
    opened.on("console", lambda message: wrong.append(message.text))
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.goto((tmp_path / "report.html").as_uri())
    opened.wait_for_selector("figure rect.hit")
    opened.locator("figure rect.hit").hover()
    assert "0.0 (n=1)" in opened.locator("#tip").inner_text()
    opened.locator("#records summary").click()
    assert "nothing" in opened.locator("#records").inner_text()
    assert "undefined" not in opened.locator("main").inner_text()
    assert "NaN" not in opened.locator("main").inner_html()
    opened.close()
    assert wrong == []


def test_a_finger_can_read_a_number(visit):
    opened = visit(380, has_touch=True)
    _, cells = column(opened, "digits", "source")
    cells.first.tap()
    assert "seed 0: " in opened.locator("#tip").inner_text()
    box = opened.locator("#tip").bounding_box()
    assert 0 <= box["x"] <= 380 - box["width"]
