"""Signals that end a verb: what becomes of the job, of its record, and of our child processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_profile import signals
from gpu_profile.command import Steps
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.errors import EngineAwayError, Interrupted
from gpu_profile.job import Job, NsysPlan
from gpu_profile.job_status import JobState, JobStatus
from gpu_profile.launchers.docker.launcher import DockerLauncher
from gpu_profile.progress import Progress
from gpu_profile.runs import job_note, record
from gpu_profile.runs.follower import Absence
from gpu_profile.runs.job_note import JobNote
from gpu_profile.runs.outcome import name_code
from gpu_profile.runs.record import RunRecord
from gpu_profile.runs.runner import Runner
from tests.further import further
from tests.invoked import argv, invoke, reporting_here
from tests.unit.analysis.synthetic import ranks_of

FakeTool = Callable[..., Callable[[], list[list[str]]]]
RUN = RunRecord(
    id="train-1",
    launcher="docker",
    command=("x",),
    handle="docker://train-1",
    phase="running",
    ranks=(0,),
)
ENGINE = """
cd "$(dirname "$0")"
labels='{"gpu-profile.run":"train-1"}'
case "$1 $2 $3" in
  *.Config.Env*) echo '["PATH=/bin"]' ;;
  "container inspect"*)
    if [ -s away ]; then
      tail -n +2 away >rest; mv rest away
      echo "Cannot connect to the Docker daemon at unix:///x.sock." >&2; exit 1
    fi
    state='{"Status":"running","ExitCode":0}'
    [ ! -e stopped ] || state='{"Status":"exited","ExitCode":143}'
    [ ! -e ended ] || state='{"Status":"exited","ExitCode":0}'
    printf '%s\\n%s\\n' "$state" "$labels" ;;
  "logs --follow"*) echo $$ >follower.new; mv follower.new follower; exec sleep 600 ;;
  stop*) touch stopped ;;
esac
"""


@pytest.fixture
def engine(tmp_path: Path, fake_tool: FakeTool) -> Path:
    """The directory of a fake engine whose job runs until a file `stopped` or `ended` is there."""
    fake_tool("docker", ENGINE)
    return tmp_path / "bin"


@pytest.fixture
def fetching(tmp_path: Path, engine: Path) -> Iterator["subprocess.Popen[str]"]:
    """`invoke fetch` of a running job, which follows its output."""
    reporting_here(tmp_path)
    record.save_run(RUN, record.create_run(tmp_path, "train-1"))
    child = subprocess.Popen(
        argv("fetch", "--job", "train-1", directory=tmp_path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    _await(lambda: (engine / "follower").exists() or child.poll() is not None)
    yield child
    if child.poll() is None:
        child.kill()
    child.communicate()


def _await(happened: Callable[[], object]) -> None:
    until = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < until, "it did not happen in 120 s"
        time.sleep(0.02)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _follower(engine: Path) -> int:
    return int((engine / "follower").read_text())


def _phase(directory: Path) -> str:
    return str(json.loads((directory / "train-1" / "run.json").read_text())["phase"])


def test_sigterm_stops_the_job_and_fetches(
    tmp_path: Path, engine: Path, fetching: "subprocess.Popen[str]"
) -> None:
    fetching.send_signal(signal.SIGTERM)
    _, said = fetching.communicate(timeout=120)
    assert fetching.returncode == 130, said
    assert "stopped by you" in said
    assert (engine / "stopped").exists()
    assert _phase(tmp_path) == "stopped"
    assert not _is_alive(_follower(engine))


def _leave_report(directory: Path) -> None:
    """A report of rank 0 with its export, as the job's nsys and an earlier fetch leave them."""
    (rank,) = ranks_of(1)
    for _ in range(20):
        rank.work(100)
        rank.kernel(50)
    rank.recording.save(directory / "rank0.h.sqlite")
    (directory / "rank0.h.nsys-rep").write_bytes(b"x")


@pytest.mark.further
def test_a_stopped_job_gives_its_answer_and_is_no_failure(tmp_path: Path, engine: Path) -> None:
    reporting_here(tmp_path)
    directory = record.create_run(tmp_path, "train-1")
    record.save_run(RUN, directory)
    job_note.write_note(directory, JobNote(handle=RUN.handle))
    _leave_report(directory)
    stopped = invoke("stop", "--job", "train-1", directory=tmp_path)
    assert "train-1 stopped; `invoke fetch --job train-1`" in stopped.stdout, stopped.stderr
    again = invoke("stop", "--job", "train-1", directory=tmp_path)
    assert "train-1 has ended; `invoke fetch --job train-1`" in again.stdout
    fetched = invoke("fetch", "--job", "train-1", directory=tmp_path)
    assert fetched.returncode == 0, fetched.stderr
    assert "train-1: stopped by you\n" in fetched.stderr
    assert f"page: {directory}/page.html" in fetched.stdout
    listed = invoke("reports", "--format", "json", directory=tmp_path)
    assert '"stopped"' in listed.stdout
    assert (
        "stopped by you, exit code 143"
        in invoke("status", "--job", "train-1", directory=tmp_path).stdout
    )


def test_a_job_that_fails_after_a_stop_that_failed_was_not_stopped(
    tmp_path: Path, engine: Path, fake_tool: FakeTool
) -> None:
    reporting_here(tmp_path)
    directory = record.create_run(tmp_path, "train-1")
    record.save_run(RUN, directory)
    job_note.write_note(directory, JobNote(handle=RUN.handle))
    fake_tool("docker", ENGINE.replace("touch stopped", "exit 1"))
    assert invoke("stop", "--job", "train-1", directory=tmp_path).returncode == 5
    assert not job_note.is_stopped(directory)


def test_a_failed_job_gives_the_answer_of_its_report(tmp_path: Path, engine: Path) -> None:
    reporting_here(tmp_path)
    directory = record.create_run(tmp_path, "train-1")
    record.save_run(RUN, directory)
    _leave_report(directory)
    (engine / "stopped").touch()
    fetched = invoke("fetch", "--job", "train-1", directory=tmp_path)
    assert fetched.returncode == 5
    assert f"page: {directory}/page.html" in fetched.stdout
    assert f"output of the job: {directory}/output.log" in fetched.stdout
    line = fetched.stderr.splitlines()[-1]
    assert line.startswith("error: the job failed with exit code 143 (terminated)")
    assert line.endswith(f"What it recorded is kept; see {directory}/output.log.")


def test_an_exit_code_names_the_signal_that_a_shell_means() -> None:
    names = {1: "1", 128: "128", 139: "139 (segmentation fault)", 250: "250"}
    assert {code: name_code(code) for code in names} == names


@pytest.mark.further
def test_a_second_ctrl_c_says_what_runs_on(
    tmp_path: Path, engine: Path, fetching: "subprocess.Popen[str]", fake_tool: FakeTool
) -> None:
    fake_tool("docker", ENGINE.replace("touch stopped", "touch stopping; sleep 600"))
    fetching.send_signal(signal.SIGINT)
    _await(lambda: (engine / "stopping").exists())
    fetching.send_signal(signal.SIGINT)
    _, said = fetching.communicate(timeout=120)
    assert fetching.returncode == 130
    assert "docker://train-1 may run on. `invoke stop --job train-1` ends it, " in said
    assert "`invoke fetch --job train-1` brings its reports" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_right_after_the_submission_stops_the_job(
    tmp_path: Path, engine: Path, number: signal.Signals
) -> None:
    directory = record.create_run(tmp_path, "train-1")
    launcher = DockerLauncher(image=ImageRef(name="x"), report_dir=tmp_path)
    runner = Runner(launcher=launcher, directory=directory, progress=Progress())
    job = Job(command=("x",), name="train-1")
    handlers = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGHUP)}
    signals.install_handlers()
    try:
        run = runner.start(job, NsysPlan(options=()), ())
        os.kill(os.getpid(), number)
        with pytest.raises(Interrupted, match="stopped by you"):
            runner.finish(run)
    finally:
        for name, handler in handlers.items():
            signal.signal(name, handler)
    assert (engine / "stopped").exists()
    assert _phase(tmp_path) == "stopped"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_sighup_ends_the_follower_and_leaves_the_job(
    tmp_path: Path, engine: Path, fetching: "subprocess.Popen[str]"
) -> None:
    fetching.send_signal(signal.SIGHUP)
    _, said = fetching.communicate(timeout=120)
    assert fetching.returncode == 130, said
    assert "`invoke fetch --job train-1` goes on" in said
    assert not (engine / "stopped").exists()
    assert _phase(tmp_path) == "running"
    assert not _is_alive(_follower(engine))


@pytest.mark.further
@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_a_killed_verb_leaves_no_child(engine: Path, fetching: "subprocess.Popen[str]") -> None:
    assert _is_alive(_follower(engine))
    fetching.kill()
    _await(lambda: not _is_alive(_follower(engine)))


def test_a_job_of_a_host_that_never_answered_is_no_run(tmp_path: Path, fake_tool: FakeTool) -> None:
    ssh = fake_tool("ssh", "echo 'ssh: connect to host h port 22: refused' >&2; exit 255")
    reporting_here(tmp_path)
    done = invoke("fetch", "--job", "ssh://h:/tmp/x", directory=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines()), len(ssh())) == (3, 1, 3)
    assert "ssh://h:/tmp/x does not answer: h: ssh: connect to host h port 22" in done.stderr
    assert list(tmp_path.glob("*/run.json")) == []


@pytest.mark.further
def test_an_engine_that_restarts_is_waited_for(
    tmp_path: Path, engine: Path, fetching: "subprocess.Popen[str]"
) -> None:
    (engine / "away").write_text("1\n2\n3\n")
    _await(lambda: not (engine / "away").read_text() or fetching.poll() is not None)
    (engine / "ended").touch()
    os.kill(_follower(engine), signal.SIGTERM)
    _, said = fetching.communicate(timeout=120)
    assert fetching.returncode == 6, said  # the job's end was seen; it left no report
    assert "unknown (the Docker Engine does not answer)" in said


class LostEngine(DockerLauncher):
    """An engine that does not answer, and is not waited for."""

    def status(self, job_id: str) -> Steps[JobStatus]:
        yield from ()
        return JobStatus(state=JobState.UNKNOWN, reason="gone", patience_s=0.0)


def test_an_engine_that_stays_away_leaves_the_run_as_it_is(tmp_path: Path) -> None:
    directory = record.create_run(tmp_path, "train-1")
    record.save_run(RUN, directory)
    launcher = LostEngine(image=ImageRef(name="x"), report_dir=tmp_path)
    runner = Runner(launcher=launcher, directory=directory, progress=Progress())
    with pytest.raises(EngineAwayError, match="docker://train-1 may run on: gone") as away:
        runner.finish(RUN)
    assert away.value.exit_code == 3
    assert "`invoke fetch --job train-1` goes on" in str(away.value)
    assert _phase(tmp_path) == "running"


def test_an_absence_begins_anew_when_the_engine_has_answered() -> None:
    absence = Absence(RUN)
    absence.check(JobStatus(state=JobState.UNKNOWN, patience_s=600))
    absence.check(JobStatus(state=JobState.RUNNING))
    absence.check(JobStatus(state=JobState.UNKNOWN, patience_s=600))
    absence.check(JobStatus(state=JobState.UNKNOWN))  # a host without a limit


# As docker on a terminal: SIGTERM does not end it, and it does not pass SIGTERM on to its plugin.
_STUBBORN = """
trap : TERM
sleep 600 &
echo $! >"$1.new"; mv "$1.new" "$1"
while kill -0 $! 2>/dev/null; do wait; done
"""
_ATTACHED = """
import sys
from gpu_profile import process, program_output, signals
from gpu_profile.command import make_command
signals.install_handlers()
program = make_command("bash", "-c", sys.argv[3], "-", sys.argv[2])
try:
    if sys.argv[1] == "attached":
        process.run_attached(program)
    elif sys.argv[1] == "drawn":
        list(program_output.drawn_lines(program))
    else:
        process.run(program)
except KeyboardInterrupt:
    raise SystemExit(130)
except signals.HungUp:
    raise SystemExit(129)
"""


@pytest.mark.parametrize(
    ("way", "sign", "code"),
    [
        ("attached", signal.SIGTERM, 130),
        ("drawn", signal.SIGHUP, 129),
        ("captured", signal.SIGTERM, 130),
        further("attached", signal.SIGHUP, 129),
        further("drawn", signal.SIGTERM, 130),
        further("captured", signal.SIGHUP, 129),
    ],
)
def test_no_program_survives_a_signal(
    tmp_path: Path, way: str, sign: signal.Signals, code: int
) -> None:
    pid = tmp_path / "pid"
    master, screen = os.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", _ATTACHED, way, str(pid), _STUBBORN],
        stderr=screen,
        start_new_session=True,
    )
    _await(lambda: pid.exists() or child.poll() is not None)
    child.send_signal(sign)
    assert child.wait(120) == code
    assert not _is_alive(int(pid.read_text()))
    os.close(master)
    os.close(screen)


def test_nohup_stays_in_force() -> None:
    code = "from gpu_profile import signals; signals.install_handlers();"
    code += "import os, signal; os.kill(os.getpid(), signal.SIGHUP); print('here')"
    done = subprocess.run(
        ["nohup", sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stdout == "here\n"
