"""The report in a real browser: first things first, no network, on a phone and on a desk."""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.study import planted

from fallline.study import plots
from fallline.study.checks import Check, at_least, at_most
from fallline.study.estimates import Estimate
from fallline.study.record import Outcome, Record
from fallline.study.report import write_html
from fallline.study.results import Results
from fallline.study.spec import Cell, Part

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here (apt install chromium)")

ARMS = ["muonmax-momo", "muon-adam", "muon-adam-momo", "an-arm-with-a-rather-long-name"]
WIDTHS = [390, 1280]
SCHEMES = ["light", "dark"]


def run(cell: Cell) -> dict[str, float]:
    draw = random.Random(repr((cell.arm, cell.seed, cell.config["lr"])))
    x = math.log10(cell.config["lr"]) + 2
    if cell.arm == "muon-adam" and x == 1:
        return {"val_loss": math.nan, "milliseconds": 3.0}
    for step in range(0, 100, 5):
        cell.report(step, train=2 + 3 * math.exp(-step / 30) + 0.1 * draw.random())
    loss = 2.08 + (0.05 + 0.1 * ARMS.index(cell.arm)) * x * x + 0.03 * draw.random()
    return {"val_loss": loss, "milliseconds": 3 + draw.random()}


def forgiving(results: Results) -> Check:
    """The learning-rate spread of MuonMax-Momo is at most 0.4 times that of MuonAdam."""
    spread = results.spread("val_loss", over="lr")
    return at_most(spread["muonmax-momo"] / spread["muon-adam"], 0.4)


def close_at_best(results: Results) -> Check:
    """Tuned on the other seeds, MuonMax-Momo is within 0.1 of MuonAdam."""
    return at_least(results.tuned("val_loss").paired("muonmax-momo", "muon-adam"), -0.1)


def truncation_helps(results: Results) -> Estimate:
    """Truncation helps MuonAdam at a learning rate of 0.03."""
    return results.where(lr=0.03).paired("val_loss", "muon-adam-momo", "muon-adam")


def lr_sensitivity(results: Results) -> object:
    """Validation loss against the learning rate: MuonMax-Momo stays flat."""
    return plots.sensitivity(results, "val_loss", "lr")


def training(results: Results) -> object:
    """Training loss along the steps at a learning rate of 0.01."""
    return plots.curves(results.where(lr=0.01), "train")


def gains(results: Results) -> object:
    """Tuned gain over MuonAdam with its 95 % interval; right is better."""
    tuned = results.tuned("val_loss")
    return plots.forest({arm: tuned.paired(arm, "muon-adam") for arm in ARMS if arm != "muon-adam"})


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    part = Part("lr", ARMS, seeds=3, lr=[1e-3, 3e-3, 1e-2, 3e-2, 1e-1], fixed={"steps": 100})
    other = Part("width", ARMS, seeds=1, lr=[0.01], width=[64, 8, 512])
    study = planted.study(
        run,
        part,
        other,
        metrics={"val_loss": "min", "milliseconds": "min"},
        diverged={"val_loss": 10.0},
        question="Is MuonMax with momo truncation forgiving of the learning rate?",
        bars=[
            lambda r: forgiving(r.where(part="lr")),
            lambda r: close_at_best(r.where(part="lr")),
        ],
        open=[lambda r: truncation_helps(r.where(part="lr"))],
        figures=[
            lambda r: lr_sensitivity(r.where(part="lr")),
            lambda r: training(r.where(part="lr")),
            lambda r: gains(r.where(part="lr")),
        ],
    )
    crash = Record(Outcome.FAILED, error="Traceback\n" + "a very long line " * 30, output="<b>")
    results = planted.results(
        study,
        environments={"here": {"cpu": "x" * 120, "packages": {"numpy": "2.1"}}},
        change=lambda cell: crash if "width" in cell.config and cell.arm == ARMS[-1] else "",
    )
    return write_html(results, tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        )
        yield browser
        browser.close()


@pytest.fixture
def opened(browser: Browser, report: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    width, scheme = getattr(request, "param", (1280, "light"))
    page = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda asked: troubles.append(asked.url))
    page.goto(report.as_uri())
    yield page
    page.close()
    own = [text for text in troubles if text != report.as_uri() and not text.startswith("data:")]
    assert own == []


@pytest.mark.parametrize("opened", [(w, s) for w in WIDTHS for s in SCHEMES], indirect=True)
def test_the_answer_comes_first_and_nothing_overflows(opened: Page):
    width = opened.evaluate("document.documentElement.scrollWidth")
    assert width <= opened.viewport_size["width"]
    badge = opened.locator(".verdict .badge")
    box = badge.bounding_box()
    assert box["y"] + box["height"] < 400
    assert opened.locator("h1").bounding_box()["y"] < box["y"]
    # The bars hold, but a cell that failed still owes its answer.
    assert "Inconclusive" in badge.inner_text()
    opened.locator("details summary").first.click()
    assert opened.evaluate("document.documentElement.scrollWidth") == width


CONTRAST = """element => {
  const light = (colour) => {
    const channels = colour.match(/[\\d.]+/g).slice(0, 3).map((c) => c / 255);
    const [r, g, b] = channels.map((c) => c <= 0.04 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  let behind = element;
  const paper = (e) => getComputedStyle(e).backgroundColor;
  while (behind.parentElement && paper(behind) === "rgba(0, 0, 0, 0)") {
    behind = behind.parentElement;
  }
  const style = getComputedStyle(element);
  const ink = element instanceof SVGElement ? style.fill : style.color;
  const [low, high] = [light(ink), light(paper(behind))].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}"""


@pytest.mark.parametrize("opened", [(1280, s) for s in SCHEMES], indirect=True)
@pytest.mark.parametrize(
    "selector", ["h1", ".badge", ".soft", "caption span", "td", "figcaption", "pre", "svg text"]
)
def test_text_stands_out_from_its_paper(opened: Page, selector: str):
    ratios = [element.evaluate(CONTRAST) for element in opened.locator(selector).all()[:40]]
    # A cross in an arm's colour is a mark and no text: 3 is enough for it.
    assert min(ratios) >= (2.0 if selector == "svg text" else 4.5)
    assert sorted(ratios)[len(ratios) // 2] >= 4.5


@pytest.mark.parametrize("opened", [(390, "light")], indirect=True)
def test_letters_in_pictures_are_legible_on_a_phone(opened: Page):
    heights = [text.bounding_box()["height"] for text in opened.locator("svg text").all()]
    assert min(heights) >= 9


def column(page: Page, index: int) -> list[str]:
    cells = page.locator("table.sortable").first.locator(f"tbody tr > *:nth-child({index})")
    return cells.all_inner_texts()


def test_tables_sort_by_click_and_by_keyboard(opened: Page):
    table = opened.locator("table.sortable").first
    head = table.locator("thead th").nth(2)
    before = column(opened, 3)
    assert head.get_attribute("aria-sort") == "none"
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    losses = [float(text) for text in column(opened, 3)]
    assert losses == sorted(losses)
    assert losses[-1] == 10.0
    assert sorted(map(float, before)) == losses

    head.locator("button").focus()
    opened.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert [float(text) for text in column(opened, 3)] == losses[::-1]

    opened.keyboard.press("Shift+Tab")
    opened.keyboard.press("Space")
    assert table.locator("thead th").nth(1).get_attribute("aria-sort") == "ascending"
    assert head.get_attribute("aria-sort") == "none"
    rates = [float(text) for text in column(opened, 2)]
    assert rates == sorted(rates)


def test_gaps_stay_last_in_both_directions(opened: Page):
    table = opened.locator("table.sortable").nth(1)
    head = table.locator("thead th", has_text="val_loss")
    index = [text.split()[0] for text in table.locator("thead th").all_inner_texts()].index(
        "val_loss"
    )
    for _ in range(2):
        head.locator("button").click()
        shown = table.locator(f"tbody tr > *:nth-child({index + 1})").all_inner_texts()
        assert shown[-3:] == ["–"] * 3
        assert "–" not in shown[:-3]


def test_a_screen_reader_finds_its_way(opened: Page):
    for table in opened.locator("table").all():
        assert table.locator("caption").inner_text()
        assert table.locator("thead th:not([scope=col])").count() == 0
        assert table.locator("tbody tr").count() == table.locator("tbody th[scope=row]").count()
    labels = [svg.get_attribute("aria-label") for svg in opened.locator("figure svg").all()]
    assert len(labels) == 3
    assert all(labels)
    assert opened.locator("html").get_attribute("lang") == "en"
    levels = opened.evaluate("[...document.querySelectorAll('h1,h2')].map((h) => h.tagName)")
    assert levels[0] == "H1"
    assert levels.count("H1") == 1
