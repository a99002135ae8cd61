"""The page in a real browser: no console errors, no overflow, controls by mouse and keyboard."""

import re
import struct
from pathlib import Path

import pytest

from gpu_profile.analysis.multi_report.work import ReportSource
from gpu_profile.analysis.page import write_page
from tests.generator.gpt import save_training
from tests.live.page.browser import Browser

pytestmark = pytest.mark.chromium

# Kernels, ranges and paths have long names without a space; nowrap elements hold our own words.
LENGTHEN_TEXTS = """[...document.querySelectorAll("header *, main *")]
  .filter((e) => e.childElementCount === 0 && e.textContent.trim() && e.offsetParent)
  .filter((e) => getComputedStyle(e).whiteSpace === "normal")
  .map((e) => { e.textContent += "x".repeat(300); }).length"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_and_says_nothing_on_the_console(
    browser: Browser, page: str, width: int, dark: bool, tmp_path: Path
) -> None:
    browser.open(page, width=width, dark=dark)
    browser.wait_for_timeline()
    assert browser.run("document.documentElement.scrollWidth") == width
    browser.screenshot(tmp_path / "page.png")
    assert struct.unpack(">I", (tmp_path / "page.png").read_bytes()[16:20]) == (width,)
    assert browser.run(LENGTHEN_TEXTS) > 50
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.problems == []


def test_no_text_is_too_small_or_cut_off(browser: Browser, page: str) -> None:
    browser.open(page, width=390)
    browser.wait_for_timeline()
    small = browser.run("""[...document.querySelectorAll("main *")]
      .filter((e) => e.childElementCount === 0 && e.textContent.trim() && e.offsetParent)
      .filter((e) => parseFloat(getComputedStyle(e).fontSize) < 11)
      .map((e) => e.outerHTML.slice(0, 80))""")
    assert small == []


def test_contrast_of_text_on_bars(browser: Browser, page: str) -> None:
    """WCAG's 3:1 for the bold short labels, in both schemes."""
    for dark in (False, True):
        browser.open(page, dark=dark)
        ratios = browser.run("""(() => {
          const light = (colour) => {
            const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map((v) => {
              const c = v / (colour.startsWith("color(") ? 1 : 255);
              return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
            });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          return [...document.querySelectorAll(".part")].filter((e) => e.textContent)
            .filter((e) => getComputedStyle(e).backgroundColor !== "rgba(0, 0, 0, 0)")
            .map((e) => {
              const style = getComputedStyle(e);
              const [a, b] = [light(style.color), light(style.backgroundColor)];
              return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            });
        })()""")
        assert ratios
        assert min(ratios) >= 3


def test_tables_sort_and_search(browser: Browser, page: str) -> None:
    browser.open(page)
    browser.run("document.querySelectorAll('#tables details').forEach((d) => { d.open = true; })")
    first = "document.querySelector('#tables tbody tr').cells[1].dataset.value"
    largest = float(browser.run(first))
    browser.run("document.querySelectorAll('#tables thead button')[1].click()")
    assert float(browser.run(first)) == largest
    browser.run("document.querySelectorAll('#tables thead button')[1].click()")
    assert float(browser.run(first)) < largest
    shown = browser.run("""(() => {
      const field = document.querySelector("#tables .search");
      field.value = "nccl allreduce";
      field.dispatchEvent(new Event("input"));
      const rows = [...document.querySelector("#tables tbody").rows];
      return rows.filter((row) => !row.hidden).length;
    })()""")
    assert shown == 1


def test_it_prints_on_six_pages(browser: Browser, page: str, tmp_path: Path) -> None:
    browser.open(page)
    browser.wait_for_timeline()
    browser.pdf(tmp_path / "page.pdf")
    printed = (tmp_path / "page.pdf").read_bytes()
    assert len(printed) > 50_000
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 6
    assert browser.problems == []


def test_nothing_is_asked_of_a_network(browser: Browser, page: str) -> None:
    browser.open(page)
    browser.wait_for_timeline()
    requests = browser.run("performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert requests == []


def test_the_model_zooms_searches_and_shows_kernels(browser: Browser, tmp_path: Path) -> None:
    output = tmp_path / "model.html"
    report = save_training(tmp_path / "model.sqlite")
    write_page([ReportSource(str(report))], output)
    for width in (390, 1280):
        browser.open(output.as_uri(), width=width)
        assert browser.run("document.documentElement.scrollWidth") == width
        browser.run("""[...document.querySelectorAll(".icicle button")]
          .find((box) => box.title.startsWith("transformer.h.7:")).click()""")
        shown = "[...document.querySelectorAll('.icicle button:not([hidden])')]"
        assert browser.run(f"{shown}.every((box) => parseFloat(box.style.left) >= -0.01)")
        assert browser.run("document.querySelector('.icicle [aria-current]').style.width") == "100%"
        assert browser.run("document.querySelector('.panel h3').textContent") == (
            "transformer.h.7 (GPT2Block)"
        )
        assert browser.run("document.querySelectorAll('.panel tbody tr').length") == 8
        browser.run("""(() => {
          const search = document.getElementById("icicle-search");
          search.value = "h.7.attn";
          search.dispatchEvent(new Event("input"));
        })()""")
        assert browser.run(f"{shown}.filter((box) => box.classList.contains('hit')).length") == 3
        browser.run("document.querySelector('.icicle [aria-current]').focus()")
        browser.key("Escape", 27)
        assert browser.run("document.querySelector('.panel h3').textContent") == "all kernels"
    assert browser.problems == []


def test_the_policy_stops_a_script_that_is_not_the_pages(browser: Browser, page: str) -> None:
    browser.open(page)
    browser.wait_for_timeline()
    ran = browser.run("""(() => {
      const script = document.createElement("script");
      script.textContent = "window.ran = true";
      document.body.append(script);
      document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.ran = true'>");
      return fetch("data:,x").then(() => true, () => Boolean(window.ran));
    })()""")
    assert ran is False
