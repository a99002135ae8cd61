"""A report that nsys really made, of a job full of secrets, scrubbed."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gpu_profile.analysis.scrub.scrub import scrub_reports

pytestmark = pytest.mark.nsys

TOKEN = "hf_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z"
SECRETS = {
    "HF_TOKEN": TOKEN,
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+" + "bPxRfiCYzEXAMPLEz",
    "DATABASE_PASSWORD": "correct horse; battery",
    "USER": "carolyn",
}
JOB = "import sys, time\nprint('printed by', 'the job')\ntime.sleep(0.2)\n"


def test_nothing_of_the_environment_or_the_output_is_left(nsys: str, tmp_path: Path) -> None:
    job = tmp_path / "private" / "job.py"
    job.parent.mkdir()
    job.write_text(JOB)
    words = (nsys, "profile", "--trace=osrt", "--sample=none", "--export=sqlite")
    subprocess.run(
        (*words, "--output=r", sys.executable, str(job), "--token", "hunter2hunter2"),
        cwd=tmp_path,
        env={**os.environ, **SECRETS, "RANK": "3"},
        check=True,
        capture_output=True,
    )
    report = tmp_path / "r.sqlite"
    if not report.exists():
        pytest.skip("nsys: this one only records; it does not import")
    assert TOKEN.encode() in report.read_bytes()
    scrub_reports([report], tmp_path / "out")
    raw = (tmp_path / "out" / "r.sqlite").read_bytes()
    gone = (*SECRETS.values(), "hunter2hunter2", "printed by the job", str(tmp_path), "battery")
    assert [text for text in gone if text.encode() in raw] == []
    with closing(sqlite3.connect(tmp_path / "out" / "r.sqlite")) as copy:
        assert copy.execute("SELECT count(*) FROM OSRT_API").fetchone()[0] > 0
        kept = copy.execute("SELECT value FROM META_DATA_CAPTURE WHERE value LIKE '%RANK=%'")
        assert kept.fetchall() == [("RANK=3",)]
