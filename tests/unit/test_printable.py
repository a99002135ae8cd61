"""Control characters of names never reach a terminal, a log, XML or a pull request."""

import io
import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gpu_profile.analysis.compare.compare import Comparison, SideTimes
from gpu_profile.analysis.compare.formats import write_comparison
from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.findings.finding import Finding
from gpu_profile.analysis.page.parts import data_table
from gpu_profile.errors import ReportError
from gpu_profile.formats.table_formats import to_json, to_text
from gpu_profile.printable import printable, printable_json, printable_lines
from gpu_profile.progress import Progress
from gpu_profile.table import Column, Table

HOSTILE = "k\x1b]0;owned\x07\x9b2J\r\n\u202e|`<script>[a](http://evil)@all``"


def test_what_is_printable_stays_and_the_rest_is_escaped() -> None:
    assert printable("void f<int, µ>(λ, 日本)") == "void f<int, µ>(λ, 日本)"
    assert printable("a\x1bb\nc\u202ed") == "a\\x1bb\\nc\\u202ed"
    assert printable_lines("a\n\tb\x07") == "a\n\tb\\x07"
    assert json.loads(printable_json('["\x7f\U000e0001"]')) == ["\x7f\U000e0001"]


def test_tables_lines_and_errors_are_printable() -> None:
    table = Table("t", (Column("Name"),), ((HOSTILE,),))
    assert all(line.isprintable() for line in to_text(table).splitlines())
    assert to_json([table]).replace("\n", "").isprintable()
    assert json.loads(to_json([table]))["t"][0]["Name"] == HOSTILE
    assert str(ReportError(HOSTILE, HOSTILE)).isprintable()
    stream = io.StringIO()
    Progress(stream).say(f"left out: {HOSTILE}")
    Progress(stream).show("running", HOSTILE)
    assert all(line.isprintable() for line in stream.getvalue().split("\n"))


def compared() -> Comparison:
    rows = ((HOSTILE, "appeared", 0, 1, 0, 5, 5, None),)
    names = ("Kernel", "State", "Base Count", "New Count", "Base", "New", "Change", "Relative")
    kernels = Table("kernels_changed", tuple(map(Column, names)), rows)
    side = SideTimes(9, (1.0,), 1.0, 1.0, 0.0)
    return Comparison(f"kernel:{HOSTILE}", side, side, None, 0.05, kernels)


@pytest.mark.parametrize("form", ["text", "json", "markdown", "junit"])
def test_a_comparison_is_printable(form: str) -> None:
    assert all(line.isprintable() for line in write_comparison(compared(), form).split("\n"))


def test_junit_is_xml_and_markdown_holds_names_as_code() -> None:
    suite = ElementTree.fromstring(write_comparison(compared(), "junit"))
    assert suite.find("testcase/skipped") is not None
    lines = write_comparison(compared(), "markdown").splitlines()
    (row,) = [line for line in lines if "appeared" in line]
    assert row.startswith("| ``` k\\x1b]0;owned")
    assert "\\|`<script>" in row
    assert row.split(" | appeared")[0].endswith("@all`` ```")
    assert lines[0].startswith("**``` kernel:k\\x1b")


def test_progress_leaves_plain_lines_as_they_are(tmp_path: Path) -> None:
    stream = io.StringIO()
    Progress(stream).say("note: 1 of 4 reports left out")
    assert stream.getvalue() == "note: 1 of 4 reports left out\n"


def make_findings(count: int) -> Diagnosis:
    findings = tuple(Finding("idle", (rank,), "host", (), "") for rank in range(count))
    return Diagnosis(findings, ())


@pytest.mark.parametrize(
    ("program", "name"), [("/usr/bin/gpu-profile", "gpu-profile"), ("invoke", "invoke")]
)
def test_hints_of_findings_and_pages_name_the_command_that_was_typed(
    program: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [program, "diagnose"])
    *_, more = make_findings(4).to_blocks(most=3)
    assert more == f"1 more: {name} diagnose"
    table = Table("step_sum", (Column("Rank"),), ((0,), (1,)))
    assert f"{name} stats --table step_sum prints all" in data_table(table, "Steps", most=1)
