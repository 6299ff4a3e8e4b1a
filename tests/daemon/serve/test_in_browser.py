"""The pages in a real browser: what only it can tell."""

import shutil
import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from houses import said
from serving_here import Served

from daemon.config.configuration import load_configuration, parse_configuration
from daemon.config.settings import Camera
from pipeline.report.page import Card, Head, records_page

CHROMIUM = shutil.which("chromium")
playwright = pytest.importorskip("playwright.sync_api", reason="no browser: pip install playwright")
if CHROMIUM is None:
    pytest.skip("no browser: apt-get install chromium", allow_module_level=True)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
SCHEMES: list[dict[str, Any]] = [{"color_scheme": "light"}, {"color_scheme": "dark", **PHONE}]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def tab(browser, served) -> Iterator[Any]:
    """A page of a browser; anything that it complains of fails the test."""
    context = browser.new_context(base_url=served.url)
    page, complaints = context.new_page(), []
    page.on(
        "console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    ours = (served.url, "file:")
    page.on("request", lambda asked: None if asked.url.startswith(ours) else complaints.append(asked.url))
    yield page
    context.close()
    assert complaints == []


def test_nobody_is_shut_out(browser, served, house):
    """axe-core finds nothing on any page, light or dark, and nothing is wider than a phone."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python"
    ).Axe()
    gate, steps = "gate.2_-x", ("A person has come in from the left, " * 5, "A bag has been put down.")
    house.tell(2 * 86_400, said(steps[0], action="entered", track="p"), camera=gate)
    bag = house.tell(2 * 86_400 + 9, said(steps[1], thing="bag", action="placed", other="p"), camera=gate)
    pages = [
        f"/record/{bag.id}",
        "/",
        "/review?day=2024-05-01&object=person",
        "/review?q=how+many+people+by+camera",
        "/review?q=most+people+at+once",
        "/digest?q=2024-05-01",
        "/week",
        "/rules?when=a+person&since=",
        "/camera/yard",
    ]
    for scheme in SCHEMES:
        context = browser.new_context(base_url=served.url, **scheme)
        page = context.new_page()
        for address in [*pages, f"/record/{house.records['yard'][2].id}", "/nothing"]:
            page.goto(address)
            for details in page.locator("details").all():
                details.evaluate("each => { each.open = true }")
            found = axe.run(page).response["violations"]
            nodes = [(each["id"], each["nodes"][0]["html"]) for each in found]
            assert nodes == [], (address, scheme)
            root = "document.documentElement"  # a phone shows the whole of what is too wide: innerWidth grows
            assert page.evaluate(f"{root}.scrollWidth <= {root}.clientWidth"), (address, scheme)
        context.close()


def test_before_and_after(tab, house):
    tab.goto(f"/record/{house.records['yard'][0].id}")
    after, split = tab.locator("img.after"), tab.locator(".split")

    def style(name: str) -> str:
        return str(after.evaluate(f"each => getComputedStyle(each).{name}"))

    assert style("visibility") == "visible"
    tab.get_by_label("Before").check()
    assert style("visibility") == "hidden"
    tab.get_by_label("Slide").check()
    split.fill("30")
    assert style("clipPath") == "inset(0px 0px 0px 30%)"
    tab.get_by_label("Blink").check()
    assert style("animationName") == "blink"
    tab.get_by_label("Outlines").uncheck()
    assert tab.locator("svg.marks.of-after").evaluate("each => getComputedStyle(each).display") == "none"


def test_areas_are_drawn_copied_and_written(browser, house, tmp_path):
    """What is copied is what the configuration takes; only zones and lines are written into the file."""
    path = tmp_path / "narrated.yaml"
    text = "version: 1\nserve: {listen: '127.0.0.1:0'}\ncameras:\n  yard:\n    url: y.mp4\n"
    path.write_text(text)
    with Served(house, "--config", str(path)) as served:
        page = browser.new_page(base_url=served.url, **PHONE)
        page.goto("/")
        with page.expect_navigation():  # until the picture is there
            page.get_by_role("link", name="Draw zones of yard").click()
        canvas, lines = page.locator(".canvas"), page.get_by_label("Under cameras: yard:")
        kind, name = page.get_by_label("It is"), page.get_by_role("textbox", name="Name")
        write, size = page.get_by_role("button", name="Write to the file"), canvas.bounding_box()

        def click(*points: tuple[float, float]) -> None:
            for x, y in points:
                canvas.click(position={"x": x * size["width"], "y": y * size["height"]})

        def copied() -> Camera:
            return parse_configuration(text + textwrap.indent(lines.input_value(), "    ")).cameras["yard"]

        click((0.25, 0.5), (0.75, 0.5), (0.75, 0.9), (0.1, 0.1))
        page.get_by_role("button", name="Take back a point").click()
        name.fill("at the gate")
        corners = pytest.approx(np.array([[0.25, 0.5], [0.75, 0.5], [0.75, 0.9]]), abs=0.01)
        (zone,) = copied().zones
        assert (zone.name, np.array(zone.polygon)) == ("at the gate", corners)
        kind.select_option("privacy")
        assert np.array(copied().privacy["at the gate"]) == corners
        assert not write.is_visible()
        page.get_by_role("button", name="Clear").click()
        assert "3 points or more" in lines.input_value()
        kind.select_option("lines")
        click((0.25, 0.5), (0.75, 0.5))
        name.fill("the gate line")
        with page.expect_navigation():
            write.click()
        page.get_by_text(f"It is in {path}").wait_for()
        page.close()
    (line,) = load_configuration(path).cameras["yard"].lines
    assert (line.name, len(line.points)) == ("the gate line", 2)
    assert {*text.splitlines()} < {*path.read_text().splitlines()}


def test_what_comes_appears_by_itself(tab, house):
    tab.goto("/")
    tab.get_by_text("following", exact=True).wait_for()
    record = house.tell(3 * 86_400, said("A van has come."), camera="street", evidence=house.pictures(9))
    card = tab.locator("#feed > article").first
    card.get_by_text("A van has come.").wait_for()
    assert card.get_attribute("data-id") == record.id
    tab.locator('#cameras [data-camera="street"]').wait_for()
    card.get_by_label("Before").check()
    assert not card.locator("img.after").is_visible()
    van = {"camera": "street", "evidence": house.pictures(9)}
    house.tell(3 * 86_400 + 10, said("A car has come.", thing="car", action="entered", track="c"), **van)
    tab.get_by_text("A car has come.", exact=True).and_(tab.locator(".text")).wait_for()
    cards = tab.locator("#feed > article").count()
    house.tell(
        3 * 86_400 + 20, said("The car has left.", "disappeared", "car", action="left", track="c"), **van
    )
    tab.locator("#feed").get_by_text("The car has left.").wait_for()
    assert tab.locator("#feed > article").count() == cards, "the visit's card is replaced"


def test_a_report_shows_what_was_held_back_when_asked(tab, house, tmp_path):
    records = [*house.records["yard"], house.records["yard"][0].model_copy(update={"held": "hourly"})]
    head = Head("What changed", held=1)
    (tmp_path / "report.html").write_text("".join(records_page(head, map(Card, records))), "utf-8")
    tab.goto((tmp_path / "report.html").as_uri())
    cards = tab.locator("article:visible")
    assert cards.count() == 3
    tab.check("#held")
    assert cards.count() == 4
