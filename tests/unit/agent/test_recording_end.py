"""The end of a recording by default: profile.py ends its own session, and the program goes on."""

import signal
import sys
from pathlib import Path

import pytest

from tests.further import further
from tests.unit.agent.wrapper import Wrapper, python, wrapper_in

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="marks use Unix sockets")
ASKS = """
import glob, os, socket
line = socket.socket(socket.AF_UNIX)
line.connect(os.environ["GPU_PROFILE_STEPS_END"])
line.sendall(b"end step 59\\n")
print(line.recv(1), line.recv(1), len(glob.glob("out/*.nsys-rep")), flush=True)
raise SystemExit(7)
"""
"""Does what the marks do at the last step."""
OTHER_ENDS = (
    *("--whole", "--env-var=GPU_PROFILE_WHOLE=1", "--annotate=none", "--steps=2:4"),
    *("--capture-range=nvtx", "--delay=1", "--session-new=mine"),
)


@pytest.fixture
def wrapper(tmp_path: Path) -> Wrapper:
    return wrapper_in(tmp_path)


def test_the_report_is_complete_while_the_program_runs(wrapper: Wrapper) -> None:
    done = wrapper.run("--", *python(ASKS))
    assert (done.returncode, done.stdout) == (7, "b's' b'w' 1\n")
    assert done.stderr == (
        "profile.py: rank 0: the recording ended after step 59; the program goes on\n"
    )
    (name,) = (word for word in wrapper.recorded()["words"] if "session" in word)
    assert name.startswith("--session=gpu-profile-rank0-")
    (report,) = wrapper.out.glob("*.nsys-rep")
    assert report.stat().st_mode & 0o777 == 0o600


@pytest.mark.further
def test_a_temporary_folder_may_have_a_long_name(wrapper: Wrapper) -> None:
    """A socket's path has 107 bytes at most."""
    folder = wrapper.directory / ("long" * 40)
    folder.mkdir()
    here = "os.chdir(os.path.dirname(os.environ['GPU_PROFILE_STEPS_END']))\nline.connect('end')"
    code = ASKS.replace('line.connect(os.environ["GPU_PROFILE_STEPS_END"])', here)
    done = wrapper.run("--", *python(code), TMPDIR=str(folder))
    assert (done.returncode, done.stdout) == (7, "b's' b'w' 0\n"), done.stderr


def test_a_recording_that_nsys_does_not_end_goes_on(wrapper: Wrapper) -> None:
    done = wrapper.run("--fake=unstoppable", "--", *python(ASKS))
    assert (done.returncode, done.stdout) == (7, "b'f' b'w' 0\n")
    line = "the recording goes on: nsys stop: Connection to Agent lost."
    assert done.stderr == f"profile.py: rank 0: {line}\n"
    assert wrapper.recorded()["words"][0] == "profile"


@pytest.mark.parametrize("word", [*OTHER_ENDS[-2:], *map(further, OTHER_ENDS[:-2])])
def test_a_window_and_a_session_of_the_user_s_have_no_other_end(
    wrapper: Wrapper, word: str
) -> None:
    code = "import os; print('GPU_PROFILE_STEPS_END' in os.environ)"
    done = wrapper.run(word, "--", *python(code))
    assert (done.returncode, done.stdout) == (0, "False\n")
    sessions = [text for text in wrapper.recorded()["words"] if text.startswith("--session")]
    assert sessions == [text for text in (word,) if text.startswith("--session")]


def test_the_program_outlives_profile_py(wrapper: Wrapper) -> None:
    code = """
import os, signal, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(os.environ["GPU_PROFILE_STEPS_END"])
print("ready", flush=True)
line.recv(1) or open("went-on", "w").close()
"""
    process = wrapper.start("--", *python(code))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.stdout.read()  # until the program and the fake nsys have ended
    process.stdout.close()
    assert (wrapper.directory / "went-on").exists()


def test_a_rank_whose_profile_py_is_killed_ends_with_its_program(wrapper: Wrapper) -> None:
    code = """
import os, signal, sys, time
if os.environ["RANK"] == "1":
    agent = int(open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1])
    os.kill(agent, signal.SIGKILL)
    while not os.path.exists("rank-0-ends"):
        time.sleep(0.05)
    time.sleep(0.5)
print("ends", os.environ["RANK"], flush=True)
open("rank-0-ends", "w").close()
raise SystemExit(3 * int(os.environ["RANK"]))
"""
    done = wrapper.run("--processes=2", "--", *python(code))
    assert done.returncode == 3
    assert "profile.py of rank 1 was killed: its program goes on\n" in done.stderr
    assert "ends 0" in done.stdout
    assert "ends 1" in done.stdout


def test_steps_of_a_plain_run_are_timed_where_marks_are_asked_for(wrapper: Wrapper) -> None:
    code = "import os; print(os.environ.get('GPU_PROFILE_STEPS_FILE', ''))"
    timed = wrapper.run("--plain", "--annotate=steps", "--", *python(code))
    assert Path(timed.stdout.strip()).parent == wrapper.out
    assert wrapper.run("--plain", "--", *python(code)).stdout == "\n"
