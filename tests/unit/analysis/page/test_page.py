"""The page's structure and numbers, without a browser: what must be there, what must not."""

import base64
import gzip
import hashlib
import json
import re
import shutil
import sqlite3
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.findings.finding import Finding
from gpu_profile.analysis.multi_report.work import ReportSource
from gpu_profile.analysis.page import write_page
from gpu_profile.analysis.page.charts import Bar, BarPart, draw_stacked
from gpu_profile.analysis.page.events import Budget, draw_pictures
from gpu_profile.analysis.page.pack import Packer
from gpu_profile.analysis.page.parts import format_duration, format_size
from gpu_profile.analysis.page.sections.tables import STATES, render_findings
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.errors import ReportError
from gpu_profile.runs.reports.open_reports import open_reports

DATA = Path(__file__).parents[3] / "data" / "h200x4-ddp"
TRAINER = DATA.parent / "annotated" / "trainer"
ALL = DATA / "all-ranks-one-report.sqlite.gz"
VOID = {"meta", "link", "input"}
SECRET = "hf_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z"


class Checked(HTMLParser):
    """Fails on elements that do not nest; collects attributes and visible text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.labels: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [str(given["id"])] if "id" in given else []
        self.links += [str(given[key]) for key in ("href", "src") if key in given]
        self.labels += [str(given["aria-label"])] if "aria-label" in given else []
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """SVG's own closing: nothing opens."""

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] not in ("script", "style"):
            self.words.append(data)


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> str:
    output = tmp_path_factory.mktemp("page") / "run.html"
    write_page([ReportSource(str(ALL))], output, known={"Run": "train-1", "Nothing": ""})
    return output.read_text(encoding="utf-8")


def test_a_size_has_a_fitting_unit() -> None:
    sizes = {8: "8 B", 4096: "4.10 kB", 25e6: "25.0 MB", 1.5e9: "1.50 GB"}
    assert {count: format_size(count) for count in sizes} == sizes


@pytest.mark.recorded
def test_a_page_without_a_bandwidth_says_none_of_it(tmp_path: Path) -> None:
    reports = [ReportSource(str(path)) for path in sorted(TRAINER.glob("*.sqlite.gz"))]
    read = open_reports(reports, notify=print)
    write_page(read.sources, tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Bus bandwidth by message size" in html
    assert "None GB/s" not in html
    assert "AllGather_RING_LL, 8 B<" in html
    assert "1.61 MB/s, 4 times" in html


def test_it_nests_and_needs_nothing_from_elsewhere(html: str) -> None:
    page = Checked(html)
    assert len(page.ids) == len(set(page.ids))
    assert all(link.startswith(("#", "data:")) for link in page.links)
    places = [link for link in page.links if link.startswith("#at&")]
    assert len(places) == 3
    assert all(re.fullmatch(r"#at&rank=\d&from=[\d.]+&to=[\d.]+", place) for place in places)
    rest = {link[1:] for link in page.links if link.startswith("#")} - {at[1:] for at in places}
    assert rest <= set(page.ids)
    assert not re.search(r"https?://", html)


def test_each_rank_has_a_bar_that_sums_to_all_of_its_time(html: str) -> None:
    part = html[html.index('id="breakdown"') : html.index('id="steps"')]
    bars = part.split('<div class="bar">')[1:]
    assert len(bars) == 4
    for bar in bars:
        widths = [float(width) for width in re.findall(r"width:([\d.]+)%", bar)]
        assert sum(widths) == pytest.approx(100, abs=0.01)
    said = [label for label in Checked(html).labels if label.startswith("rank 0: compute")]
    assert re.match(r"rank 0: compute 114 ms \([\d.]+ %\), wait for another rank", said[0])


def test_what_the_recording_says_is_on_the_page(html: str) -> None:
    words = " ".join(Checked(html).words)
    for text in (
        "Host-bound",
        "Straggler",
        "15.4 ms",
        "740 ms, 55.9 %, 240 times",
        "4 x NVIDIA H200",
    ):
        assert text in words
    for text in ("train-1", "2025.3.2.0", "580.159.04", "25,520 kernels", "range step"):
        assert text in words
    assert "Nothing" not in words


def test_the_plan_is_on_the_page_or_why_there_is_none(html: str) -> None:
    words = Checked(html).words
    (head,) = [word for word in words if word.startswith("What to do first, by a replay that is")]
    place = words.index(head)
    assert re.fullmatch(r"now: .+, 10\.\d\d -> \d+\.\d\d ms a step", words[place + 1])
    finding = Finding("idle", (0,), "pause", ("longest gap 2 ms",), "", at_most_ms=1.0)
    section = render_findings(Diagnosis((finding,), (), plan="1 < 2"), [])
    assert "No plan: 1 < 2." in Checked(section).words


def test_same_input_same_bytes(short_run: Path, tmp_path: Path) -> None:
    for name in "ab":
        write_page([ReportSource(f"{short_run}/rank0.sqlite")], tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_timeline_has_every_operation_of_a_short_run(html: str) -> None:
    match = re.search(r'id="timeline-facts">(.*?)</script>', html)
    assert match
    facts = json.loads(match[1])
    assert [rank["events"]["gap"][1] for rank in facts["ranks"]] == [7941] * 4
    assert [rank["exact"][2] for rank in facts["ranks"]] == [1] * 4
    assert "31,764 of 31,764 GPU operations" in html


def test_a_long_run_keeps_whole_steps_and_says_so() -> None:
    with Database.open(ALL) as database:
        (first, *_) = draw_pictures(database, Scope(), Budget(events=4 * 2000, bins=4 * 300))
    assert first.total_events == 7941
    assert 1000 < len(first.events.start) <= 2000
    assert first.exact_start in first.steps_start
    assert first.busy.shape[1] <= 301
    assert np.all(first.events.end <= first.exact_end)


def test_secrets_paths_and_markup_in_names_do_not_reach_the_page(
    short_run: Path, tmp_path: Path
) -> None:
    report = Path(shutil.copy(short_run / "rank0.sqlite", tmp_path))
    with closing(sqlite3.connect(report)) as plant:
        evil = f"</script><script>alert(1)</script> {SECRET} /home/carolyn/x.py"
        plant.execute("UPDATE NVTX_EVENTS SET text = ? WHERE text = 'step'", (evil,))
        plant.execute(
            "UPDATE TARGET_INFO_SYSTEM_ENV SET value = 'USER=carolyn' WHERE name LIKE 'D%'"
        )
        plant.commit()
    write_page(
        [ReportSource(str(report))], tmp_path / "out.html", known={"Command": f"x --token {SECRET}"}
    )
    html = (tmp_path / "out.html").read_text(encoding="utf-8")
    for text in (SECRET, "carolyn", "<script>alert"):
        assert text not in html
    Checked(html)


def test_an_unreadable_report_is_named_on_the_page(short_run: Path, tmp_path: Path) -> None:
    bad = tmp_path / "rank3.sqlite"
    bad.write_bytes(b"SQLite")
    sources = [ReportSource(f"{short_run}/rank0.sqlite"), ReportSource(str(bad))]
    table = write_page(sources, tmp_path / "out.html")
    assert table.column("Refused Reports") == (1,)
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "rank3.sqlite is not a SQLite file" in page
    with pytest.raises(ReportError, match="rank3"):
        write_page(sources[1:], tmp_path / "none.html")
    assert not (tmp_path / "none.html").exists()


def test_a_report_without_gpu_work_has_a_page_that_says_so(tmp_path: Path) -> None:
    report = tmp_path / "rank0.sqlite"
    report.write_bytes(gzip.decompress((DATA / "rank0.sqlite.gz").read_bytes()))
    with closing(sqlite3.connect(report)) as plant:
        for kind in ("KERNEL", "MEMCPY", "MEMSET"):
            plant.execute(f"DROP TABLE CUPTI_ACTIVITY_KIND_{kind}")
    write_page([ReportSource(str(report))], tmp_path / "out.html")
    words = " ".join(Checked((tmp_path / "out.html").read_text(encoding="utf-8")).words)
    assert "No GPU work in these reports: NVTX ranges only." in words
    assert "1 rank, " in words
    assert "nvtx_sum (" in words
    assert "By the host's clock, as NVTX ranges mark them." in words
    for absent in ("Where the time went", "Top kernels", "Collectives", "cuda_gpu_kern_sum"):
        assert absent not in words
    assert "Nothing found" not in words


def test_amounts_have_units() -> None:
    assert [format_duration(ns) for ns in (0, 900, 15_300_000, 307.9e6, 2.5e9)] == [
        *("0.00 ns", "900 ns", "15.3 ms", "308 ms", "2.50 s")
    ]


def test_a_bar_has_its_numbers_in_words() -> None:
    bar = Bar(
        "rank 0", (BarPart("wait", "Waiting", "wait", 3e6), BarPart("copy", "Copy", "c", 1e6))
    )
    assert 'aria-label="rank 0: waiting 3.00 ms (75.0 %), copy 1.00 ms (25.0 %)"' in draw_stacked(
        [bar]
    )


def test_a_word_in_a_bar_is_how_the_legend_begins() -> None:
    for _, label, short in STATES.values():
        assert label.lower().startswith(short)


def test_columns_are_packed_as_planes() -> None:
    packer = Packer()
    assert packer.add(np.array([1, 256, 65536])) == [0, 3, 3]
    assert packer.add(np.empty(0, np.int64)) == [9, 0, 1]
    assert len(packer.start_packing().result()) > 0


def test_the_policy_lets_only_the_pages_own_scripts_run(html: str) -> None:
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', html)
    assert policy
    assert html.index(policy[0]) < html.index("<title>")
    directives = dict(part.strip().split(" ", 1) for part in policy[1].split(";"))
    assert directives["default-src"] == "'none'"
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert directives["script-src"].split() == [f"'sha256-{digest}'" for digest in digests]
