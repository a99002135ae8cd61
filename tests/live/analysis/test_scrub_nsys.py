"""A report that nsys really made, of a job full of secrets, scrubbed and searched bytewise."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.invoked import invoke

pytestmark = pytest.mark.nsys

TOKEN = "hf_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z"
ENVIRONMENT = {
    "HF_TOKEN": TOKEN,
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+" + "bPxRfiCYzEXAMPLEz",
    "DATABASE_PASSWORD": "correct horse; battery",
    "USER": "carolyn",
}
ARGUMENT, CHILDS_ARGUMENT, USERS_PASSWORD = "hunter2hunter2", "swordfish5swordfish", "opensesame77"
NEIGHBOURS_ARGUMENT, PRINTED = "neighbour8secret8", "printed by the job"
JOB = """
import subprocess, sys, time
print("printed by", "the job", flush=True)
subprocess.run([sys.executable, "-c", "import time; time.sleep(0.2)", "--password", "{child}"])
subprocess.run(["sh", "-c", "sleep 0.2; : curl -u carolyn:{user} http://store.internal.example/x"])
time.sleep(0.2)
"""


def find_planted(folder: Path, texts: tuple[str, ...]) -> list[str]:
    """Return which text stands in which file, as bytes of Latin-1 or as UTF-16 of both orders."""
    places = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        for text in texts:
            for encoding in ("latin-1", "utf-16-le", "utf-16-be"):
                if text.encode(encoding) in content:
                    places.append(f"{text} in {path.name} as {encoding}")
    return places


def record_job(nsys: str, folder: Path) -> Path:
    """Profile the job beside another process whose arguments hold a secret, too."""
    job = folder / "private" / "job.py"
    job.parent.mkdir()
    job.write_text(JOB.format(child=CHILDS_ARGUMENT, user=USERS_PASSWORD))
    neighbour = subprocess.Popen(("sh", "-c", "sleep 600", "--token", NEIGHBOURS_ARGUMENT))
    try:
        subprocess.run(
            (
                *(nsys, "profile", "--trace=osrt", "--sample=none", "--output=r"),
                *(sys.executable, str(job), "--token", ARGUMENT),
            ),
            cwd=folder,
            env={**os.environ, **ENVIRONMENT, "RANK": "3"},
            check=True,
            capture_output=True,
        )
    finally:
        neighbour.kill()
        neighbour.wait()
    return folder / "r.nsys-rep"


def test_nothing_that_was_planted_is_left(nsys: str, tmp_path: Path) -> None:
    report = record_job(nsys, tmp_path)
    if not report.exists():
        pytest.skip("nsys: this one only records; it does not import")
    out = tmp_path / "out"
    done = invoke(
        "scrub", f"--report={report}", f"--output={out}", directory=tmp_path, NSYS=str(nsys)
    )
    assert done.returncode == 0, done.stderr
    secrets = (*ENVIRONMENT.values(), ARGUMENT, CHILDS_ARGUMENT, USERS_PASSWORD)
    texts = (*secrets, NEIGHBOURS_ARGUMENT, PRINTED, str(tmp_path), "battery", "store.internal")
    raw = tmp_path / "raw"
    raw.mkdir()
    words = (nsys, "export", "--type=sqlite", f"--output={raw / 'r.sqlite'}", str(report))
    subprocess.run(words, check=True, capture_output=True)
    recorded = {line.partition(" in ")[0] for line in find_planted(raw, texts)}
    assert recorded >= {*ENVIRONMENT.values(), ARGUMENT, PRINTED, str(tmp_path)}
    assert find_planted(out, texts) == []
    with closing(sqlite3.connect(out / "r.sqlite")) as copy:
        assert copy.execute("SELECT count(*) FROM OSRT_API").fetchone()[0] > 0
        kept = copy.execute("SELECT value FROM META_DATA_CAPTURE WHERE value LIKE '%RANK=%'")
        assert kept.fetchall() == [("RANK=3",)]
