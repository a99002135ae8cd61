"""profile.py as one rank: its report's name, nsys' words, exit codes, refusals."""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import shelter

from gpu_profile.analysis.store.files import temporary
from tests.conftest import HOSTILE_NAMES
from tests.further import further, keep_first
from tests.unit.agent.wrapper import PROFILE, ROOT, Wrapper, python, wrapper_in


@pytest.fixture
def wrapper(tmp_path: Path) -> Wrapper:
    return wrapper_in(tmp_path)


def test_one_report_and_the_words_untouched(wrapper: Wrapper) -> None:
    hostile = ["two words", "$HOME", "--output=x", "", "new\nline"]
    done = wrapper.run("--trace=nvtx", "-y", "1", "--", *python("pass"), *hostile)
    # The fake takes the first word without dash for the command: `1` is -y's value.
    assert done.returncode != 0
    done = wrapper.run("--trace=nvtx", "--", *python("pass"), *hostile)
    assert (done.returncode, done.stderr) == (0, "")
    words = wrapper.recorded()["words"]
    assert words[:2] == ["profile", "--trace=nvtx"]
    assert words[2].startswith(f"--output={wrapper.out}/rank0.")
    assert words[-8:] == [sys.executable, "-c", "pass", *hostile]
    assert words[3].startswith("--session-new=gpu-profile-rank0-")
    assert Path(words[4]).name == Path(sys.executable).name  # the process' name in the report


@pytest.mark.further
def test_an_early_stop_waits_until_a_script_has_become_nsys(wrapper: Wrapper) -> None:
    """A signal would end the script in place of the program, and there would be no report."""
    began, script = wrapper.directory / "began", wrapper.directory / "wrapped"
    late = f"profile) echo >{shlex.quote(str(began))}; sleep 0.3 ;;"
    script.write_text(
        f'#!/bin/sh\ncase $1 in {late} esac\nexec {shlex.quote(str(wrapper.nsys))} "$@"\n'
    )
    script.chmod(0o755)
    started = replace(wrapper, nsys=script).start("--", *python("import time; time.sleep(600)"))
    while not began.exists():
        assert started.poll() is None
    started.send_signal(signal.SIGTERM)
    said, _ = started.communicate(timeout=60)
    assert started.returncode == 128 + signal.SIGTERM, said
    assert wrapper.reports() == ["rank0.nsys-rep"], said


def test_a_double_dash_after_the_first_is_the_program_s(wrapper: Wrapper) -> None:
    done = wrapper.run("--", *python("pass"), "--lr", "--", "0.1", "--")
    assert (done.returncode, done.stderr) == (0, "")
    assert wrapper.recorded()["words"][-4:] == ["--lr", "--", "0.1", "--"]


def test_the_program_has_our_umask_and_python_s_signals_are_not_ignored(wrapper: Wrapper) -> None:
    """nsys starts programs with umask 0: what they write would be everybody's to change."""
    argv = wrapper.argv("--", "grep", "-E", "^(Umask|SigIgn|SigBlk)", "/proc/self/status")
    done = subprocess.run(argv, umask=0o027, capture_output=True, text=True, check=True)
    facts = dict(line.split(":\t") for line in done.stdout.splitlines())
    assert facts["Umask"] == "0027"
    assert int(facts["SigIgn"], 16) & 1 << (signal.SIGPIPE - 1) == 0
    assert int(facts["SigBlk"], 16) == 0


def test_a_program_beside_profile_py_gets_the_profile_of_the_standard_library(
    tmp_path: Path,
) -> None:
    """cProfile imports `profile`, and `/` of our image has /profile.py."""
    (tmp_path / "profile.py").write_text((ROOT / "Container-Root" / "profile.py").read_text())
    (tmp_path / "user.py").write_text("import cProfile\ncProfile.run('sum([1])')\n")
    argv = (sys.executable, str(tmp_path / "user.py"))
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "built-in method builtins.sum" in done.stdout) == (0, True), done


def test_every_variable_reaches_the_program() -> None:
    """A shell would drop one whose name is no shell's name."""
    start = PROFILE.with_name("start_program.py")
    argv = (sys.executable, "-I", "-S", str(start), "", "0022", "", "", "/usr/bin/env")
    done = subprocess.run(argv, env={"A.B": "1"}, capture_output=True, text=True, check=True)
    assert "A.B=1" in done.stdout.splitlines()


def test_a_program_is_started_without_room_for_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report then has Python's name for the process."""
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    with shelter.wrap_command(["/bin/true"], unblock=False) as program:
        assert program.words[0] == sys.executable
        assert program.has_started(), "nobody knows"
        assert program.words[-4:-2] == [f"{shelter._umask():04o}", ""]
        assert program.words[-1] == "/bin/true"


def test_the_folder_of_a_program_that_runs_is_not_swept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with shelter.wrap_command(["/bin/true"], unblock=False) as program:
        (folder,) = tmp_path.iterdir()
        os.utime(folder, (0, 0))
        temporary.sweep()
        assert Path(program.words[0]).parents[1] == folder
        assert Path(program.words[0]).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="agents are seen in /proc")
@pytest.mark.parametrize("code", [0, further(1)])
def test_an_nsys_that_lost_its_agent_before_the_program_began_is_started_again(
    wrapper: Wrapper, code: int
) -> None:
    done = wrapper.run(f"--fake=agent:{code}", "--", *python("print('hi')"))
    assert (done.returncode, done.stdout, wrapper.reports()) == (0, "hi\n", ["rank0.nsys-rep"])
    line = "nsys ended before it started the program; nsys is started again\n"
    assert done.stderr == f"profile.py: rank 0: {line}"


@pytest.mark.skipif(sys.platform != "linux", reason="agents are seen in /proc")
def test_a_program_that_never_began_is_no_success(wrapper: Wrapper) -> None:
    """nsys 2023.4.4 ends with 0 where it lost its agent. Other ranks would wait for this one."""
    done = wrapper.run("--fake=agents:0", "--", *python("print('hi')"))
    assert (done.returncode, done.stdout, wrapper.reports()) == (1, "", [])
    assert done.stderr.endswith("nsys wrote no report: see its own message above\n")


def test_options_that_nsys_refuses_are_refused_once(wrapper: Wrapper) -> None:
    done = wrapper.run("--fake=usage", "--", *python("print('hi')"))
    refusal = "Illegal --trace argument 'x'\n"
    line = "profile.py: rank 0: nsys wrote no report: see its own message above\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", refusal + line)


def test_a_full_temporary_folder_is_refused(wrapper: Wrapper, small_disk: Path) -> None:
    """A real nsys 2023.4.4 waits for ever there, when its program has ended."""
    done = wrapper.run("--", "true", TMPDIR=str(small_disk))
    line = f"profile.py: {small_disk} has less than 16 MB free, and nsys records there: make room,"
    assert (done.returncode, wrapper.reports()) == (2, [])
    assert done.stderr == f"{line} or set TMPDIR to another place\n"


FILLS = """
import os, signal, time
folder = os.environ["TMPDIR"]
with open(f"{folder}/stream", "wb", 0) as stream:
    try:
        while True:
            stream.write(bytes(1 << 20))
    except OSError:
        time.sleep(1.5)
os.kill(os.getpid(), signal.SIGSEGV)
"""


def test_a_temporary_folder_that_fills_up_is_named(wrapper: Wrapper, small_disk: Path) -> None:
    """As with a real nsys 2023.4.4, whose library ends the program there."""
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    done = wrapper.run("--discard-environment=true", "--", *python(FILLS), TMPDIR=str(small_disk))
    assert (done.returncode, wrapper.reports()) == (139, ["rank0.nsys-rep"])
    line = f"profile.py: rank 0 ended with exit code 139; {small_disk} had 0.0 MB free while nsys"
    assert line in done.stderr


def test_a_file_that_is_no_program(wrapper: Wrapper) -> None:
    (wrapper.directory / "data").write_bytes(b"\0\1")
    (wrapper.directory / "data").chmod(0o755)
    done = wrapper.run("--", "./data")
    assert (done.returncode, done.stderr) == (126, "profile.py: ./data: Exec format error\n")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise SystemExit(42)", 42),
        (f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})", 137),
        (f"import os; os.kill(os.getpid(), {int(signal.SIGSEGV)})", 139),
    ],
)
@pytest.mark.parametrize("plain", [False, True])
def test_the_jobs_exit_code_is_ours(
    wrapper: Wrapper, code: str, expected: int, plain: bool
) -> None:
    done = wrapper.run(*["--plain"] * plain, "--", *python(code))
    # A plain rank is the program itself, and a signal ends it as one.
    assert (128 - done.returncode if done.returncode < 0 else done.returncode) == expected
    assert wrapper.reports() == ([] if plain else ["rank0.nsys-rep"])


@pytest.mark.parametrize(
    ("options", "expected"),
    keep_first(1, [(("--duration=0.1",), 0), (("--duration=0.1", "--kill=none"), 143)]),
)
def test_a_job_that_nsys_ended_as_asked_is_no_failure(
    wrapper: Wrapper, options: tuple[str, ...], expected: int
) -> None:
    assert wrapper.run(*options, "--", "sleep", "20").returncode == expected


def test_no_report_is_said_and_changes_no_exit_code(wrapper: Wrapper) -> None:
    done = wrapper.run("--fake=nothing", "--", *python("raise SystemExit(3)"))
    assert done.returncode == 3
    assert "profile.py: rank 0: nsys wrote no report" in done.stderr


def test_a_stream_without_importer_is_kept_and_named(wrapper: Wrapper) -> None:
    done = wrapper.run("--fake=stream", "--", *python("pass"), PATH="/usr/bin:/bin")
    (stream,) = wrapper.out.glob("rank0.*.qdstrm")
    assert done.returncode == 0
    assert f"{stream} is a recording that no importer here reads" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="streams are seen in /proc")
def test_the_stream_of_an_agent_that_ended_early_is_kept_and_named(wrapper: Wrapper) -> None:
    done = wrapper.run("--fake=lost", "--", *python("pass"), PATH="/usr/bin:/bin")
    (stream,) = wrapper.out.glob("*.qdstrm")
    assert stream.name.startswith("rank0.")
    assert stream.read_bytes() == b"recorded"
    assert f"{stream} is a recording that no importer here reads" in done.stderr


def test_a_stream_beside_its_report_is_no_loss(wrapper: Wrapper) -> None:
    """nsys 2025.3.1 leaves the .qdstrm of a JAX program beside its report."""
    done = wrapper.run("--fake=both", "--", *python("pass"), PATH="/usr/bin:/bin")
    assert (done.returncode, done.stderr) == (0, "")
    assert wrapper.reports() == ["rank0.nsys-rep"]


REFUSALS = {
    "no command: write it after --": (2, ("--trace=nvtx",)),
    "no command: write it after --, as": (2, ("--",)),
    "no-such-program: command not found": (127, ("--", "no-such-program")),
    "./notes.txt is not executable": (126, ("--", "./notes.txt")),
    "no nsys: /no/nsys not found": (127, ("--nsys=/no/nsys", "--", "true")),
    "--ranks '0;1' is not a list of ranks: use": (2, ("--ranks=0;1", "--", "true")),
    "RANK='one' is not a number": (2, ("--", "true")),
    "2 nodes have no MASTER_ADDR": (2, ("--processes=2", "--", "true")),
}


@pytest.mark.parametrize(("line", "case"), REFUSALS.items(), ids=REFUSALS)
def test_refused(wrapper: Wrapper, line: str, case: tuple[int, tuple[str, ...]]) -> None:
    (wrapper.directory / "notes.txt").write_text("")
    environ = {"RANK": "one"} if line.startswith("RANK") else {}
    if "nodes" in line:
        environ = {"PET_NODE_RANK": "0", "PET_NNODES": "2"}
    code, words = case
    done = wrapper.run(*words, **environ)
    assert (done.returncode, wrapper.reports()) == (code, [])
    assert done.stderr.startswith(f"profile.py: {line}")
    assert done.stderr.count("\n") == 1


def test_no_report_is_overwritten(wrapper: Wrapper) -> None:
    assert wrapper.run("--", "true").returncode == 0
    before = wrapper.recorded()
    done = wrapper.run("--", "true")
    assert done.returncode == 2
    assert "nsys-rep exists: name another --output" in done.stderr
    assert wrapper.recorded() == before


def test_any_output_directory(wrapper: Wrapper) -> None:
    """Each name is a folder in the one before."""
    odd = Wrapper(wrapper.directory.joinpath(*HOSTILE_NAMES), wrapper.nsys)
    odd.directory.mkdir(parents=True)
    assert odd.run("--", "true").returncode == 0
    assert odd.reports() == ["rank0.nsys-rep"]


def test_the_job_gets_its_whole_environment_and_the_report_names_what_it_holds(
    wrapper: Wrapper,
) -> None:
    given = {"API_TOKEN": "hunter2", "MY_MODE": "fast", "NVSHMEM_DISABLE_NVLS": "1", "DB_PASS": "x"}
    done = wrapper.run("--", "true", **given)
    assert given.items() <= wrapper.recorded()["environment"].items()
    (line,) = done.stderr.splitlines()
    assert "rank 0: this nsys records environments, and the report holds API_TOKEN, DB_PASS" in line
    assert "`invoke scrub`" in line


def test_an_nsys_that_discards_environments_needs_no_help(wrapper: Wrapper) -> None:
    done = wrapper.run("--discard-environment=true", "--", "true", API_TOKEN="hunter2")
    assert done.stderr == ""
    assert "NSYS_CONFIG_DIRECTIVES" not in wrapper.recorded()["environment"]


def test_a_rank_that_is_not_chosen_runs_plainly(wrapper: Wrapper) -> None:
    done = wrapper.run("--ranks=0,2-3", "--", *python("print('hi')"), RANK="1", LOCAL_RANK="1")
    assert (done.returncode, done.stdout, wrapper.reports()) == (0, "hi\n", [])


@pytest.mark.parametrize("local_rank", ["0", "1"])
def test_counters_on_the_first_rank_of_a_node_only(wrapper: Wrapper, local_rank: str) -> None:
    wrapper.run("--first=--nic-metrics=lf", "--", "true", RANK="8", LOCAL_RANK=local_rank)
    assert ("--nic-metrics=lf" in wrapper.recorded(8)["words"]) == (local_rank == "0")
