"""The report as a reader sees it: in headless Chromium, without network, in both themes."""

import json
import os

import pytest

from tests.neuron.timeline_view.browser import browser_page, find_browser
from tests.neuron.timeline_view.example import PEAKS, snapshot, transformer, work
from torch_trainium.neuron.timeline_view import units
from torch_trainium.neuron.timeline_view.elapsed import elapsed
from torch_trainium.neuron.timeline_view.page import write_report
from torch_trainium.neuron.timeline_view.totals import by_line, by_operator, engine_busy_ps

STEPS = 2
VIEW = transformer(layers=6, steps=STEPS, devices=2)
SECTIONS = [
    "headline",
    "composition",
    "engines",
    "modules",
    "roofline",
    "memory",
    "lines",
    "operators",
    "fallbacks",
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    executable = find_browser()
    if executable is None:
        reason = "no Chromium on the path; `make browser` installs one, TEST_BROWSER names one"
        # A page that nobody opened is not tested: where CI runs, that must not go unnoticed.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    with browser_page(executable, tmp_path_factory.mktemp("profile")) as page:
        page.resize(1280, 900)
        yield page


@pytest.fixture
def page(browser, tmp_path):
    """The report of VIEW, freshly opened; the reader's system is light."""
    path = tmp_path / "report.html"
    write_report(VIEW, path, PEAKS, title="train.py", steps=STEPS)
    browser.problems.clear()
    browser.requests.clear()
    browser.set_dark(False)
    browser.open(path)
    yield browser
    assert browser.problems == []
    assert browser.requests == [path.as_uri()]


def rows(page, table):
    """The visible cells of a table's body, row by row."""
    return page.evaluate(
        f"""[...document.querySelectorAll("#{table} tbody tr")]
        .filter(row => !row.hidden).map(row => [...row.cells].map(cell => cell.innerText.trim()))"""
    )


def click(page, selector):
    page.evaluate(f"document.querySelector({json.dumps(selector)}).click()")


def test_sections_are_there_in_order(page):
    assert (
        page.evaluate("[...document.querySelectorAll('main > section')].map(s => s.id)") == SECTIONS
    )
    assert page.texts("h1") == ["train.py"]
    assert page.evaluate("document.title") == "train.py on trn2.3xlarge"


def test_headline_has_the_numbers_of_the_timeline(page):
    values = dict(zip(page.texts(".tile .name"), page.texts(".tile .value"), strict=True))
    records = VIEW.records
    launch_bound = sum(record.bound == "launch" for record in records)
    assert values["Step time"] == units.time(VIEW.duration_ps // STEPS)
    assert values["Launch-bound work"] == units.percent(launch_bound / len(records))
    assert values["Peak memory"] == units.bytes_size(max(r.allocated_bytes for r in records))
    assert values["CPU fallbacks"] == "6"


def test_composition_adds_up_to_all_the_time(page):
    shares = [float(text.split()[0]) for text in page.texts("#composition .legend .value")]
    assert sum(shares) == pytest.approx(100, abs=0.1 * len(shares))
    widths = page.evaluate(
        "[...document.querySelectorAll('.segment')].map(s => s.getBoundingClientRect().width)"
    )
    assert [w / sum(widths) * 100 for w in widths] == pytest.approx(shares, abs=1)


def test_engines_have_their_busy_times(page):
    shown = {row[0]: row[2] for row in rows(page, "engine-table")}
    busy = engine_busy_ps(VIEW.records)
    assert shown["Tensor engine"] == units.time(busy["tensor"])
    assert shown["DMA (HBM traffic)"] == units.time(busy["dma"])
    assert [row[0] for row in rows(page, "core-table")] == ["neuron:0", "neuron:1"]


def test_modules_open_and_close(page):
    def names():
        return [row[0] for row in rows(page, "module-table")]

    closed = ["(outside modules)", "layers", *"012345"]
    assert names() == closed
    click(page, '[data-path="layers.1"] button')
    assert names()[:9] == [*closed[:4], "norm1", "attention", "norm2", "mlp", "2"]
    click(page, '[data-path="layers.1.mlp"] button')
    assert names()[7:11] == ["mlp", "up", "down", "2"]
    click(page, '[data-path="layers"] button')
    assert names() == ["(outside modules)", "layers"]
    click(page, '[data-path="layers"] button')
    assert names()[7:11] == ["mlp", "up", "down", "2"]


OUTSIDE_THE_PLOT = """
(() => {
  const plot = document.querySelector("#roofline-plot");
  const frame = plot.getBoundingClientRect();
  const isOutside = box =>
    box.left < frame.left || box.right > frame.right || box.bottom > frame.bottom;
  return [...plot.querySelectorAll("text, circle, polyline")]
    .filter(element => isOutside(element.getBoundingClientRect()))
    .map(element => element.textContent || element.tagName);
})()
"""


def test_roofline_has_a_disc_for_every_operator_that_computes(page):
    tips = page.evaluate("[...document.querySelectorAll('.disc')].map(d => d.dataset.tip)")
    computing = {r.operator for r in VIEW.records if r.flops and r.hbm_bytes}
    assert {tip.split("\n")[0] for tip in tips} == computing
    assert page.evaluate(OUTSIDE_THE_PLOT) == []


def test_memory_shows_a_curve_per_device(page):
    assert page.evaluate("document.querySelectorAll('#memory-plot .curve').length") == 2
    assert page.texts("#memory .legend li") == ["neuron:0", "neuron:1"]


def test_ten_most_expensive_lines_are_listed(page):
    totals = by_line(elapsed(VIEW))
    assert len(totals) > 10
    expected = [
        [line.removeprefix("/home/me/"), units.time(t.elapsed_ps)]
        for line, t in list(totals.items())[:10]
    ]
    assert [row[:2] for row in rows(page, "line-table")] == expected
    tips = "[...document.querySelectorAll('#line-table code')].map(c => c.dataset.tip)"
    assert page.evaluate(tips) == list(totals)[:10]


def test_operators_sort_by_any_column(page):
    totals = by_operator(elapsed(VIEW))
    assert [row[0] for row in rows(page, "operator-table")] == list(totals)
    click(page, "#operator-table th:nth-child(5)")
    calls = [int(row[4].replace(",", "")) for row in rows(page, "operator-table")]
    assert calls == sorted((t.calls for t in totals.values()), reverse=True)
    click(page, "#operator-table th:nth-child(5)")
    assert [int(row[4].replace(",", "")) for row in rows(page, "operator-table")] == calls[::-1]
    click(page, "#operator-table th:nth-child(1) button")
    assert [row[0] for row in rows(page, "operator-table")] == sorted(totals, key=str.lower)
    orders = "[...document.querySelectorAll('#operator-table th')].map(h => h.ariaSort)"
    assert page.evaluate(orders)[:5] == ["ascending", None, None, None, None]


def test_fallbacks_name_their_lines(page):
    assert rows(page, "fallback-table")[0] == [
        "aten::linalg_qr",
        "1.40 ms",
        "2",
        "it has no lowering",
        "train.py:77 (orthogonal_init)",
    ]


def test_tooltip_follows_the_pointer_and_the_focus(page):
    box = page.evaluate(
        """(() => { const disc = document.querySelector(".disc");
        disc.scrollIntoView({block: "center"});
        const box = disc.getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2] })()"""
    )
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
    assert page.texts("#tip")[0].startswith("aten::mm\n")
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    assert page.evaluate("document.querySelector('#tip').hidden")
    page.evaluate("document.querySelectorAll('.disc')[1].focus()")
    assert page.texts("#tip")[0].startswith("aten::")


BACKGROUND = "getComputedStyle(document.body).backgroundColor"


def brightness(color):
    """Of a computed "rgb(r, g, b)", 0 to 255."""
    return sum(map(int, color.strip("rgb()").split(",")[:3])) / 3


def test_theme_follows_the_system_until_the_reader_chooses(page):
    light = brightness(page.evaluate(BACKGROUND))
    page.set_dark(True)
    dark = brightness(page.evaluate(BACKGROUND))
    assert light > 200 and dark < 50
    click(page, "#theme")
    assert page.texts("#theme") == ["Theme: light"]
    assert brightness(page.evaluate(BACKGROUND)) == light
    click(page, "#theme")
    page.set_dark(False)
    assert brightness(page.evaluate(BACKGROUND)) == dark


# Texts with less contrast than WCAG 2.1 asks (AA: 4.5), each against the first opaque background
# around it.
LOW_CONTRAST = """
(() => {
  const channels = color => color.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => [r, g, b]
    .map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const color = channels(getComputedStyle(e).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const low = [];
  const texts = [...document.querySelectorAll("body *")].filter(e =>
    [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) && e.tagName !== "SCRIPT");
  for (const element of texts) {
    const style = getComputedStyle(element);
    const color = channels(element instanceof SVGElement ? style.fill : style.color);
    const sides = [luminance(color), luminance(behind(element))];
    const ratio = (Math.max(...sides) + 0.05) / (Math.min(...sides) + 0.05);
    if (ratio < 4.5) low.push([element.textContent, ratio]);
  }
  return [texts.length, low];
})()
"""


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_every_text_has_enough_contrast(page, is_dark):
    page.set_dark(is_dark)
    checked, low = page.evaluate(LOW_CONTRAST)
    assert checked > 300
    assert low == []


@pytest.mark.parametrize("width", [400, 800, 1280])
def test_page_fits_its_window(page, width):
    page.resize(width, 900)
    try:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        overflowing = """[...document.querySelectorAll(".tile > div, h1, #verdict")]
            .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)"""
        assert page.evaluate(overflowing) == []
    finally:
        page.resize(1280, 900)


def test_hostile_names_stay_text(browser, tmp_path):
    name = "</script><img src=x onerror=alert(1)>'\"&lt;"
    path = tmp_path / "hostile.html"
    records = [work(name, 0, 10, module=name, line=name, flops=9, hbm_bytes=3, bound="tensor")]
    browser.problems.clear()
    browser.requests.clear()
    write_report(snapshot(records), path, PEAKS, title=name)
    browser.open(path)
    assert browser.texts("h1") == [name]
    assert browser.evaluate("document.querySelectorAll('img').length") == 0
    assert browser.evaluate("document.querySelector('.disc').dataset.tip").startswith(name)
    assert browser.problems == []
    assert browser.requests == [path.as_uri()]
