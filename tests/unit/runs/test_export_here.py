"""Reports of pods are exported by the nsys of this machine, and the line without one is true."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile.command import Command, Steps
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.errors import ReportError
from gpu_profile.job_status import JobState, JobStatus
from gpu_profile.launchers.docker.launcher import DockerLauncher
from gpu_profile.progress import Progress
from gpu_profile.runs import record as rundir
from gpu_profile.runs.record import RunRecord
from gpu_profile.runs.runner import Runner
from gpu_profile.settings.places import ROOT
from tests.unit.settings_for import settings_for

REPORT = ROOT / "tests" / "data" / "h200x4-ddp" / "rank0.sqlite.gz"
RUN = RunRecord(
    id="train-1", launcher="docker", command=("x",), handle="docker://train-1", ranks=(0,)
)
EXPORT = (
    'for word; do case $word in --output=*) cp "${0%/*}/report" "${word#--output=}" ;; esac; done'
)


class ElsewhereLauncher(DockerLauncher):
    """A job that has ended elsewhere, with a report that its engine cannot export."""

    def status(self, job_id: str) -> Steps[JobStatus]:
        yield from ()
        return JobStatus(state=JobState.SUCCEEDED, exit_code=0)

    def fetch(self, job_id: str, to: Path) -> Steps[None]:
        yield from ()
        (to / "rank0.h.nsys-rep").write_text("recording")

    def export(self, job_id: str, report: Path, output: Path) -> Command | None:
        return None

    def cleanup(self, job_id: str) -> Steps[None]:
        yield from ()


def make_runner(directory: Path, nsys: str) -> Runner:
    launcher = ElsewhereLauncher(image=ImageRef(name="x"), report_dir=directory.parent)
    return Runner(launcher=launcher, directory=directory, progress=Progress(), nsys=nsys)


def test_a_report_is_read_once_nsys_is_set(
    tmp_path: Path, fake_tool: Callable[..., object]
) -> None:
    fake_tool("docker")  # its logs
    fake_tool("my-nsys", EXPORT)
    (tmp_path / "bin" / "report").write_bytes(gzip.decompress(REPORT.read_bytes()))
    directory = rundir.create_run(tmp_path, "train-1")
    rundir.save_run(RUN, directory)
    with pytest.raises(ReportError, match="was fetched, not read: no /absent/nsys here") as unread:
        make_runner(directory, "/absent/nsys").finish(RUN)
    assert str(unread.value).endswith("Set NSYS to one of this machine, and fetch again.")
    run = rundir.load_run(directory)
    assert not run.cleaned, "the reports stay where they are"
    chosen = settings_for(f"NSYS={tmp_path}/bin/my-nsys")
    run = make_runner(directory, chosen.nsys).finish(run)
    assert (run.phase, run.cleaned, len(run.reports)) == ("done", True, 1)
