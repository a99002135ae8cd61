"""profile.py around a real nsys, on a machine without a GPU: what the fake one stands for."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import make_command
from gpu_profile.job import PRESETS, Preset, ProfileSpec
from gpu_profile.nsys import export, options
from gpu_profile.nsys.python_functions import Attributes, make_trace_file
from gpu_profile.runs.reports.export_report import run_export
from tests.unit.agent.wrapper import Wrapper, python

pytestmark = pytest.mark.nsys
QUIET = ("--trace=osrt", "--sample=none", "--cpuctxsw=none")
BUSY = "import time; print('ready', flush=True)\nfor _ in range({tenths}): time.sleep(0.1)"


@pytest.fixture
def wrapper(nsys: str, tmp_path: Path) -> Wrapper:
    return Wrapper(tmp_path, Path(nsys))


@pytest.fixture(scope="session")
def help_text(nsys: str) -> str:
    return process.run(make_command(nsys, "profile", "--help")).stdout


def events(wrapper: Wrapper, table: str) -> int:
    """Rows of a table of the one report, exported by nsys itself."""
    (report,) = wrapper.out.glob("*.nsys-rep")
    output = report.with_suffix(".sqlite")
    done = run_export(export.export_command((str(wrapper.nsys),), report, output))
    assert done.returncode == 0, done.last_line
    with sqlite3.connect(output) as database:
        has_table = database.execute(
            "SELECT 1 FROM sqlite_master WHERE name = ?", (table,)
        ).fetchone()
        rows = database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] if has_table else 0
    database.close()
    return int(rows)


@pytest.mark.parametrize("preset", PRESETS)
def test_each_preset_is_accepted_and_records(
    wrapper: Wrapper, help_text: str, preset: Preset
) -> None:
    spec = ProfileSpec(preset=preset)
    words = options.profile_options(spec, help_text, gpus=False)
    first = (f"--first={word}" for word in options.first_options(spec, help_text, gpus=False))
    done = wrapper.run(*words, *first, "--", *python(BUSY.format(tenths=5)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert options.expected_kinds(spec, words, gpus=False) == {"osrt"}
    assert events(wrapper, "OSRT_API") > 0


def test_options_for_gpus_are_accepted_without_one(wrapper: Wrapper, help_text: str) -> None:
    spec = ProfileSpec(capture_range="cudaProfilerApi")
    done = wrapper.run(*options.profile_options(spec, help_text), "--", "true")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nsys wrote no report: its window was never reached" in done.stderr


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise SystemExit(42)", 42),
        ("import os; os.kill(os.getpid(), 9)", 137),
    ],
)
def test_the_jobs_exit_code(wrapper: Wrapper, code: str, expected: int) -> None:
    assert wrapper.run(*QUIET, "--", *python(code)).returncode == expected
    assert wrapper.reports() == ["rank0.nsys-rep"]


READS = """
import time
with open("/dev/zero", "rb", 0) as zeros:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        zeros.read(1 << 16)
"""


def test_a_temporary_folder_that_fills_up_is_named(wrapper: Wrapper, small_disk: Path) -> None:
    """nsys' library ends the program there, or nsys waits for room."""
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    done = wrapper.run(*QUIET, "--", *python(READS), TMPDIR=str(small_disk))
    assert done.returncode != 0
    assert f"; {small_disk} had " in done.stderr
    assert "free while nsys recorded there: make room, or set TMPDIR" in done.stderr


def test_a_window_ends_and_the_jobs_exit_code_is_still_ours(wrapper: Wrapper) -> None:
    """nsys itself ends with the window, with code 0, while the job goes on."""
    code = f"{BUSY.format(tenths=30)}\nraise SystemExit(7)"
    started = time.monotonic()
    done = wrapper.run(*QUIET, "--duration=1", "--kill=none", "--", *python(code))
    assert done.returncode == 7
    assert time.monotonic() - started > 3
    assert wrapper.reports() == ["rank0.nsys-rep"]


def test_a_job_that_nsys_ended_as_asked(wrapper: Wrapper) -> None:
    done = wrapper.run(*QUIET, "--duration=1", "--", *python(BUSY.format(tenths=100)))
    assert (done.returncode, wrapper.reports()) == (0, ["rank0.nsys-rep"])


@pytest.mark.parametrize(
    ("signum", "words"),
    [
        (signal.SIGINT, ()),
        (signal.SIGTERM, ()),
        (signal.SIGHUP, ()),
        (signal.SIGTERM, ("--processes=2",)),
        (signal.SIGINT, ("--duration=1", "--kill=none")),
    ],
)
def test_a_signal_costs_no_report(
    wrapper: Wrapper, signum: signal.Signals, words: tuple[str, ...]
) -> None:
    """With the window, it comes while nsys finalises: a signal to nsys would end that."""
    process_ = wrapper.start(*QUIET, *words, "--", *python(BUSY.format(tenths=150)))
    assert process_.stdout is not None
    ready = (line for line in process_.stdout if "ready" in line)
    ranks = 2 if "--processes=2" in words else 1
    for _ in range(ranks):
        next(ready)
    time.sleep(1)
    process_.send_signal(signum)
    said = process_.stdout.read()
    process_.stdout.close()
    expected = signal.SIGINT if signum == signal.SIGINT else signal.SIGTERM
    assert process_.wait(60) == 128 + expected, said
    assert wrapper.reports() == ["rank0.nsys-rep", "rank1.nsys-rep"][:ranks], said


def test_a_signal_while_nsys_starts_costs_no_report(wrapper: Wrapper) -> None:
    started = wrapper.start(*QUIET, "--", *python(BUSY.format(tenths=600)))
    while not nsys_runs(started):
        assert started.poll() is None
    started.send_signal(signal.SIGTERM)
    said, _ = started.communicate(timeout=200)
    assert started.returncode == 128 + signal.SIGTERM, said
    assert wrapper.reports() == ["rank0.nsys-rep"], said


def nsys_runs(parent: "subprocess.Popen[str]") -> bool:
    """Whether its `nsys profile`, the first of a session, is there."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, name, _, above, _, session = stat.read_text().split()[:6]
            if (name, above, session) == ("(nsys)", str(parent.pid), pid):
                return True
    return False


def test_what_a_shell_leaves_running_ends_with_it(wrapper: Wrapper) -> None:
    """nsys waits for it; by force it would end in half the grace."""
    started = wrapper.start(*QUIET, "--grace=600", "--", "sh", "-c", "echo ready; sleep 600; true")
    assert started.stdout is not None
    next(line for line in started.stdout if "ready" in line)
    started.send_signal(signal.SIGTERM)
    started.communicate(timeout=200)
    assert started.returncode == 128 + signal.SIGTERM
    assert wrapper.reports() == ["rank0.nsys-rep"]


def test_a_signal_after_the_window_ends_the_program(wrapper: Wrapper) -> None:
    window = ("--grace=600", "--duration=1", "--kill=none")
    started = wrapper.start(*QUIET, *window, "--", *python(BUSY.format(tenths=6000)))
    assert started.stdout is not None
    next(line for line in started.stdout if line.rstrip().endswith(".nsys-rep"))
    time.sleep(2)  # nsys itself ends now, its launcher and agent with the program
    started.send_signal(signal.SIGTERM)
    started.communicate(timeout=200)
    assert started.returncode == 128 + signal.SIGTERM
    assert wrapper.reports() == ["rank0.nsys-rep"]


def test_a_job_that_ignores_the_signal_is_ended_and_reported(wrapper: Wrapper) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    started = wrapper.start(*QUIET, "--grace=20", "--", *python(deaf + BUSY.format(tenths=600)))
    assert started.stdout is not None
    next(line for line in started.stdout if "ready" in line)
    started.send_signal(signal.SIGTERM)
    started.stdout.read()
    started.stdout.close()
    assert started.wait(40) == 137
    assert wrapper.reports() == ["rank0.nsys-rep"]


def test_a_long_recording_is_finalised_whatever_its_grace(wrapper: Wrapper, annotated: str) -> None:
    """nsys needs seconds for this, and one is left after the program was killed."""
    code = (
        "import nvtx\nfor i in range(600_000):\n    nvtx.push_range('r')\n    nvtx.pop_range()\n"
        "print('ready', flush=True)\nimport time\ntime.sleep(600)"
    )
    options = ("--trace=nvtx", "--sample=none", "--cpuctxsw=none", "--grace=1")
    started = wrapper.start(*options, "--processes=2", "--", annotated, "-c", code)
    assert started.stdout is not None
    ready = (line for line in started.stdout if "ready" in line)
    next(ready), next(ready)
    started.send_signal(signal.SIGTERM)
    started.stdout.read()
    started.stdout.close()
    assert started.wait(300) == 128 + signal.SIGTERM
    assert wrapper.reports() == ["rank0.nsys-rep", "rank1.nsys-rep"]


def test_no_environment_is_in_the_report(wrapper: Wrapper) -> None:
    """Of the program, a child with other variables, and a parent that nsys can read."""
    child = (
        "import os, subprocess as s; assert os.environ['API_TOKEN'] == 'hunter2xyz';"
        "s.run(['sleep', '1'], env={**os.environ, 'OF_CHILD': 'child-' + 'only-7'});"
        "s.run(['sleep', '1', os.environ['API_TOKEN']])"
    )
    given = {"API_TOKEN": "hunter2xyz", "PLAIN_THING": "plain-thing-9", "RANK": "0"}
    done = wrapper.run(*QUIET, "--export=sqlite", "--", *python(child), LOCAL_RANK="0", **given)
    assert "records environments" not in done.stderr
    (report,) = wrapper.out.glob("*.nsys-rep")
    (exported,) = wrapper.out.glob("*.sqlite")
    for file in (report, exported):
        content = file.read_bytes()
        for text in (b"hunter2xyz", b"child-only-7", b"plain-thing-9"):
            assert text not in content, file
    assert events(wrapper, "OSRT_API") > 0
    with closing(sqlite3.connect(exported)) as database:
        query = "SELECT value FROM META_DATA_CAPTURE WHERE name LIKE '%ENVIRONMENT_VARIABLE'"
        assert 'RANK="0"' in {value for (value,) in database.execute(query)}


def test_a_program_has_our_umask_and_its_own_name_in_the_report(
    wrapper: Wrapper, annotated: str
) -> None:
    """Between nsys and the program stands start_program.py, which the report does not show."""
    program = wrapper.directory / "train"
    code = "import nvtx, os\nfor _ in range(10):\n    with nvtx.annotate('r'): pass\n"
    code += "print(f'umask {os.umask(0):o}')"
    program.write_text(f"#!{annotated}\n{code}\n")
    program.chmod(0o755)
    done = wrapper.run("--trace=nvtx", *QUIET[1:], "--export=sqlite", "--", str(program))
    ours = os.umask(0o022)
    os.umask(ours)
    assert f"umask {ours:o}" in done.stdout.splitlines()
    (exported,) = wrapper.out.glob("*.sqlite")
    ranges = "SELECT globalTid >> 24 << 24 FROM NVTX_EVENTS WHERE eventType = 59"
    with closing(sqlite3.connect(exported)) as database:
        processes = [pid for (pid,) in database.execute(ranges)]
        names = dict(database.execute("SELECT globalPid, name FROM PROCESSES"))
    assert [Path(names[pid]).name for pid in processes] == ["train"] * 10


@pytest.fixture
def annotated() -> str:
    """A Python whose nvtx package this machine's nsys can read: NVTX_PYTHON, or the tests' own."""
    interpreter = os.environ.get("NVTX_PYTHON") or sys.executable
    if process.run(make_command(interpreter, "-c", "import nvtx")).returncode:
        pytest.skip(f"nsys: {interpreter} has no nvtx package; NVTX_PYTHON names one that has")
    return interpreter


def test_repeated_windows_are_a_report_each(
    wrapper: Wrapper, help_text: str, annotated: str
) -> None:
    code = "import nvtx\nfor _ in range(3):\n    with nvtx.annotate('window'): pass"
    spec = ProfileSpec(
        trace="nvtx",
        capture_range="nvtx",
        capture_range_end="repeat:2",
        nsys_args=("--nvtx-capture=window@*", "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0"),
    )
    words = options.profile_options(spec, help_text, gpus=False)
    done = wrapper.run(*words, "--", annotated, "-c", code)
    assert done.returncode == 0, done.stdout + done.stderr
    names = sorted(path.name.split(".", 2)[-1] for path in wrapper.out.glob("rank0.*"))
    assert names == ["1.nsys-rep", "2.nsys-rep"]


def test_functions_of_a_trace_file_are_recorded(
    wrapper: Wrapper, help_text: str, annotated: str
) -> None:
    file = wrapper.directory / "functions.json"
    steps = make_trace_file(["json:dumps"], Attributes(domain="mine"), python=annotated)
    file.write_text(process.drive(steps))
    spec = ProfileSpec(trace="nvtx", python_functions_trace=file)
    words = options.profile_options(spec, help_text, gpus=False)
    wrapper.run(*words, "--", annotated, "-c", "import json; json.dumps([1])")
    assert events(wrapper, "NVTX_EVENTS") > 0
