"""What a job said, in one line."""

import sys
import tracemalloc
from pathlib import Path

import pytest

from gpu_profile.command import make_command
from gpu_profile.runs import output_log
from gpu_profile.runs.output_log import OutputLog

FAILED = """\
{"step": 1, "step_ms": 10.2}
TypeError: forward() got an unexpected keyword argument
profile.py: rank 1 ended with exit code 1: ending the others
Generating '/tmp/nsys-report-75ca.qdstrm'

[1/1] [0%                          ] rank0.vm.nsys-rep\r[1/1] [=====100%] rank0.vm.nsys-rep
Generated:
    /wd/train-1/rank0.vm.nsys-rep
[1] Generated:
[1]     /wd/train-1/rank1.vm.nsys-rep
"""


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (FAILED, "TypeError: forward() got an unexpected keyword argument"),
        ("Generated:\n    /wd/a/rank0.h.nsys-rep\n", ""),
        (
            "[pod/a-master-0/pytorch] why\n[pod/a-master-0/pytorch] Generated:\n",
            "[pod/a-master-0/pytorch] why",
        ),
        (
            "[pod/a-worker-0/pytorch] why\n[pod/a-worker-0/pytorch] profile.py: rank 1 ended\n"
            "[pod/a-worker-0/pytorch] gpu-profile: a-worker-0 ended with 143; its reports are\n",
            "[pod/a-worker-0/pytorch] why",
        ),
        (
            "python: can't open file 'x.py'\nGenerated:\n"
            "profile.py: rank 0: nsys wrote no report: --steps 3:6: it made no step of PyTorch\n",
            "python: can't open file 'x.py'",
        ),
        (
            "CUDA out of memory\n"
            "[1] profile.py: rank 1: the recording ended after step 119; the program goes on\n",
            "CUDA out of memory",
        ),
        (
            "[pod/a] RuntimeError: no\n[pod/a] gpu-profile: a: no rank was seen below sh: x\n"
            "[pod/a] gpu-profile: a ended with 1; its reports are in /gpu-profile/a for 9 s\n",
            "[pod/a] RuntimeError: no",
        ),
        ("srun: error: n1: task 0: Killed\nGenerated:\n", "srun: error: n1: task 0: Killed"),
        ("why\n\rProcessing 9 events: [1%     ]\rProcessing 9 events: [==100%]\n", "why"),
        ("why\nGenerated:\n    /wd/a b #1/rank0.h.nsys-rep\n", "why"),
        ("one\ntwo \n\n", "two"),
        ("\x1b[1;31mred\x1b[0m\u202e\x9b2Jend\n\x00\x00\n\x07\n", "redend"),
        ("nsys 2025.3.1 from PATH: /a\nwhy\nsrun: error: n1: task 0: Exited with …\n", "why"),
        (
            "slurmstepd-n1: error: pyxis:     [ERROR] No such file: /a.sqsh\n"
            "slurmstepd-n1: error: pyxis: container was not started successfully by another task\n"
            "srun: error: n1: task 0: Exited with exit code 1\n",
            "slurmstepd-n1: error: pyxis:     [ERROR] No such file: /a.sqsh",
        ),
        ("why\n[1] Collecting data...\nCollecting data...\n", "why"),
        ("", ""),
    ],
)
def test_the_last_line_is_the_jobs_own(tmp_path: Path, said: str, line: str) -> None:
    log = tmp_path / "output.log"
    log.write_text(said)
    assert output_log.last_line(log) == line


def test_no_output_yet(tmp_path: Path) -> None:
    assert output_log.last_line(tmp_path / "output.log") == ""


def complete(log: Path, text: str, *secrets: str, code: int = 0) -> None:
    """Complete the log by that of an engine, which prints the text."""
    engine_log = log.with_name("engine.log")
    engine_log.write_text(text)
    command = make_command("sh", "-c", f"cat {engine_log}; exit {code}")
    OutputLog(log, lambda: secrets).complete(command)


def test_the_longer_of_both_is_kept_without_credentials(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_text("followed\n")
    complete(log, "followed\nhttps://me:abcdef@proxy.example/\n")
    assert log.read_text().startswith("followed\nhttps://")
    assert "abcdef" not in log.read_text()
    complete(log, "x" * 100, code=1)
    complete(log, f"No resources found in x namespace.{'x' * 100}")
    assert "xxx" not in log.read_text()


def test_the_kept_log_is_the_followed_one_though_hidden_values_made_it_shorter(
    tmp_path: Path,
) -> None:
    log = tmp_path / "output.log"
    log.write_text("b ***\na\n")
    complete(log, "a\nb hunter2xyz\n", "hunter2xyz")
    assert log.read_text() == "b ***\na\n"


def test_a_second_process_that_follows_does_not_repeat_lines(tmp_path: Path) -> None:
    """The first one was killed; the engine's own log has lost its first line since."""
    path = tmp_path / "output.log"
    log = OutputLog(path, tuple)
    for shown in ("1\n2\n3\n", "2\n3\n4\n"):
        with log.copy_in_background(make_command("printf", shown)):
            pass  # its end waits for the program's, which a pause would miss where that was first
    assert path.read_text() == "2\n3\n4\n"
    path.write_text("2\n")
    complete(path, "3\n")
    assert path.read_text() == "1\n2\n3\n"
    assert [file.name for file in tmp_path.iterdir() if "earlier" in file.name] == []


def test_a_link_that_the_job_left_is_replaced(tmp_path: Path) -> None:
    log, victim = tmp_path / "output.log", tmp_path / "victim"
    victim.write_text("a longer text than the job's\n")
    log.symlink_to(victim)
    complete(log, "a line\n")
    assert (log.read_text(), log.is_symlink()) == ("a line\n", False)


@pytest.mark.further
def test_a_large_output_takes_little_memory_and_a_cut_key_is_hidden(tmp_path: Path) -> None:
    """The key stands across two pieces of 64 KiB, in the engine's log and in the followed one."""
    log = tmp_path / "output.log"
    filler = "step 1\n" * 9000
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{'hunter2xyz' * 60}\n-----END RSA PRIVATE KEY-----\n"
    text = (filler + "-----BEGIN training-----\n" + "x" * 2300 + key + filler) * 16
    for path in (log, tmp_path / "engine.log"):
        path.write_text(text)
    tracemalloc.start()
    OutputLog(log, tuple).complete(make_command("cat", str(tmp_path / "engine.log")))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    kept = log.read_text()
    assert "hunter2xyz" not in kept
    assert (kept.count("step 1\n"), kept.count("BEGIN training")) == (288_000, 16)
    assert peak < 1 << 20


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_full_disk_ends_the_copy_and_not_by_a_traceback(small_disk: Path) -> None:
    log = OutputLog(small_disk / "output.log", lambda: ())
    print_much = make_command(sys.executable, "-c", "print('x' * 8_000_000)")
    with log.copy_in_background(print_much) as pause:
        pause(60)
    assert 0 < (small_disk / "output.log").stat().st_size <= 3 << 20
