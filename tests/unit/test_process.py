"""The one module that starts programs: words untouched, nothing left behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile import process, program_output, signals
from gpu_profile.command import Command, Result, Steps, make_command
from gpu_profile.errors import ToolError
from gpu_profile.printable import printable_lines
from gpu_profile.runs.output_log import copy_redacted
from gpu_profile.settings.places import ROOT

FakeTool = Callable[..., Callable[[], list[list[str]]]]


def test_words_arrive_untouched(fake_tool: FakeTool, hostile_name: str) -> None:
    calls = fake_tool("docker")
    process.run(make_command("docker", "run", hostile_name))
    assert calls() == [["run", hostile_name]]


def test_a_command_s_line_is_read_alike_by_a_shell(hostile_name: str) -> None:
    words = (hostile_name, "\x1b[2J'\\\x9b\u202e\udcff", "tab\t")
    line = str(make_command("printf", "%s\\0", *words))
    assert printable_lines(line) == line
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True)
    assert done.stdout == b"".join(os.fsencode(word) + b"\0" for word in words)


def test_a_file_of_output_appears_whole_or_not_at_all(fake_tool: FakeTool, tmp_path: Path) -> None:
    fake_tool("tool", "printf half; exit $1")
    whole, cut, kept = (tmp_path / name for name in ("whole", "cut", "kept"))
    process.run(Command(argv=("tool", "0"), stdout_file=whole))
    process.run(Command(argv=("tool", "1"), stdout_file=cut))
    process.run(Command(argv=("tool", "1"), stdout_file=kept, stdout_partial=True))
    assert whole.read_text() == kept.read_text() == "half"
    assert not cut.exists()
    assert not list(tmp_path.glob(".*"))


def test_a_result_holds_both_outputs_and_the_code(fake_tool: FakeTool) -> None:
    fake_tool("tool", "cat; echo lost >&2; exit 3")
    result = process.run(make_command("tool", stdin="given"))
    assert result == Result(returncode=3, stdout="given", stderr="lost\n")
    assert result.last_line == "lost"


def test_a_missing_program_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ToolError, match="docker is not installed here") as refused:
        process.run(make_command("docker"))
    assert refused.value.exit_code == 3


def test_files_stand_in_for_long_strings(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"\0\xff" * 1000)
    process.run(Command(argv=("cat",), stdin_file=source, stdout_file=target))
    assert target.read_bytes() == source.read_bytes()


def test_a_program_whose_server_hangs_is_ended(
    fake_tool: FakeTool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """dockerd accepts connections while it is stopped, and answers none."""
    monkeypatch.setattr(process, "LOOK_S", 0.1)
    monkeypatch.setattr(process, "SILENCE_S", 0.3)
    fake_tool("docker", "exec sleep 600")
    result = process.run(Command(argv=("docker", "save", "x"), stdout_file=tmp_path / "x"))
    assert result.returncode == 124
    assert result.stderr.startswith("no answer for 120 s: `docker version` did not end")
    assert not (tmp_path / "x").exists()
    assert process.run(make_command("sh", "-c", "docker info")).returncode == 124


def test_a_slow_program_whose_server_answers_is_waited_for(
    fake_tool: FakeTool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "LOOK_S", 0.1)
    slow = f"until [ -e {tmp_path}/asked ]; do sleep 0.05; done; cat"
    fake_tool("docker", f'if [ "$1" = version ]; then touch {tmp_path}/asked; else {slow}; fi')
    done = process.run(make_command("docker", "login", "--password-stdin", stdin="secret"))
    assert done == Result(returncode=0, stdout="secret")


_DRAWN = """
import pathlib, sys
from gpu_profile import process, program_output
from gpu_profile.command import make_command
from gpu_profile.errors import ToolError
process.LOOK_S = 0.1
try:
    for line in program_output.drawn_lines(make_command("docker", "buildx", "build")):
        print(line)
        process.SILENCE_S = 0.3
        pathlib.Path(sys.argv[1]).touch()
except ToolError as error:
    print(error)
"""
_NO_BUILD = "no answer for 120 s: `docker version` did not end in 0.2 s. Restart the server"


def test_a_build_whose_engine_hangs_is_ended(
    fake_tool: FakeTool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "LOOK_S", 0.1)
    answer = f"[ ! -e {tmp_path}/hang ] || exec sleep 600"
    fake_tool("docker", f'if [ "$1" = version ]; then {answer}; else echo $$; exec sleep 600; fi')
    lines = program_output.read_lines(make_command("docker", "buildx", "build"))
    pid = next(lines)
    # The short limit begins when the build runs: its start takes longer on a busy machine.
    monkeypatch.setattr(process, "SILENCE_S", 0.3)
    (tmp_path / "hang").touch()
    with pytest.raises(ToolError, match=_NO_BUILD) as hung:
        list(lines)
    assert hung.value.exit_code == 3
    assert not Path(f"/proc/{pid}").exists()


def test_a_build_that_draws_seconds_while_its_engine_hangs_is_ended(
    fake_tool: FakeTool, tmp_path: Path
) -> None:
    """BuildKit draws its clock on a terminal without the engine."""
    answer = f"[ ! -e {tmp_path}/hang ] || exec sleep 600"
    draw = "while sleep 0.01; do echo 1s; done"
    fake_tool("docker", f'if [ "$1" = version ]; then {answer}; else {draw}; fi')
    script = tmp_path / "drawn.py"
    script.write_text(_DRAWN)
    inner = f"{sys.executable} {script} {tmp_path}/hang > {tmp_path}/read"
    root = Path(__file__).parents[2]
    process.run(make_command("script", "-qec", inner, "/dev/null", PYTHONPATH=str(root)))
    *drawn, last = (tmp_path / "read").read_text().splitlines()
    assert "1s" in drawn
    assert last.startswith(_NO_BUILD)


def test_a_silent_build_whose_engine_answers_is_waited_for(
    fake_tool: FakeTool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "LOOK_S", 0.1)
    slow = f"until [ -e {tmp_path}/asked ]; do sleep 0.05; done; echo one; printf two"
    fake_tool("docker", f'if [ "$1" = version ]; then touch {tmp_path}/asked; else {slow}; fi')
    assert list(program_output.read_lines(make_command("docker", "buildx"))) == ["one", "two"]


def test_a_program_that_hangs_is_ended(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(ToolError, match=r"did not end in 0.2 s"):
        process.run(make_command("bash", "-c", "sleep 600 & sleep 600"), timeout_s=0.2)
    assert time.monotonic() - started < 300


def test_a_background_program_ends_with_the_body(tmp_path: Path) -> None:
    output = tmp_path / "log"
    with program_output.in_background(
        make_command("bash", "-c", "echo here DB_PASSWORD=abcdef; exec sleep 600"),
        output,
        copy_redacted,
    ):
        while "here" not in (output.read_text() if output.exists() else ""):
            time.sleep(0.01)
    assert output.read_text() == "here DB_PASSWORD=***\n"


def test_a_pause_ends_with_the_background_program(tmp_path: Path) -> None:
    """The program reads a FIFO, so that it does not end before the pause begins."""
    os.mkfifo(tmp_path / "fifo")
    wait = make_command("cat", str(tmp_path / "fifo"))
    with program_output.in_background(wait, tmp_path / "log", copy_redacted) as pause:
        end = threading.Timer(0.5, (tmp_path / "fifo").write_text, ["end"])
        started = time.monotonic()
        end.start()
        pause(600)
        assert time.monotonic() - started < 300
        pause(0.01)


def test_lines_come_as_they_are_written() -> None:
    lines = program_output.read_lines(make_command("bash", "-c", "echo a; echo b >&2; exit 4"))
    assert [next(lines), next(lines)] == ["a", "b"]
    with pytest.raises(StopIteration) as stop:
        next(lines)
    assert stop.value.value == 4


def _two_steps() -> Steps[str]:
    first = yield make_command("echo", "one")
    second = yield make_command("echo", first.stdout.strip(), "two")
    return second.stdout.strip()


def test_steps_are_driven_with_each_result() -> None:
    assert process.drive(_two_steps()) == "one two"


def test_steps_may_clean_up_when_they_are_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    def steps() -> Steps[None]:
        try:
            yield make_command("kill", "-INT", str(os.getpid()))
            yield make_command("sleep", "5")
        except KeyboardInterrupt:
            ran.append((yield make_command("echo", "cleaned")).stdout)
            raise

    with pytest.raises(KeyboardInterrupt):
        process.drive(steps())
    assert ran == ["cleaned\n"]


def test_a_plan_runs_nothing(fake_tool: FakeTool) -> None:
    calls = fake_tool("echo")
    assert [c.argv for c in process.plan(_two_steps())] == [("echo", "one"), ("echo", "", "two")]
    assert calls() == []


def test_an_attached_program_keeps_its_exit_code() -> None:
    assert process.run_attached(make_command("bash", "-c", f"kill -{signal.SIGTERM:d} $$")) == -15


_DRAWS = """
import sys
from gpu_profile import process, program_output
from gpu_profile.command import make_command
lines = program_output.drawn_lines(make_command("bash", "-c", "stty size <&1 && echo two; exit 7"))
try:
    while True:
        print(repr(next(lines)))
except StopIteration as stop:
    print(stop.value)
"""


def test_a_program_that_draws_has_a_terminal_and_is_read(tmp_path: Path) -> None:
    script = tmp_path / "draws.py"
    script.write_text(_DRAWS)
    root = Path(__file__).parents[2]
    inner = f"stty rows 33 cols 77; {sys.executable} {script} > {tmp_path}/read"
    shown = process.run(make_command("script", "-qec", inner, "/dev/null", PYTHONPATH=str(root)))
    assert (tmp_path / "read").read_text().splitlines() == ["'33 77\\r'", "'two\\r'", "7"]
    assert shown.stdout.split() == ["33", "77", "two"]


def test_numpy_makes_no_threads_where_it_would_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own choice stands, and no job is started with ours."""
    for name in process.MATH_THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    script = (
        "import numpy, os; print(len(os.listdir('/proc/self/task')), os.environ['OMP_NUM_THREADS'])"
    )
    with process.one_math_thread():
        assert process.run(make_command(sys.executable, "-c", script)).stdout.split() == ["1", "3"]
    assert not {"OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"} & os.environ.keys()


KILLED = """
from gpu_profile import process, signals
from gpu_profile.command import make_command
signals._find_setpriv = lambda: None
process.run(make_command("sh", "-c", "echo $$ >pid.new; mv pid.new pid; exec sleep 600"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_without_setpriv_too_a_program_ends_with_its_killed_parent(tmp_path: Path) -> None:
    """tests/unit/verbs/test_signals.py kills a verb whose programs setpriv started."""
    pid, environ = tmp_path / "pid", {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen((sys.executable, "-c", KILLED), cwd=tmp_path, env=environ)
    while not pid.exists() and parent.poll() is None:
        time.sleep(0.02)
    child = int(pid.read_text())
    parent.kill()
    parent.wait()
    until = time.monotonic() + 60
    while Path(f"/proc/{child}/exe").exists():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_program_is_started_by_setpriv_where_both_are_there() -> None:
    environ = {"PATH": os.environ["PATH"]}
    words, hook = signals.tie_child(("sh", "-c", ":"), environ, own_session=True)
    assert words[-3:] == ("sh", "-c", ":")
    assert words[:-3] == (() if hook else (signals._find_setpriv(), "--pdeathsig=TERM", "--"))
    assert signals.tie_child(("no-such",), environ, own_session=True)[0] == ("no-such",)
