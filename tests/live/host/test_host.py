"""profile --on host with a real nsys: all ranks, one dying, Ctrl-C, refusals."""

import os
import re
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.live.hosts import BEAT, Invoked, assert_costed, await_true, error_line
from tests.live.planted import (
    PLANTED,
    PROGRAM,
    SECRETS,
    assert_hidden,
    found_in,
    found_in_arguments,
)

pytestmark = pytest.mark.nsys


@pytest.fixture
def invoked(tmp_path: Path, nsys: str) -> Invoked:
    return Invoked(tmp_path, {**os.environ, "NSYS": nsys})


def test_each_rank_leaves_a_report_and_the_job_its_exit_code(invoked: Invoked) -> None:
    done = invoked.run(
        *("profile", "--on", "host", "--ddp", "--processes", "2", "--gpus", "0"),
        *("--", "python3", "-c", BEAT + "time.sleep(0.5)"),
    )
    assert done.returncode == 0, done.stderr
    record = invoked.record()
    assert [report["rank"] for report in record["reports"]] == [0, 1]
    assert all(report["events"]["osrt"] > 0 for report in record["reports"])
    output = (invoked.latest() / "output.log").read_text()
    assert "up 0" in output
    assert "[1] up 1" in output


PRINTS_MUCH = r"""
import random
for _ in range(200):
    print("\n".join(random.randbytes(49).hex() for _ in range(1000)))
print("the last line", flush=True)
"""
STREAMS = "SELECT value FROM ProcessStreams JOIN StringIds ON StringIds.id = contentId"


def test_much_output_is_in_the_log_and_not_in_the_report(invoked: Invoked) -> None:
    """nsys would copy it: a report of 20 MB."""
    done = invoked.run(
        *("profile", "--on", "host", "--ddp", "--processes", "2", "--gpus", "0"),
        *("--", "python3", "-c", PRINTS_MUCH),
    )
    assert done.returncode == 0, done.stderr
    lines = (invoked.latest() / "output.log").read_text().splitlines()
    assert sum(len(line) == 98 for line in lines) == 200_000
    assert sum(line.startswith("[1] ") and len(line) == 102 for line in lines) == 200_000
    assert {"the last line", "[1] the last line"} < set(lines)
    for report in invoked.latest().glob("*.nsys-rep"):
        assert report.stat().st_size < 5_000_000
    for exported in invoked.latest().glob("*.sqlite"):
        with closing(sqlite3.connect(exported)) as database:
            assert {text for (text,) in database.execute(STREAMS)} == {""}


def test_one_rank_dying_ends_the_others_and_all_reports_are_kept(invoked: Invoked) -> None:
    dies = BEAT + "time.sleep(2)\nsys.exit(7) if os.environ['RANK'] == '1' else time.sleep(600)"
    started = time.monotonic()
    done = invoked.run(
        *("profile", "--on", "host", "--ddp", "--processes", "2", "--gpus", "0"),
        *("--", "python3", "-c", dies),
    )
    assert time.monotonic() - started < 500
    assert done.returncode == 5
    assert "rank 1 ended with exit code 7" in error_line(done)
    assert len(list(invoked.latest().glob("*.nsys-rep"))) == 2


def test_a_failed_job_says_which_rank_left_no_report(invoked: Invoked) -> None:
    loses = BEAT + (
        "if os.environ['RANK'] == '1':\n"
        "    launcher = os.getppid()\n"
        "    nsys = int(open(f'/proc/{launcher}/stat').read().split()[3])\n"
        "    os.kill(nsys, 9)\n"
        "    os.kill(launcher, 9)\n"
        "time.sleep(2)"
    )
    done = invoked.run(
        *("profile", "--on", "host", "--ddp", "--processes", "2", "--gpus", "0"),
        *("--", "python3", "-c", loses),
    )
    assert done.returncode == 5, done.stderr
    # nsys' agent outlives nsys now and then, and leaves a recording, whole or not.
    line = error_line(done)
    lost = "no report of rank 1 in " in line or "rank 1 left a recording" in line
    reports = [report["rank"] for report in invoked.record()["reports"]]
    assert reports == ([0] if lost else [0, 1]), line


def test_ctrl_c_finalises_fetches_and_exits_130(invoked: Invoked) -> None:
    child = invoked.start(
        *("profile", "--on", "host", "--gpus", "0"),
        *("--", "python3", "-c", BEAT + "time.sleep(600)"),
    )
    await_true(lambda: list(invoked.runs.glob("*/job.log")))
    await_true(lambda: "up" in (invoked.latest() / "job.log").read_text())
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=90)
    assert child.returncode == 130, said
    assert list(invoked.latest().glob("*.nsys-rep"))


def test_a_job_is_found_again_by_its_handle(invoked: Invoked) -> None:
    words = ("--on", "host", "--gpus", "0", "--", "python3", "-c", BEAT + "time.sleep(600)")
    handle = invoked.detached(*words)
    assert handle.startswith("host:///")
    assert "running" in invoked.run("status", "--job", handle).stdout
    job_log = Path(handle.removeprefix("host://")) / "job.log"
    await_true(lambda: "up" in job_log.read_text())
    assert "up" in invoked.run("logs", "--job", handle).stdout
    for _ in range(2):
        assert invoked.run("stop", "--job", handle).returncode == 0
    assert "cancelled" in invoked.run("status", "--job", handle).stdout
    fetched = invoked.run("fetch", "--job", handle)
    assert (fetched.returncode, "stopped by you" in fetched.stderr) == (0, True), fetched.stderr
    assert [report["rank"] for report in invoked.record()["reports"]] == [0]
    said = invoked.run("status", "--job", handle).stdout
    assert said.startswith("stopped by you")
    assert "has 1 report" in said


def test_two_runs_at_once_keep_apart(invoked: Invoked) -> None:
    words = ("profile", "--on", "host", "--gpus", "0", "--", "python3", "-c", "print(1)")
    children = [invoked.start(*words) for _ in range(2)]
    for child in children:
        _, said = child.communicate(timeout=120)
        assert child.returncode == 0, said
    assert len(list(invoked.runs.glob("*/rank0.*.nsys-rep"))) == 2


def test_what_the_profile_cost(invoked: Invoked) -> None:
    assert_costed(invoked, "--on", "host", "--ddp", "--processes", "2", "--gpus", "0")


def test_a_full_disk_is_named(invoked: Invoked, small_disk: Path) -> None:
    fill = BEAT + f"open({str(small_disk / 'fill')!r}, 'wb').write(bytes(10**7))"
    invoked = Invoked(small_disk, invoked.environ)
    done = invoked.run("profile", "--on", "host", "--gpus", "0", "--", "python3", "-c", fill)
    assert done.returncode in {3, 5, 6}
    assert re.search(r"full|o space", error_line(done))


@pytest.mark.parametrize(
    ("settings", "words", "code", "said"),
    [
        ({"NSYS": "/nowhere/nsys"}, ("--", "true"), 3, "no nsys on this machine"),
        ({}, ("--", "no-such-program"), 5, "no program 'no-such-program'"),
        ({}, ("--gpus", "4", "--", "true"), 3, "4 GPUs asked for"),
    ],
)
def test_refusals(
    invoked: Invoked, settings: dict[str, str], words: tuple[str, ...], code: int, said: str
) -> None:
    invoked = Invoked(invoked.runs, {**invoked.environ, **settings})
    done = invoked.run("profile", "--on", "host", *words)
    assert done.returncode == code, done.stderr
    assert said in error_line(done)


def test_secrets_reach_the_program_and_nothing_else(invoked: Invoked) -> None:
    """Those of the shell and of --env; while the job runs, after it, on the page, in `reports`."""
    invoked.environ = {**invoked.environ, **PLANTED}
    extra = tuple(f"--env={name}" for name in SECRETS)
    words = ("profile", "--on", "host", "--gpus", "0", *extra, "--", "python3", "-c", PROGRAM, "5")
    child = invoked.start(*words)
    await_true(lambda: any("got all" in p.read_text() for p in invoked.runs.glob("*/output.log")))
    assert found_in(invoked.runs) == []
    assert found_in_arguments() == []
    _, said = child.communicate(timeout=180)
    assert child.returncode == 0, said
    assert_hidden(invoked.latest())
    assert_hidden(invoked.latest(), "job.log")
    assert invoked.run("html").returncode == 0
    assert found_in(invoked.latest()) == []
    shown = said + invoked.run("reports").stdout
    assert not [text for text in SECRETS.values() if text in shown]
