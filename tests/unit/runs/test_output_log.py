"""What a job said, in one line."""

from pathlib import Path

import pytest

from gpu_profile.command import Result
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
        ("srun: error: n1: task 0: Killed\nGenerated:\n", "srun: error: n1: task 0: Killed"),
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
        ("", ""),
    ],
)
def test_the_last_line_is_the_jobs_own(tmp_path: Path, said: str, line: str) -> None:
    log = tmp_path / "output.log"
    log.write_text(said)
    assert output_log.last_line(log) == line


def test_no_output_yet(tmp_path: Path) -> None:
    assert output_log.last_line(tmp_path / "output.log") == ""


def test_the_longer_of_both_is_kept_without_credentials(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_text("followed\n")
    OutputLog(log, tuple).complete(
        Result(returncode=0, stdout="followed\nhttps://me:abcdef@proxy.example/\n")
    )
    assert log.read_text().startswith("followed\nhttps://")
    assert "abcdef" not in log.read_text()
    OutputLog(log, tuple).complete(Result(returncode=1, stdout="x" * 100))
    assert "xxx" not in log.read_text()


def test_the_kept_log_is_the_followed_one_though_hidden_values_made_it_shorter(
    tmp_path: Path,
) -> None:
    log = tmp_path / "output.log"
    log.write_text("b ***\na\n")
    OutputLog(log, lambda: ("hunter2xyz",)).complete(
        Result(returncode=0, stdout="a\nb hunter2xyz\n")
    )
    assert log.read_text() == "b ***\na\n"
