"""A submitted run is on the page for the web; its address and its files hold what is shown."""

import csv
import io
import re
import shutil
import struct
import xml.etree.ElementTree as ET

import pytest

from sdgbench.cli.app import main
from sdgbench.leaderboard import leaderboards, load, make_table, render

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = playwright.expect
expect.set_options(timeout=60_000)
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs chromium")


def command(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    assert stopped.value.code == 0


@pytest.fixture(scope="module")
def web(verifiable_runs, tmp_path_factory):
    """A folder with submitted records, and the page made of them."""
    folder = tmp_path_factory.mktemp("web")
    (folder / "records").mkdir()
    runs, data = verifiable_runs / "runs", verifiable_runs / "data"
    person = ("--name", "Ada <b>Lovelace</b>", "--contact", "ada@example.org", "--licence", "MIT")
    command("submit", runs, "--to", folder / "records", "--data", data, *person)
    page = ("--no-samples", "--output", folder / "index.html")
    command("report", "--runs", folder / "records", *page)
    return folder


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as play:
        launched = play.chromium.launch(
            executable_path=CHROMIUM, headless=True, args=["--no-sandbox"]
        )
        yield launched
        launched.close()


@pytest.fixture
def visit(browser, web):
    """Open the page at an address; when the test is over, nothing may have gone wrong."""
    contexts, wrong = [], []

    def open_page(address="", width=1400):
        context = browser.new_context(viewport={"width": width, "height": 900})
        contexts.append(context)
        opened = context.new_page()
        opened.on("console", lambda message: wrong.append(f"console: {message.text}"))
        opened.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        opened.goto(address or (web / "index.html").as_uri())
        opened.wait_for_selector("#records summary")
        return opened

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def shown(opened):
    return opened.locator(".leaderboard tbody th")


def figure(opened, title):
    return opened.locator(f"figure:has(h3:text-is('{title}'))")


def download(opened, button):
    with opened.expect_download() as started:
        button.click()
    return started.value.suggested_filename, started.value.path().read_bytes()


def test_a_submitted_run_is_on_the_page_with_its_badge_and_its_submitter(visit):
    opened = visit()
    expect(shown(opened)).to_have_text(["gud", "erm"])
    expect(opened.locator(".leaderboard .badge")).to_have_text(["verified", "verified"])
    opened.locator(".leaderboard td.ranked").first.hover()
    tip = opened.locator("#tip")
    expect(tip).to_contain_text("verified: every score on unseen domains was recomputed")
    tip.locator("a").first.click()
    record = opened.locator("#records details[open]")
    expect(record).to_contain_text("Ada <b>Lovelace</b>")
    expect(record).to_contain_text("ada@example.org")
    expect(opened.locator("figure h3")).to_have_text(
        ["Bars", "Heat map", "Score against cost", "Training"]
    )


def test_a_copied_address_opens_the_same_state(visit):
    opened = visit()
    assert "#" not in opened.url
    opened.get_by_role("button", name="Chosen on source").click()
    opened.locator(".leaderboard thead button", has_text="texture").click()
    opened.locator(".leaderboard thead button", has_text="texture").click()
    opened.locator("input[type=search]").fill("u")
    figure(opened, "Bars").locator("select").select_option("worst")
    figure(opened, "Heat map").locator("select").select_option("gain")
    expect(opened).to_have_url(re.compile(r"#at=digits-mini-smoke-\w+&.*numbers=gain"))
    sorted_head = opened.locator(".leaderboard th[aria-sort=ascending]")
    expect(sorted_head).to_have_text("texture")
    state = (
        opened.locator(".leaderboard").inner_text(),
        figure(opened, "Heat map").locator("table").inner_text(),
    )

    other = visit(opened.url)
    expect(shown(other)).to_have_text(["gud"])
    pressed = other.locator(".views button[aria-pressed=true]")
    expect(pressed).to_have_text("Chosen on source")
    expect(other.locator(".leaderboard th[aria-sort=ascending]")).to_have_text("texture")
    expect(other.locator("input[type=search]")).to_have_value("u")
    expect(figure(other, "Bars").locator("select")).to_have_value("worst")
    assert state == (
        other.locator(".leaderboard").inner_text(),
        figure(other, "Heat map").locator("table").inner_text(),
    )
    # The way back: the page as it was at the start has no address of its own.
    address = other.url.split("#")[0]
    other.evaluate("window.location.hash = '#at='")
    expect(pressed).to_have_text("Domains")
    expect(shown(other)).to_have_text(["gud", "erm"])
    expect(figure(other, "Bars").locator("select")).to_have_value("average")
    other.locator("input[type=search]").fill("gud")
    other.locator("input[type=search]").fill("")
    other.locator("details.board > summary").click()
    expect(other).to_have_url(re.compile(re.escape(address) + r"#at=.*board=closed$"))


def test_an_address_leads_to_a_record_and_a_wrong_one_does_no_harm(visit, web):
    opened = visit()
    record = opened.locator("#records details").nth(4)
    record.locator("summary").click()
    expect(opened).to_have_url(re.compile(r"#at=record%3A[0-9a-f]{12}$"))
    other = visit(opened.url)
    expect(other.locator("#records details[open] summary")).to_have_text(
        record.locator("summary").inner_text()
    )
    expect(other.locator("#records details[open]")).to_be_in_viewport()
    key = re.search(r'"key":"([^"]+)"', (web / "index.html").read_text())[1]
    address = (web / "index.html").as_uri()
    parts = ("view=nothing", "sort=gone:up", "bars=__proto__", "board=", "filter=%3Cimg%20src=x%3E")
    wrong = visit(f"{address}#at=nowhere&{'&'.join(f'{key}.{part}' for part in parts)}&x.y=z&%")
    expect(wrong.locator(".views button[aria-pressed=true]")).to_have_text("Domains")
    expect(shown(wrong)).to_have_count(0)
    expect(figure(wrong, "Bars").locator("select")).to_have_value("average")
    assert wrong.locator("img").count() == 0


def test_a_table_downloads_as_the_csv_of_compare(visit, web):
    opened = visit()
    (board,) = leaderboards(load([web / "records"]).runs)
    for view, kind in (("Domains", "domains"), ("Efficiency", "efficiency")):
        opened.get_by_role("button", name=view).click()
        name, data = download(opened, opened.locator(".tools .save").first)
        assert re.fullmatch(rf"digits-mini-smoke-\w+-{kind}\.csv", name)
        ours = list(csv.DictReader(io.StringIO(data.decode())))
        theirs = list(csv.DictReader(io.StringIO(render([make_table(board, kind)], "csv"))))
        assert [row["method"] for row in ours] == shown(opened).all_inner_texts()
        for row, expected in zip(ours, theirs, strict=True):
            assert set(row) == set(expected)
            for column, text in expected.items():
                assert row[column] == text or float(row[column]) == pytest.approx(float(text))
    opened.get_by_role("button", name="Domains").click()
    opened.locator("input[type=search]").fill("erm")
    expect(shown(opened)).to_have_text(["erm"])
    _, data = download(opened, opened.locator(".tools .save").first)
    (row,) = csv.DictReader(io.StringIO(data.decode()))
    cells = opened.locator(".leaderboard tbody tr td").all_inner_texts()
    heads = opened.locator(".leaderboard thead th").all_inner_texts()[1:]
    for head, cell in zip(heads, cells, strict=True):
        if "±" in cell:
            mean, half = cell.split()[:2]
            assert f"{float(row[head]):.1f}" == mean
            assert f"±{float(row[f'{head} ±']):.1f}" == half
    assert row["badge"] == "verified"


def test_every_figure_downloads_as_it_is_shown(visit):
    opened = visit()
    for title in ("Bars", "Heat map", "Score against cost", "Training"):
        shown_figure = figure(opened, title)
        name, data = download(opened, shown_figure.get_by_role("button", name="SVG"))
        assert name.endswith(f"-{title.lower().replace(' ', '-')}.svg")
        tree = ET.fromstring(data)
        words = " ".join(node.text or "" for node in tree.iter("{http://www.w3.org/2000/svg}text"))
        for word in ("gud", "erm", "digits-mini, smoke", "reduced scale"):
            assert word in words, (title, word)
        assert not re.search(rb"var\(|oklab|light-dark|class=", data)
        width, height = (int(tree.get(side)) for side in ("width", "height"))
        box = shown_figure.bounding_box()
        assert width >= box["width"]
        assert height >= box["height"]
        name, image = download(opened, shown_figure.get_by_role("button", name="PNG"))
        assert name.endswith(".png")
        assert image[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", image[16:24]) == (2 * width, 2 * height)
