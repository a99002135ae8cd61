"""profile.py as a rank of mpirun, which kills the process that it started."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forked import start_python
from tests.further import keep_first
from tests.unit.agent.wrapper import PROFILE, Wrapper, python, wrapper_in

RANK = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
UNTIL_GO = """
import os, signal, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: (asked.append(1), print("asked", flush=True)))
print("ready", flush=True)
while not asked or not os.path.exists("go"):
    time.sleep(0.02)
"""
"""A program that goes on after SIGTERM until the file `go` is there."""


@pytest.fixture
def wrapper(tmp_path: Path) -> Wrapper:
    return wrapper_in(tmp_path)


@contextlib.contextmanager
def started(wrapper: Wrapper) -> Iterator["subprocess.Popen[str]"]:
    process = wrapper.start("--", *python(UNTIL_GO), HF_TOKEN="hf_123456789", **RANK)
    with process:
        read_until(process, "ready")
        yield process


def read_until(process: "subprocess.Popen[str]", word: str) -> None:
    assert process.stdout is not None
    assert any(word in line for line in process.stdout)


def end(wrapper: Wrapper, process: "subprocess.Popen[str]") -> str:
    """Let the program end; return what is printed until nobody has the output open."""
    assert process.stdout is not None
    (wrapper.directory / "go").touch()
    return process.stdout.read()


def list_all(pid: int) -> list[int]:
    """The process that mpirun started, and its child."""
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


@pytest.mark.parametrize("is_asked", [True, False], ids=["after-sigterm", "at-once"])
def test_a_rank_that_mpirun_kills_completes_its_report(wrapper: Wrapper, is_asked: bool) -> None:
    """SIGKILL ends the program, too, where no SIGTERM came before."""
    with started(wrapper) as process:
        if is_asked:
            process.terminate()
            read_until(process, "asked")
        process.kill()
        process.wait()
        if not is_asked:
            read_until(process, "asked")
        output = end(wrapper, process)
    assert "the report holds HF_TOKEN" in output, "what follows nsys' end was done"
    (report,) = wrapper.out.glob("rank1.*.nsys-rep")
    assert report.stat().st_mode & 0o777 == 0o600


@pytest.mark.further
def test_signals_to_both_processes_count_once(wrapper: Wrapper) -> None:
    """`invoke stop` and Slurm signal all; the third signal that counts kills the rank."""
    with started(wrapper) as process:
        everything = list_all(process.pid)
        assert len(everything) == 2
        for pid in everything:
            os.kill(pid, signal.SIGTERM)
        read_until(process, "asked")
        output = end(wrapper, process)
    assert "stopping already" not in output
    assert process.returncode == 128 + signal.SIGTERM
    assert wrapper.reports() == ["rank1.nsys-rep"]


@pytest.mark.parametrize("code", keep_first(1, [0, 3]))
def test_the_exit_code_is_the_programs(wrapper: Wrapper, code: int) -> None:
    done = wrapper.run("--", *python(f"raise SystemExit({code})"), **RANK)
    assert done.returncode == code
    refused = wrapper.run("--", *python("pass"), **RANK)
    assert refused.returncode == 2
    assert "exists: name another --output" in refused.stderr


def test_what_nobody_reads_ends_no_tool(tmp_path: Path) -> None:
    """mpirun, which reads outputs, may end before nsys, whose export SIGPIPE ended with 0 bytes."""
    code = """
import os, sys
sys.path.insert(0, sys.argv[1])
from masked_import import _run
from rank_processes import Child, say
reader, writer = os.pipe()
os.dup2(writer, 2)
os.close(reader), os.close(writer)
say("nobody reads this")
tool = ("sh", "-c", "echo progress >&2; exit 0")
print(_run(tool), Child(tool, os.environ, 1.0, ignores_pipes=True).wait())
"""
    done = start_python(("-c", code, str(PROFILE.parent)), tmp_path, {})
    assert done.stdout == "True 0\n"
