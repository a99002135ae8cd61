"""A launcher is one file and one row: a toy one, added to a copy of the project, runs jobs."""

import gzip
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from gpu_profile.command import Result
from gpu_profile.declared.launchers import LAUNCHERS
from tests.project_copy import ROOT, copy_project, invoke_copy, run_tests_of_copy

REPORT = ROOT / "tests/data/h200x4-ddp/rank0.sqlite.gz"
HELP = ROOT / "tests/data/nsys-help/2023.4.txt"
NSYS = f"""#!{sys.executable}
import os, shutil, subprocess, sys
if "--version" in sys.argv:
    sys.exit(print("NVIDIA Nsight Systems version 2025.1.1.1"))
if "--help" in sys.argv:
    sys.exit(print(open({str(HELP)!r}).read()))
output = next(word for word in sys.argv if word.startswith("--output="))[9:]
if sys.argv[1] == "export":
    sys.exit(shutil.copy(os.path.join(os.path.dirname(__file__), "report.sqlite"), output) and 0)
code = subprocess.call(sys.argv[sys.argv.index("--") + 1 :])
open(output + ".nsys-rep", "x").write("report")
sys.exit(code)
"""
TOY_LAUNCHER = '''\
"""Launcher `toy`: a job below a shell of this machine, run to its end."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gpu_profile.declared.check import Check
from gpu_profile.command import Command, Steps, make_command
from gpu_profile.errors import JobError
from gpu_profile.job import Job, NsysPlan
from gpu_profile.launcher import (
    ImageFrom,
    JobState,
    JobStatus,
    LauncherDefaults,
    ask_command,
    make_no_identity,
)
from gpu_profile.nsys.export import export_command
from gpu_profile.settings.settings import Settings

_RUN = 'd=$1; shift; mkdir -p "$d"; "$@" >"$d/output.log" 2>&1; echo $? >"$d/ended"'


@dataclass(frozen=True, kw_only=True)
class ToyLauncher(LauncherDefaults):
    """Runs a job below `sh -c`. Its id is the job's directory."""

    name: ClassVar[str] = "toy"
    images: ClassVar[ImageFrom] = ImageFrom.NOWHERE
    possible_images: ClassVar[frozenset[ImageFrom]] = frozenset({ImageFrom.NOWHERE})
    one_node: ClassVar[bool] = True
    shell: str
    nsys: str
    folder: Path

    @classmethod
    def from_settings(cls, settings: Settings) -> "ToyLauncher":
        shell = str(settings.launcher_values["TOY_SHELL"])
        return cls(shell=shell, nsys=settings.nsys, folder=settings.report_dir.absolute() / "toy")

    def _run(self, script: str, *words: str) -> Command:
        return make_command(self.shell, "-c", script, self.shell, *words)

    def doctor(self) -> Steps[tuple[Check, ...]]:
        result = yield self._run("echo it runs")
        return (Check(name="shell", ok=result.returncode == 0, found=result.stdout.strip()),)

    def gpus(self) -> Steps[int | None]:
        yield from ()
        return 0

    def identity(self) -> Steps[str]:
        return make_no_identity()

    def probe(self, job: Job) -> Steps[str]:
        return ask_command(make_command(self.nsys, "profile", "--help"))

    def submit(self, job: Job, plan: NsysPlan) -> Steps[str]:
        place = f"{self.folder}/{job.name}"
        words = (self.nsys, "profile", *plan.options, f"--output={place}/rank0.toy", "--")
        yield self._run(_RUN, place, *words, *job.command)
        return place

    def status(self, job_id: str) -> Steps[JobStatus]:
        ended = yield self._run('cat "$1/ended"', job_id)
        if ended.returncode:
            raise JobError(f"there is no job toy://{job_id}", "`invoke reports` lists runs")
        code = int(ended.stdout)
        state = JobState.FAILED if code else JobState.SUCCEEDED
        return JobStatus(state=state, exit_code=code)

    def logs(self, job_id: str, *, follow: bool) -> Command:
        return self._run('cat "$1/output.log"', job_id)

    def stop(self, job_id: str) -> Steps[None]:
        yield from self.status(job_id)

    def fetch(self, job_id: str, to: Path) -> Steps[None]:
        yield self._run('cp "$1"/rank* "$2"', job_id, str(to))

    def export(self, job_id: str, report: Path, output: Path) -> Command | None:
        return export_command((self.nsys,), report, output)

    def cleanup(self, job_id: str) -> Steps[None]:
        yield self._run('rm -r "$1"', job_id)
'''
TOY_ROW = """\
    LauncherRow(
        name="toy",
        path="toy.ToyLauncher",
        flags=(_make_flag("shell", "program that runs the job", "TOY_SHELL"),),
        keys=(
            Key(name="TOY_SHELL", default="sh", doc="Shell of the toy's jobs", kind="name"),
        ),
    ),
)

LAUNCHERS: """
DRY = ("profile", "--on=toy", "--dry-run", "--gpus=0")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with the toy launcher, and beside it a fake nsys whose report is a recorded one."""
    folder = tmp_path_factory.mktemp("toy")
    copy = copy_project(folder)
    (copy / "gpu_profile/launchers/toy.py").write_text(TOY_LAUNCHER)
    table = copy / "gpu_profile/declared/launchers.py"
    text = table.read_text()
    assert text.count(")\n\nLAUNCHERS: ") == 1
    table.write_text(text.replace(")\n\nLAUNCHERS: ", TOY_ROW))
    (folder / "nsys").write_text(NSYS)
    (folder / "nsys").chmod(0o755)
    with gzip.open(REPORT) as packed, (folder / "report.sqlite").open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    return copy


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
    assert "trainjob, toy" in " ".join(text.split())
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
    (("counters", "--on=toy", "--allow"), "counters are a host's. Use --on host"),
    (("test", "--on=toy"), "--on toy runs no image checks"),
    (("status", "--job=toys://x"), f"with a launcher of {', '.join(LAUNCHERS)}, toy"),
)


@pytest.mark.parametrize(("words", "line"), REFUSED)
def test_what_it_cannot_do_is_refused_in_one_line(
    project: Path, words: tuple[str, ...], line: str
) -> None:
    refused = run(project, *words)
    assert refused.returncode == 2, refused.said
    assert line in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_tests_of_the_copy_hold_with_it(project: Path) -> None:
    """Floors, types of names, and that no verb knows a launcher."""
    renewal = run_tests_of_copy(
        project, "tests/unit/test_readme.py", "-k", "generated_parts", GOLDEN="write"
    )
    assert renewal.returncode == 0, renewal.said
    settings = (project / "docs/settings.md").read_text()
    assert "| `TOY_SHELL` | `sh` | Shell of the toy's jobs |" in settings
    held = run_tests_of_copy(
        project,
        *("tests/unit/test_architecture.py", "tests/unit/verbs/test_no_launcher_by_name.py"),
        *("tests/unit/declared/test_launchers.py", "tests/unit/test_derivable.py"),
        *("-k", "launcher or setting or imports_point_down"),
    )
    assert held.returncode == 0, held.stdout[-3000:]
