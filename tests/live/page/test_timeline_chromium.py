"""The page's timeline in a real browser: keys, pointer, places, search, rows of the host."""

from pathlib import Path
from typing import Any

import pytest

from gpu_profile.analysis.multi_report.survey import run_of, survey_report
from gpu_profile.analysis.multi_report.work import ReportSource
from gpu_profile.analysis.page import write_page
from gpu_profile.analysis.store.database import Database
from tests.invoked import invoke
from tests.live.page.browser import Browser
from tests.unit.analysis.scenarios import Training

pytestmark = pytest.mark.chromium

SEARCH = """(() => {{
  const field = document.getElementById("timeline-search");
  field.value = {words!r};
  field.dispatchEvent(new Event("input"));
  return document.getElementById("timeline-found").textContent;
}})()"""


def _view(browser: Browser) -> Any:
    return browser.run("[timeline.t0, timeline.t1]")


def test_the_timeline_answers_keys_buttons_and_the_pointer(browser: Browser, page: str) -> None:
    browser.open(page)
    browser.wait_for_timeline()
    whole = _view(browser)
    browser.run("document.querySelector('.lanes').focus()")
    browser.key("+", 187)
    browser.key("ArrowRight", 39)
    near = _view(browser)
    assert near[1] - near[0] == pytest.approx(0.6 * (whole[1] - whole[0]))
    browser.run("document.querySelector('[data-key=\"0\"]').click()")
    assert _view(browser) == whole
    browser.run("""(() => { const steps = document.getElementById("timeline-step");
      steps.value = "5"; steps.dispatchEvent(new Event("change")); })()""")
    assert 14e6 < _view(browser)[1] - _view(browser)[0] < 20e6
    nvtx = "timeline.rows.find((row) => row.title === 'NVTX').top"
    said = browser.run(f"describe(timeline, timeline.left + 300, 4 + {nvtx} + 5)")
    assert "step" in said
    browser.run("timeline.show(100e6, 101e6)")
    held = browser.run("describe(timeline, timeline.left + 600, 4 + timeline.block + LANE + 5)")
    assert "AllReduce" in held
    assert "wait for another rank" in held
    assert "every operation" in browser.run("document.getElementById('timeline-view').textContent")
    assert browser.problems == []


def test_every_operation_is_in_the_data(browser: Browser, page: str) -> None:
    browser.open(page)
    browser.wait_for_timeline()
    counts = browser.run(
        "timeline.data.ranks.map((r) => r.lanes.slice(0, 3).map((l) => l.start.length))"
    )
    assert counts == [[6320, 60, 1561]] * 4
    busy = browser.run("""timeline.data.ranks.map((r) =>
      r.lanes[1].end.reduce((sum, end, row) => sum + end - r.lanes[1].start[row], 0))""")
    assert busy == [7_061_640, 242_286_615, 240_206_896, 250_022_931]


def test_the_switch_goes_to_a_window(browser: Browser, tmp_path: Path) -> None:
    reports = []
    for number in (1, 2):
        recording = Training(ranks=2, steps=6).record()
        recording.add("TARGET_INFO_SESSION_START_TIME", 10**18 + number * 10**12)
        reports.append(recording.save(tmp_path / f"all.{number}.sqlite"))
    databases = [Database.open(report) for report in reports]
    places = [str(report) for report in reports]
    scopes = run_of([survey_report(database) for database in databases]).join(places)
    for database in databases:
        database.close()
    sources = [ReportSource(place, scope) for place, scope in zip(places, scopes, strict=True)]
    write_page(sources, tmp_path / "windows.html")
    browser.open((tmp_path / "windows.html").as_uri())
    browser.wait_for_timeline()
    shown = browser.run("""(() => {
      const select = document.getElementById("timeline-window");
      select.value = "1";
      select.dispatchEvent(new Event("change"));
      const [number, start, end] = timeline.data.windows[1];
      const apart = Math.abs(timeline.t0 - start) + Math.abs(timeline.t1 - end);
      return [select.hidden, select.options.length, number, apart / (end - start)];
    })()""")
    assert shown[:3] == [False, 3, 2]
    assert shown[3] < 0.05
    assert browser.problems == []


def test_a_finding_leads_to_its_place(browser: Browser, page: str) -> None:
    browser.open(page)
    browser.wait_for_timeline()
    browser.run("document.querySelector('.findings .lead a').click()")
    browser.wait_until("timeline.place")
    start, end = browser.run("[timeline.place.start, timeline.place.end]")
    assert (end - start) / 1e6 == pytest.approx(0.359, abs=0.001)  # "longest gap 0.359 ms"
    shown = _view(browser)
    assert shown[0] < start < end < shown[1] < start + 2e6
    browser.wait_until("document.getElementById('timeline').getBoundingClientRect().top < 100")
    browser.open("about:blank")
    browser.open(f"{page}#at&rank=3&from=100&to=101.5")
    browser.wait_for_timeline()
    assert browser.run("timeline.place.rank.rank") == 3
    assert browser.run("timeline.data.origin + timeline.place.start") == 100e6
    for broken in ("#at&rank=9&from=1&to=2", "#at&find=%", "#row&table=x&name=y", "#at&from=x"):
        browser.run(f"location.hash = {broken!r}")
    assert browser.problems == []


def test_a_row_leads_to_its_events_and_back(browser: Browser, page: str) -> None:
    browser.open(page)
    browser.wait_for_timeline()
    link = "document.querySelector('table[data-table=cuda_gpu_kern_sum] tbody a.go')"
    name = browser.run(f"textOf({link}.parentElement)")
    count = browser.run(f"Number({link}.closest('tr').cells[2].dataset.value)")
    browser.run(f"{link}.click()")
    browser.wait_until("timeline.picked")
    said = browser.run("document.getElementById('timeline-found').textContent")
    assert said.startswith(f"{count} events on 4 ranks, ")
    picked = "document.getElementById('timeline-picked')"
    assert browser.run(f"{picked}.querySelector('b').textContent") == name
    browser.run(f"[...{picked}.querySelectorAll('a')].at(-1).click()")
    browser.wait_until("document.querySelector('tr.here')")
    assert browser.run("textOf(document.querySelector('tr.here td:last-of-type'))") == name
    assert browser.run("document.querySelector('tr.here').closest('details').open") is True
    assert browser.problems == []


def test_a_search_finds_events_of_all_ranks_and_steps_through_them(
    browser: Browser, page: str
) -> None:
    browser.open(page)
    browser.wait_for_timeline()
    said = browser.run(SEARCH.format(words="nccl allreduce"))
    assert said == "240 events on 4 ranks, 740 ms in all"
    browser.run("document.getElementById('timeline-search').focus()")
    places = []
    for _ in range(60):
        browser.key("Enter", 13)
        places.append(browser.run("[timeline.picked.start, timeline.picked.rank.rank]"))
    starts = browser.run("""timeline.data.ranks.flatMap((r) => [...r.lanes[1].start]
      .map((start) => [start, r.rank])).sort((a, b) => a[0] - b[0])""")
    assert places == starts[:60]
    browser.run("document.getElementById('timeline-before').click()")
    assert browser.run("timeline.picked.start") == places[58][0]
    assert "no such event" in browser.run(SEARCH.format(words="nothing of that name"))
    assert browser.problems == []


def test_the_host_has_rows_beside_the_gpu(browser: Browser, page: str) -> None:
    browser.open(page)
    browser.wait_for_timeline()
    titles = browser.run("timeline.rows.map((row) => row.title).filter(Boolean)")
    assert titles == [
        *("compute", "communication", "memory", "critical path"),
        *("CUDA calls", "calls 2", "host", "NVTX"),
    ]
    calls = browser.run("timeline.data.ranks.map((r) => r.lanes[3].start.length)")
    assert min(calls) > 3_000
    assert browser.run("Math.max(...timeline.data.ranks.map((r) => r.path[0].start.length))") > 500
    browser.run("document.getElementById('timeline-host').click()")
    titles = browser.run("timeline.rows.map((row) => row.title).filter(Boolean)")
    assert titles == ["compute", "communication", "memory", "NVTX"]
    assert browser.problems == []


def test_a_comparison_begins_a_step_of_both_runs_at_one_time(
    browser: Browser, tmp_path: Path
) -> None:
    for name, kernel_us in (("base", 200.0), ("new", 250.0)):
        (tmp_path / name).mkdir()
        Training(ranks=2, steps=8, kernel_us=kernel_us).save(tmp_path / name)
    words = ("compare", "--base", "base", "--new", "new", "--format", "html")
    invoke(*words, directory=tmp_path)
    for width in (390, 1280):
        browser.open((tmp_path / "comparison.html").as_uri(), width=width)
        browser.wait_for_timeline()
        assert browser.run("document.documentElement.scrollWidth") == width
    names = browser.run("timeline.data.ranks.map((rank) => rank.name)")
    assert names == ["base 0", "new 0", "base 1", "new 1"]
    first = "Math.min(...timeline.data.ranks.map((rank) => rank.stepStart[0]))"
    assert browser.run("timeline.t0") == browser.run(first)
    places = "timeline.data.ranks.map((r) => timeline.x(r.stepStart[5] - r.shift))"
    assert max(browser.run(places)) - min(browser.run(places)) > 50
    browser.run("""(() => { const steps = document.getElementById("timeline-step");
      steps.value = "5"; steps.dispatchEvent(new Event("change")); })()""")
    assert max(browser.run(places)) - min(browser.run(places)) < 1
    browser.run("document.querySelector('table[data-table=kernels_changed] a.go').click()")
    browser.wait_until("timeline.picked")
    count_text = "document.getElementById('timeline-found').textContent"
    assert browser.run(count_text).startswith("1,280 events on 4 ranks")
    browser.run("stepTo(timeline, true)")
    assert browser.run("timeline.picked.rank.name") == "new 1"
    assert browser.problems == []
