"""A full disk at each step of a run: nothing is lost in silence, and the line says how to go on."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import Command, Result, Steps, make_command
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.errors import ReportError, ToolError
from gpu_profile.job_status import JobStatus
from gpu_profile.launchers.docker.launcher import DockerLauncher
from gpu_profile.progress import Progress
from gpu_profile.runs import record as rundir
from gpu_profile.runs.output_log import last_line
from gpu_profile.runs.record import RunRecord
from gpu_profile.runs.reports import validate as report
from gpu_profile.runs.reports.export_report import check_export
from gpu_profile.runs.runner import Runner
from gpu_profile.settings.places import ROOT
from tests.invoked import invoke

RUN = RunRecord(
    id="train-1", launcher="docker", command=("x",), handle="docker://train-1", phase="running"
)
NSYS = """x x x
Generating '/tmp/nsys-report-7cfb.qdstrm'
Failed to create '/wd/train-1/rank0.vm.qdstrm': No space left on device.
[1/1] [0%                          ] rank0.vm.nsys-rep
Generated:
    /tmp/nsys-report-7cfb.qdstrm
"""


def test_a_recording_without_room_for_its_report_is_named(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_text(NSYS)
    with pytest.raises(ReportError, match=r"a disk was full \(No space left on device\)") as full:
        report.check_ranks((), [0], tmp_path)
    assert "recording in /tmp/nsys-report-7cfb.qdstrm, in the job, which is kept" in str(full.value)


def test_a_recording_is_found_by_the_name_of_its_pod(tmp_path: Path) -> None:
    lines = [f"[pod/train-1-master-0/pytorch] {line}" for line in NSYS.splitlines()]
    (tmp_path / "output.log").write_text("\n".join(lines))
    with pytest.raises(
        ReportError, match=r"recording in /tmp/nsys-report-7cfb\.qdstrm, in the job"
    ):
        report.check_ranks((), [0], tmp_path)


def test_a_full_disk_without_a_recording_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_text("write /wd/x: No space left on device\n")
    with pytest.raises(ReportError, match=r"a disk was full .* run it again\.$"):
        report.check_ranks((), [0], tmp_path)


def test_the_log_is_not_followed_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(NSYS)
    (tmp_path / "output.log").symlink_to("elsewhere")
    with pytest.raises(ReportError, match="for the profiler's own words"):
        report.check_ranks((), [0], tmp_path)


@pytest.mark.parametrize("words", ["No space left on device", "database or disk is full"])
def test_an_export_without_room_is_named(tmp_path: Path, words: str) -> None:
    rep = tmp_path / "rank0.h.nsys-rep"
    with pytest.raises(ReportError, match=f"the disk of {tmp_path}, or .*, is full") as full:
        check_export(rep, tmp_path / "x.sqlite", Result(returncode=1, stderr=f"{words}\n"))
    assert f"`invoke fetch --job {tmp_path.name}` tries again" in str(full.value)


def test_advice_is_no_reason() -> None:
    stderr = "docker: error during connect: EOF\n\nRun 'docker run --help' for more information\n"
    assert Result(returncode=125, stderr=stderr).last_line == "docker: error during connect: EOF"


def test_the_last_line_of_tar_is_no_reason() -> None:
    reason = "tar: job.py: Cannot write: No space left on device"
    last = "tar: Exiting with failure status due to previous errors"
    assert Result(returncode=2, stderr=f"{reason}\n{last}\n").last_line == reason


class FullDisk(DockerLauncher):
    """An engine whose answer finds this machine's disk full."""

    def status(self, job_id: str) -> Steps[JobStatus]:
        yield make_command("true")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_run_without_room_for_its_record_is_left_as_it_is(tmp_path: Path) -> None:
    directory = rundir.create_run(tmp_path, "train-1")
    rundir.save_run(RUN, directory)
    launcher = FullDisk(image=ImageRef(name="x"), report_dir=tmp_path)
    runner = Runner(launcher=launcher, directory=directory, progress=Progress())
    with pytest.raises(ToolError, match="No space left on device; train-1 is left") as full:
        runner.finish(RUN)
    assert "Make room; `invoke fetch --job train-1` goes on" in str(full.value)
    assert rundir.load_run(directory).phase == "running"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A REPORT_DIR of 64 kB."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = process.run(make_command("mount", "-t", "tmpfs", "-o", "size=64k", "t", str(place)))
    if mounted.returncode:
        pytest.skip(f"no tmpfs: {mounted.last_line}")
    yield place
    process.run(make_command("umount", "--lazy", str(place)))


def test_a_run_goes_on_when_there_is_room_again(
    small: Path, tmp_path: Path, fake_tool: Callable[..., object]
) -> None:
    """The output of a job fills the disk; `fetch` goes on after the user has made room."""
    engine = """
case "$1 $2 $3" in
  *.Config.Env*) echo '["PATH=/bin"]' ;;
  "container inspect"*) printf '%s\\n%s\\n' '{"Status":"exited","ExitCode":0}' \\
    '{"gpu-profile.run":"train-1"}' ;;
  "logs train-1"*) head -c 40000 /dev/zero | tr '\\0' x ;;
esac
"""
    fake_tool("docker", engine)
    rundir.save_run(RUN, rundir.create_run(small, "train-1"))
    fill = small / "fill"
    fill.write_bytes(b"x" * 30000)
    words = ("fetch", "--job", "train-1", "--set", f"REPORT_DIR={small}")
    full = invoke(*words, directory=tmp_path)
    assert full.returncode == 3, full.stderr
    assert "Make room; `invoke fetch --job train-1` goes on" in full.stderr
    assert rundir.load_run(small / "train-1").phase == "running"
    fill.unlink()
    done = invoke(*words, directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (small / "train-1" / "output.log").stat().st_size == 40000
    assert [path.name for path in small.glob("*/.*")] == []


def test_a_file_without_room_leaves_no_draft(small: Path) -> None:
    command = Command(argv=("head", "-c", "100000", "/dev/zero"), stdout_file=small / "whole")
    process.run(command)
    assert list(small.iterdir()) == []


def test_a_scrubbed_copy_without_room_is_not_blamed_on_the_report(
    small: Path, tmp_path: Path
) -> None:
    report = ROOT / "tests" / "data" / "annotated" / "gemm" / "rank0.sqlite.gz"
    words = ("scrub", f"--report={report}", f"--output={small}")
    full = invoke(*words, directory=tmp_path)
    assert (full.returncode, full.stderr.splitlines()[-1]) == (
        3,
        f"error: {small}: No space left on device. Make room, or choose another place.",
    )
    assert list(small.iterdir()) == []


def test_the_engines_words_are_not_the_jobs_last_line(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_text("step 7\nunexpected EOF\n")
    assert last_line(log) == "step 7"
