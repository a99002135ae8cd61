"""A launcher is one file and one row: a toy one, added to a copy of the project, runs jobs."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gpu_profile.command import Result
from gpu_profile.declared.launchers import LAUNCHERS
from tests.further import keep_first
from tests.nsys_script import write_nsys
from tests.project_copy import invoke_copy, run_tests_of_copy

DRY = ("profile", "--on=toy", "--dry-run", "--gpus=0")


@pytest.fixture(scope="module")
def project(toy_project: Path, short_run: Path) -> Path:
    """The copy with the toys, and beside it a fake nsys whose report is a recorded one."""
    folder = toy_project.parent
    write_nsys(folder)
    shutil.copy(short_run / "rank0.sqlite", folder / "report.sqlite")
    return toy_project


def run(project: Path, *words: str) -> Result:
    runs = project.parent / "runs"
    runs.mkdir(exist_ok=True)
    nsys = project.parent / "nsys"
    return invoke_copy(project, *words, REPORT_DIR=str(runs), NSYS=str(nsys))


PROFILE = ("profile", "--on=toy", "--gpus=0", "--trace=nvtx")


def read_record(project: Path, name: str) -> dict[str, Any]:
    (path,) = (project.parent / "runs").glob(f"{name}-*/run.json")
    record: dict[str, Any] = json.loads(path.read_text())
    return {**record, "directory": path.parent}


def test_a_job_runs_and_its_report_comes_home(project: Path) -> None:
    done = run(project, *PROFILE, "--name=play", "--", "sh", "-c", "echo it plays")
    assert done.returncode == 0, done.stderr
    record = read_record(project, "play")
    assert (record["launcher"], record["phase"], record["exit_code"]) == ("toy", "done", 0)
    assert [report["rank"] for report in record["reports"]] == [0]
    assert (record["directory"] / "output.log").read_text() == "it plays\n"
    assert (record["directory"] / "page.html").exists()
    assert list((project.parent / "runs/toy").glob("play*")) == []
    assert "succeeded" in run(project, "status", f"--job={record['handle']}").stdout


@pytest.mark.further
def test_a_job_that_fails_has_its_exit_code(project: Path) -> None:
    done = run(project, *PROFILE, "--name=fails", "--", "sh", "-c", "exit 3")
    assert done.returncode == 5
    assert "exit code 3" in done.stderr
    record = read_record(project, "fails")
    assert record["handle"].startswith("toy:///")
    assert (record["phase"], record["exit_code"]) == ("failed", 3)


def test_its_flag_and_its_setting_are_read(project: Path) -> None:
    assert "sh -c" in run(project, *DRY).stdout
    assert "dash -c" in run(project, *DRY, "--shell=dash").stdout
    assert "bash -c" in run(project, *DRY, "--set", "TOY_SHELL=bash").stdout
    shown = json.loads(run(project, "config", "--format=json").stdout)
    assert shown["TOY_SHELL"] == {"value": "sh", "source": "default"}


def test_it_is_in_help_and_in_env(project: Path) -> None:
    text = run(project, "--help", "profile").stdout
    assert "toy: program that runs the job" in text
    assert f"{', '.join(LAUNCHERS)}, toy" in " ".join(text.split())
    template = run(project, "config", "--format=env").stdout
    assert "# Shell of the toy's jobs\nTOY_SHELL=sh\n" in template


def test_doctor_asks_it(project: Path) -> None:
    done = run(project, "doctor", "--on=toy", "--format=json")
    assert done.returncode == 0, done.stderr
    (check,) = json.loads(done.stdout)["doctor"]
    assert (check["What"], check["State"], check["Found"]) == ("shell", "ok", "it runs")


REFUSED = (
    ((*DRY, "--host=u@h"), "--host is for ssh; this job is for toy. Use --on ssh"),
    (("profile", "--on=host", "--shell=sh"), "--shell is for toy; this job is for host"),
    ((*DRY, "--shell=a b"), "TOY_SHELL is 'a b'. Use a name"),
    ((*DRY, "--nodes=2"), "jobs of toy are one machine's. Use --on "),
    ((*DRY, "--image=x"), "--image: this job of toy runs in no container"),
    (("counters", "--on=toy", "--allow"), "GPU counters are allowed on a host. Use --on host"),
    (("test", "--on=toy"), "--on toy runs no image checks"),
    (("status", "--job=toys://x"), f"with a launcher of {', '.join(LAUNCHERS)}, toy"),
)


@pytest.mark.parametrize(("words", "line"), keep_first(3, REFUSED))
def test_what_it_cannot_do_is_refused_in_one_line(
    project: Path, words: tuple[str, ...], line: str
) -> None:
    refused = run(project, *words)
    assert refused.returncode == 2, refused.last_line
    assert line in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.further
def test_tests_of_the_copy_hold_with_it(project: Path) -> None:
    """Types of names, and that no verb knows a launcher. A floor is a folder: it needs no line."""
    held = run_tests_of_copy(
        project,
        *("tests/unit/verbs/test_no_launcher_by_name.py", "tests/unit/test_derivable.py"),
        *("tests/unit/declared/test_launchers.py", "-k", "launcher or setting"),
    )
    assert held.returncode == 0, held.stdout[-3000:]
