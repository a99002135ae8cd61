"""One process follows a run; what was started is known outside of what the job can write to."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_profile import files, process
from gpu_profile.command import Command
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.errors import GpuProfileError
from gpu_profile.job import Job, NsysPlan
from gpu_profile.launchers.docker.launcher import DockerLauncher
from gpu_profile.progress import Progress
from gpu_profile.runs import job_note
from gpu_profile.runs import record as rundir
from gpu_profile.runs.follower import Follower, list_left
from gpu_profile.runs.job_note import JobNote
from gpu_profile.runs.record import RunRecord
from gpu_profile.runs.runner import Runner
from tests.invoked import argv, invoke, reporting_here

FakeTool = Callable[..., Callable[[], list[list[str]]]]
RUN = RunRecord(
    id="train-1", launcher="docker", command=("x",), handle="docker://train-1", phase="running"
)
_FOLLOWS = """
import sys
from pathlib import Path
from gpu_profile.progress import Progress
from gpu_profile.runs.follower import Follower
Follower(Path(sys.argv[1]), Progress()).begin("docker://train-1")
print("follows", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = rundir.create_run(tmp_path, "train-1")
    rundir.save_run(RUN, directory)
    return directory


@pytest.fixture
def other(directory: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that follows the run."""
    child = subprocess.Popen(
        [sys.executable, "-c", _FOLLOWS, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout
    assert child.stdout.readline() == "follows\n"
    yield child
    child.kill()
    child.communicate()


def list_runs_left(directory: Path) -> list[str]:
    """The lines on this run; others are on files that killed processes of any test left."""
    return [line for line in list_left(directory.parent) if directory.name in line]


def count_removed(report_dir: Path) -> int:
    """How many files were removed: those in /tmp that killed processes of any test left, too."""
    (line,) = list_left(report_dir)
    noun = "(?:file or folder|files and folders)"
    match = re.fullmatch(rf"removed (\d+) temporary {noun} of processes that were killed", line)
    assert match
    return int(match[1])


def _rewrite(directory: Path, **changes: object) -> None:
    """What a job does that writes to its own run directory."""
    record = json.loads((directory / "run.json").read_text())
    (directory / "run.json").write_text(json.dumps({**record, **changes}))


def test_a_job_cannot_lead_a_verb_to_another_one(tmp_path: Path, fake_tool: FakeTool) -> None:
    docker, ssh = fake_tool("docker", "exit 1"), fake_tool("ssh", "exit 1")
    runner = _make_runner(tmp_path)
    fake_tool("docker")
    run = runner.start(_job(), NsysPlan(options=("--trace=nvtx",)), ())
    runner.follower.end()
    assert run.handle == "docker://train-1"
    _rewrite(runner.directory, launcher="ssh", handle="ssh://localhost:/tmp/evil")
    reporting_here(tmp_path)
    for verb in ("status", "stop", "logs", "fetch"):
        done = invoke(verb, "--job", "train-1", directory=tmp_path)
        assert "ssh://localhost:/tmp/evil, and not docker://train-1" in done.stderr
    assert ssh() == []
    assert {call[-1] for call in docker()[1:]} == {"train-1"}
    assert rundir.find_run(tmp_path, "docker://train-1") == runner.directory


def test_the_local_container_names_no_job(tmp_path: Path, fake_tool: FakeTool) -> None:
    fake_tool("docker")
    ssh = fake_tool("ssh")
    reporting_here(tmp_path)
    started = invoke("run", "--set", "CONTAINER=mine", directory=tmp_path)
    assert started.returncode == 0, started.stderr
    evil = dataclasses.replace(RUN, id="mine", launcher="ssh", handle="ssh://h:/tmp/evil")
    rundir.save_run(evil, tmp_path / "mine")
    done = invoke("status", "--job", "mine", directory=tmp_path)
    assert done.returncode == 2, done.stderr
    assert ssh() == []


def test_a_run_of_an_older_version_is_its_records(directory: Path) -> None:
    assert rundir.load_run(directory).handle == "docker://train-1"


def test_a_note_of_another_user_or_kind_counts_as_none(directory: Path) -> None:
    place = directory.parent / ".train-1.job"
    for text in ("[]", "x", '{"handle": "ssh://a:b", "more": 1}'):
        place.write_text(text)
        assert job_note.read_note(directory) is None
    place.unlink()
    place.symlink_to("elsewhere")
    assert job_note.read_note(directory) is None
    if os.geteuid() == 0:
        place.unlink()
        job_note.write_note(directory, JobNote(handle="ssh://a:b"))
        os.chown(place, 65534, 65534)
        assert rundir.load_run(directory).handle == "docker://train-1"


def test_a_note_goes_with_its_directory(directory: Path) -> None:
    job_note.write_note(directory, JobNote(handle="docker://train-1", followed=True))
    (directory / "run.json").unlink()
    directory.rmdir()
    assert list_runs_left(directory) == []
    assert list(directory.parent.iterdir()) == []


@pytest.mark.further
def test_a_run_whose_process_was_killed_is_listed(
    directory: Path, other: "subprocess.Popen[str]"
) -> None:
    reporting_here(directory.parent)
    assert list_runs_left(directory) == []
    other.send_signal(signal.SIGKILL)
    other.wait()
    listed = invoke("reports", directory=directory.parent)
    line = "train-1 (running) was left by a process that was killed"
    assert f"{line}: `invoke fetch --job train-1` goes on" in listed.stderr
    Follower(directory, Progress()).end()
    assert list_runs_left(directory) == []


def test_a_detached_run_is_not_listed(directory: Path) -> None:
    follower = Follower(directory, Progress())
    follower.begin("docker://train-1")
    follower.end()
    assert list_runs_left(directory) == []
    assert job_note.read_note(directory) == JobNote(handle="docker://train-1")


def test_drafts_of_killed_processes_are_removed(directory: Path) -> None:
    draft, folder = directory / f".page.html.{'0' * 16}.part", directory / ".new-abc"
    own = directory / ".notes.part"
    for path in (draft, own):
        path.write_text("half")
    folder.mkdir()
    (folder / "rank0.sqlite").touch()
    young = files.remove_drafts(directory)
    for path in (draft, folder, own):
        os.utime(path, (1, 1))
    assert young == 0
    assert count_removed(directory.parent) >= 2
    draft.touch()
    os.utime(draft, (1, 1))
    assert count_removed(directory.parent) >= 1
    assert {path.name for path in directory.iterdir()} == {"run.json", ".notes.part"}


def test_a_job_that_was_never_submitted_is_said_to_be_prunable(
    directory: Path, fake_tool: FakeTool
) -> None:
    fake_tool("docker", "echo 'Error: No such container: train-1' >&2; exit 1")
    reporting_here(directory.parent)
    for verb in ("status", "stop", "fetch"):
        rundir.save_run(dataclasses.replace(RUN, phase="submitting"), directory)
        done = invoke(verb, "--job", "train-1", directory=directory.parent)
        assert done.returncode == 2, done.stderr
        hint = "Its process was killed before the job began: `invoke reports --prune --older 0h`"
        assert (
            f"no container train-1 on this engine. `invoke reports` lists runs. {hint}"
            in (done.stderr.splitlines()[-1])
        )


def test_drafts_in_use_are_kept(directory: Path) -> None:
    with files.new_folder(directory) as folder, files.open_draft(directory / "page.html"):
        for path in directory.glob(".*"):
            os.utime(path, (1, 1))
        assert files.remove_drafts(directory) == 0
        assert folder.is_dir()


@pytest.mark.further
def test_two_fetches_are_one_after_the_other(
    directory: Path, other: "subprocess.Popen[str]", fake_tool: FakeTool
) -> None:
    """The second one waits, and then finds what the first one brought."""
    docker = fake_tool("docker", "exit 1")
    reporting_here(directory.parent)
    second = subprocess.Popen(
        argv("fetch", "--job", "train-1", directory=directory.parent),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert second.stderr
    assert second.stderr.readline() == "another process follows train-1: waiting\n"
    rundir.save_run(dataclasses.replace(RUN, phase="done", cleaned=True), directory)
    other.communicate("")
    second.communicate(timeout=120)
    assert second.returncode == 0
    assert docker() == []


def _job() -> Job:
    return Job(name="train-1", command=("python3",))


def _make_runner(tmp_path: Path) -> Runner:
    directory = rundir.create_run(tmp_path, "train-1")
    launcher = DockerLauncher(image=ImageRef(name="x"), report_dir=tmp_path)
    return Runner(launcher=launcher, directory=directory, progress=Progress())


def test_a_process_that_is_killed_while_it_submits_leaves_the_handle(
    tmp_path: Path, fake_tool: FakeTool
) -> None:
    submitting = "import json; d=json.load(open('run.json')); print(d['phase'], d['handle'])"
    fake_tool("docker", f'cd "{tmp_path}/train-1"; python3 -c "{submitting}" >seen; exit 1')
    with pytest.raises(GpuProfileError):
        _make_runner(tmp_path).start(_job(), NsysPlan(options=("--trace=nvtx",)), ())
    assert (tmp_path / "train-1" / "seen").read_text() == "submitting docker://train-1\n"


@pytest.mark.further
def test_a_hang_up_while_a_job_is_submitted_comes_after_it(tmp_path: Path) -> None:
    """SIGHUP in `docker run`: the handle is recorded, and the job goes on."""
    script = tmp_path / "bin" / "docker"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\n[ "$1" != run ] || kill -HUP "$(cat "$0.pid")"\n')
    script.chmod(0o755)
    code = f"""
import os, sys
from pathlib import Path
from gpu_profile import signals
signals.install_handlers()
Path({str(script)!r} + ".pid").write_text(str(os.getpid()))
from tests.unit.runs.test_follower import _job, _make_runner
from gpu_profile.job import NsysPlan
_make_runner(Path({str(tmp_path)!r})).start(_job(), NsysPlan(options=("--trace=nvtx",)), ())
"""
    env = {"PATH": f"{script.parent}:{os.environ['PATH']}"}
    done = process.run(Command(argv=(sys.executable, "-c", code), env=env))
    assert "`invoke fetch --job train-1` goes on" in done.stderr
    run = rundir.load_run(tmp_path / "train-1")
    assert (run.phase, run.handle) == ("running", "docker://train-1")
    (line,) = list_runs_left(tmp_path / "train-1")
    assert line.startswith("train-1 (running)")


def test_a_lock_is_waited_for_until_its_process_ends(
    directory: Path, other: "subprocess.Popen[str]"
) -> None:
    assert files.lock_directory(directory) is None
    other.kill()
    lock = files.lock_directory(directory, wait=True)
    assert lock is not None
    os.close(lock)
