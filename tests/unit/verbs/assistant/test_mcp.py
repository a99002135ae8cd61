"""What the server for assistants answers; tests/live/test_assistant.py asks it as a client."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gpu_profile.analysis.tables.by_name import ANALYSES, OURS
from gpu_profile.command import Result
from gpu_profile.errors import ReportError, SettingsError, ToolError
from gpu_profile.verbs.assistant.answers import Answers, _tell_end, read_claims
from gpu_profile.verbs.assistant.mcp import make_server
from gpu_profile.verbs.assistant.pages import MOST_BYTES, format_page, format_table_page
from tests.unit.analysis.synthetic import Rank, Recording


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a report of a kernel."""
    rank = Rank(Recording(), 0)
    rank.kernel(50, "gemm")
    rank.recording.save(tmp_path / "rank0.sqlite")
    return tmp_path


def test_a_run_is_one_of_report_dir_and_no_path(tmp_path: Path, place: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    answers = Answers(report_dir=runs)
    for run in (str(place), "../..", "given", "s3://bucket/rank0.sqlite"):
        with pytest.raises(SettingsError, match="no run"):
            answers.diagnose(run)


def test_the_given_reports_are_the_latest_run_where_there_is_no_other(place: Path) -> None:
    answers = Answers(report_dir=place / "missing", given=(str(place),))
    assert "rows" in json.loads(answers.read_table("cuda_gpu_kern_sum"))


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("", "no table is called ''. list_tables lists them"),
        ("step_sum,step_trace", "Did you mean step_trace?"),
        ("a\0b", "no table is called"),
    ],
)
def test_a_table_that_is_none_is_one_line(table: str, told: str, place: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        Answers(report_dir=place, given=(str(place),)).read_table(table, "given")
    assert told in str(refused.value)


def test_a_null_byte_and_a_verb_that_is_killed_are_one_line(place: Path) -> None:
    answers = Answers(report_dir=place, given=(str(place),))
    with pytest.raises(SettingsError, match="null byte"):
        answers.read_table("step_sum", "given", filter="a\0b")
    told = _tell_end("stats", Result(returncode=-9))
    assert told.startswith("stats ended with exit code -9, and said nothing")


@pytest.mark.further
def test_ranks_without_an_event_are_told_apart_from_an_empty_time(place: Path) -> None:
    answers = Answers(report_dir=place, given=(str(place),))
    with pytest.raises(SettingsError, match=r"rank 9\. There are events of rank 0"):
        answers.list_events(0, 10**12, "given", ranks=[9])


@pytest.mark.further
def test_a_verb_that_fails_or_takes_too_long_is_one_line(place: Path) -> None:
    missing = Answers(report_dir=place, given=(str(place / "nothing.sqlite"),))
    with pytest.raises(ReportError, match=r"nothing\.sqlite"):
        missing.diagnose("given")
    slow = Answers(report_dir=place, given=(str(place),), most_seconds=0.001)
    with pytest.raises(ReportError, match=r"diagnose took more than 0\.001 s"):
        slow.diagnose("given")


def test_the_given_reports_are_a_side_of_a_comparison(place: Path) -> None:
    with pytest.raises(ReportError, match="are one run"):  # it was read
        Answers(report_dir=place, given=(str(place),)).compare_runs("given", "given")
    several = Answers(report_dir=place, given=(str(place), str(place)))
    with pytest.raises(SettingsError, match="'given' stands for 2 reports"):
        several.compare_runs("given", "given")


def test_the_server_names_the_package_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    with pytest.raises(ToolError, match=r"gpu-profile\[mcp\]"):
        make_server(Answers(report_dir=Path()))


def test_pages_hold_all_items_once_each_below_the_limit() -> None:
    items = [{"name": "é" * (number % 400), "ms": number / 7} for number in range(300)]
    read: list[Any] = []
    offset: int | None = 0
    while offset is not None:
        text = format_page({"unit": "ms"}, "items", items, offset)
        assert len(text.encode()) <= MOST_BYTES
        page = json.loads(text)
        read += page["items"]
        offset = page["next_offset"]
    assert [item["ms"] for item in read] == [round(number / 7, 3) for number in range(300)]
    assert json.loads(format_table_page([], "measured"))["rows"] == []


@pytest.mark.further
def test_a_page_before_the_first_and_a_rank_that_has_no_step_are_refused(tmp_path: Path) -> None:
    rank = Rank(Recording(), 0)
    for _ in range(8):
        start = rank.now
        rank.kernel(50, "gemm")
        rank.synchronize()
        rank.range("step", start)
    rank.recording.save(tmp_path / "rank0.sqlite")
    answers = Answers(report_dir=tmp_path, given=(str(tmp_path),))
    steps = json.loads(answers.list_steps("given"))
    assert len(steps["rows"]) >= 7
    assert steps["claims"].startswith("derived: where a step begins")
    with pytest.raises(SettingsError, match="of rank 7"):
        answers.list_steps("given", rank=7)
    with pytest.raises(SettingsError, match="offset -1 is below 0"):
        format_table_page([], "measured", -1)


def test_each_table_says_what_it_claims() -> None:
    claims = {name: read_claims(name) for name in (*ANALYSES, *OURS)}
    assert all(text == "measured" or text.startswith("derived: ") for text in claims.values())
    assert claims["cuda_gpu_kern_sum"] == "measured"
    assert claims["critical_path"].startswith("derived: ")


def test_long_facts_and_large_items_fit_and_lead_on() -> None:
    """Each of a thousand ranks has a line on what was not judged."""
    unjudged = [f"stragglers of rank {rank}" for rank in range(1000)]
    large = {"evidence": ["x" * 300] * 40}
    text = format_page({"unjudged": unjudged}, "findings", [large, {"kind": "idle"}])
    assert len(text) <= MOST_BYTES
    page = json.loads(text)
    assert page["unjudged"][0] == unjudged[0]
    assert page["unjudged"][-1].startswith("and ")
    assert page["findings"] == ["item 0 is larger than a page", {"kind": "idle"}]
    assert page["next_offset"] is None
