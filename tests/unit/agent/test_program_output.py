"""What a program prints under nsys goes to profile.py's stdout and stderr, not into the report."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.agent.wrapper import PROFILE, Wrapper, clean_environment, python, wrapper_in

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="outputs are found in /proc")

PRINTS = """
import os
for number in range(200):
    os.write(1, b"out %d\\n" % number)
    os.write(2, b"err %d\\n" % number)
"""
PRINTED = "".join(f"out {number}\nerr {number}\n" for number in range(200))
COPIED = "profile.py: nsys copies what the program prints into the report"


@pytest.fixture
def wrapper(tmp_path: Path) -> Wrapper:
    return wrapper_in(tmp_path)


def print_to(output: int, wrapper: Wrapper, rank: int = 0) -> str:
    """Run PRINTS as a rank whose stdout and stderr are one; return what came through PIPE."""
    argv = wrapper.argv("--", *python(PRINTS))
    env = clean_environment({"RANK": str(rank)})
    done = subprocess.run(argv, env=env, stdout=output, stderr=subprocess.STDOUT, check=True)
    return (done.stdout or b"").decode()


def test_lines_keep_their_order_and_are_not_in_the_report(wrapper: Wrapper) -> None:
    assert print_to(subprocess.PIPE, wrapper) == PRINTED
    assert wrapper.recorded()["output"] == ""
    log = wrapper.directory / "log"
    log.write_text("before\n")
    with log.open("ab") as file:
        print_to(file.fileno(), wrapper, 1)
    assert (log.read_text(), wrapper.recorded(1)["output"]) == (f"before\n{PRINTED}", "")


def test_a_file_that_is_not_appended_to_is_not_overwritten(wrapper: Wrapper) -> None:
    log = wrapper.directory / "log"
    with log.open("wb") as file:
        print_to(file.fileno(), wrapper)
    line, *lines = log.read_text().splitlines()
    assert line.startswith(COPIED)
    assert line.endswith("stdout is a file that is not open for appending (>>)")
    assert sorted(lines) == sorted(PRINTED.splitlines())
    assert sorted(wrapper.recorded()["output"].splitlines()) == sorted(lines)


@pytest.mark.further
def test_a_socket_cannot_be_opened_again(wrapper: Wrapper) -> None:
    ours, theirs = socket.socketpair()
    argv = wrapper.argv("--", *python("print('hi')"))
    with ours, theirs:
        end = theirs.fileno()
        subprocess.run(argv, env=clean_environment({}), stdout=end, stderr=end, check=True)
        theirs.close()
        line, printed = ours.makefile().read().splitlines()
    assert line.startswith(COPIED)
    assert line.endswith(": stdout is a socket")
    assert printed == wrapper.recorded()["output"].strip() == "hi"


def test_nsys_own_option_for_the_output_keeps_its_meaning(wrapper: Wrapper) -> None:
    done = wrapper.run("--show-output=true", "--", *python("print('hi')"))
    assert (done.stdout, done.stderr, wrapper.recorded()["output"]) == ("hi\n", "", "hi\n")


@pytest.mark.parametrize(
    ("pid", "reason"),
    [(os.getpid(), "it is of another process"), (1 << 30, "No such file or directory")],
    ids=["another", "none"],
)
def test_the_outputs_of_no_other_process_are_taken(pid: int, reason: str) -> None:
    """A process of that number may be another one's in nsys' PID namespace."""
    start = PROFILE.with_name("start_program.py")
    words = ("", "0022", "", f"{pid} 1 1", "/bin/echo", "hi")
    argv = (sys.executable, "-I", "-S", str(start), *words)
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout == "hi\n"
    assert done.stderr.startswith(COPIED)
    assert done.stderr.endswith(f": /proc/{pid}/fd/1: {reason}\n")
