"""A credential in the name of a range is shown by no form of the findings, page or timeline."""

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gpu_profile.verbs.assistant import pages
from tests.invoked import invoke
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank

SECRETS = ("Zq7hunter2x", "Zq8secretpw", "Zq9abcdefg")
NAME = (
    "data of train --password Zq7hunter2x API_TOKEN=Zq9abcdefg https://bob:Zq8secretpw@host.org/x"
)


def sleep_in_range(rank: Rank) -> None:
    rank.work(12_000)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A straggler that sleeps in a range whose name is a command line with credentials."""
    report = Training(only={3: sleep_in_range}).save(tmp_path_factory.mktemp("planted"))
    with closing(sqlite3.connect(report)) as database:
        database.execute("UPDATE NVTX_EVENTS SET text = ? WHERE text = 'data'", (NAME,))
        database.execute("UPDATE StringIds SET value = ? WHERE value = 'data'", (NAME,))
        database.commit()
    return report


@pytest.mark.parametrize("form", ["text", "json", "csv"])
def test_findings_hide_it(report: Path, form: str) -> None:
    told = invoke("diagnose", f"--report={report}", f"--format={form}", directory=report.parent)
    assert told.returncode == 0, told.stderr
    assert "of it in range data of train --password ***" in told.stdout
    assert not [secret for secret in SECRETS if secret in told.stdout]


def test_an_assistant_does_not_get_it() -> None:
    rows = [{"range": NAME}, {"range": f"{'x' * 280} {NAME}"}]
    page = pages.format_table_page(rows, "measured")
    assert "train --password ***" in page
    assert not [secret for secret in SECRETS if secret[:4] in page]


def test_page_and_timeline_hide_it(report: Path) -> None:
    folder = report.parent
    for words in (
        ("html", f"--output={folder}/page.html"),
        ("timeline", f"--output={folder}/x.gz"),
    ):
        done = invoke(*words, f"--report={report}", directory=folder)
        assert done.returncode == 0, done.stderr
    page = (folder / "page.html").read_text()
    assert "of it in range data of train --password" in page
    trace = gzip.decompress((folder / "x.gz").read_bytes()).decode(errors="replace")
    assert "data of train --password" in trace
    assert not [secret for secret in SECRETS if secret in page or secret in trace]
