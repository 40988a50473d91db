"""The page of ``sdgbench watch`` in a real browser: it follows runs without being reloaded."""

import re
import shutil

import pytest
import sample_records as records

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = playwright.expect
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs chromium")
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser():
    expect.set_options(timeout=60_000)  # a loaded machine
    with playwright.sync_playwright() as play:
        launched = play.chromium.launch(
            executable_path=CHROMIUM, headless=True, args=["--no-sandbox"]
        )
        yield launched
        launched.close()


@pytest.fixture
def visit(browser, server):
    """Open the page; when the test is over, nothing may have gone wrong or gone elsewhere."""
    contexts, wrong = [], []

    def open_page(width=1400, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        page.on(
            "request",
            lambda request: (
                wrong.append(f"request: {request.url}")
                if not request.url.startswith(server.url)
                else None
            ),
        )
        page.goto(server.url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def points(page, run, title):
    """The line of a run in the panel of this title."""
    panel = page.locator("#panels > div", has=page.get_by_role("heading", name=title))
    return panel.locator(f"path[data-run='{run.key}']")


def test_a_live_curve_grows_and_a_finished_table_appears(visit, fake, tmp_path):
    first, second = fake(0.001), fake(0.01)
    page = visit()
    expect(page.locator("#runs tbody tr")).to_have_count(2)
    expect(page.locator("#tables-note")).to_have_text("No run has finished yet.")
    first.train(30)
    loss = points(page, first, "loss in training")
    expect(loss).to_have_attribute("data-points", "30")
    drawn = loss.get_attribute("d")
    expect(page.locator("#runs tr.running .bar")).to_have_attribute("aria-valuenow", "15")
    expect(page.locator("#runs tr.running .time")).to_have_text("0:02:05")
    first.train(30)
    second.train(10)
    expect(loss).to_have_attribute("data-points", "60")
    assert loss.get_attribute("d") != drawn
    expect(points(page, first, "score on held-out")).to_have_attribute("data-points", "2")
    # The runs of a grid are told apart by what differs.
    for run, lr in ((first, "0.001"), (second, "0.01")):
        label = points(page, run, "loss in training").get_attribute("aria-label")
        assert label.startswith(f"erm on digits-mini (quick, seed 0, recipe.lr={lr}): ")
    first.step = 0
    first.train(4, "wae", phase=1)
    expect(points(page, first, "loss in phase wae")).to_have_attribute("data-points", "4")
    page.get_by_label(re.compile(r"curve of .*recipe\.lr=0\.01\)")).uncheck()
    expect(points(page, second, "loss in training")).to_have_count(0)
    expect(loss).to_have_count(1)

    # After a resume the curve is written again from a checkpoint: no point is shown twice.
    lines = first.curve.read_text().splitlines(keepends=True)
    first.curve.write_text("".join(lines[:20]))
    expect(loss).to_have_attribute("data-points", "20")

    records.write(tmp_path / "runs", ("erm", "mada", HOSTILE), range(2), ["digits"])
    names = page.locator("#tables tbody th")
    expect(names).to_have_count(3)
    assert sorted(names.all_inner_texts()) == [HOSTILE, "erm", "mada"]
    expect(page.locator("#summary")).to_contain_text("6 done")
    page.get_by_text("6 finished runs").click()
    expect(page.locator("#finished tbody tr")).to_have_count(6)
    page.get_by_role("button", name="average").click()
    records.write(tmp_path / "runs", ("gud",), range(2), ["digits"])
    expect(names).to_have_count(4)
    assert page.locator("#tables th[aria-sort=ascending]").inner_text().startswith("average")


def test_narrow_and_dark_pages_have_no_sideways_scroll(visit, fake, tmp_path):
    for seed in range(3):
        fake(0.01, seed, "a-method-with-a-very-long-name-that-has-no-space").train(20 + seed)
    records.write(tmp_path / "runs", ("erm", "mada"), range(2), ["digits"])
    page = visit(400, "dark")
    expect(page.locator("#panels path[data-run]")).to_have_count(6)
    expect(page.locator("#tables tbody th")).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.get_by_role("button", name="Light theme").click()
    assert page.locator("html").get_attribute("class") == "light"
