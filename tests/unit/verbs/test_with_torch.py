"""profile --with torch as a user types it, up to what runs."""

from pathlib import Path

import pytest

from gpu_profile.job import Job, ProfileSpec
from gpu_profile.launchers.host import HostLauncher
from gpu_profile.verbs.jobs.tool import tell_armed_cost
from tests.invoked import invoke, reporting_here


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--on=host --trace=cuda", "--trace is nsys', and --with torch records without nsys"),
        ("--on=host --preset=full", "--preset is nsys'"),
        ("--on=host --gpu-metrics", "--gpu-metrics is nsys'"),
        ("--on=host --record=endpoint", "--record endpoint has nsys wait"),
        ("--on=host --carry", "--carry brings nsys"),
        ("--on=host --annotate=none", "--annotate none leaves nothing that could start"),
        ("--on=host --set=ANNOTATE=ops", "--annotate ops marks operators by nsys"),
    ],
)
def test_what_only_nsys_can_is_refused(words: str, said: str, tmp_path: Path) -> None:
    argv = ("profile", "--with=torch", "--gpus=0", *words.split(), "--", "true")
    done = invoke(*argv, directory=reporting_here(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == [".env"]


@pytest.mark.parametrize(
    ("spec", "kinds", "is_told"),
    [
        (ProfileSpec(record="manual"), {"cuda"}, True),
        (ProfileSpec(record="manual"), {"osrt"}, False),
        (ProfileSpec(record="manual", tool="torch"), {"cuda"}, False),
        (ProfileSpec(), {"cuda"}, False),
    ],
    ids=["armed with nsys", "without a GPU", "armed with torch", "recorded from its start"],
)
def test_who_arms_a_job_with_nsys_is_told_its_cost(
    spec: ProfileSpec, kinds: set[str], is_told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once the job runs, only another start could make it less."""
    job = Job(name="train", command=("python3", "train.py"), profile=spec)
    tell_armed_cost(job, kinds, HostLauncher(report_dir=Path("/r")))
    assert ("for PyTorch `--with torch` adds less" in capsys.readouterr().err) == is_told


def test_a_plan_asks_no_nsys(tmp_path: Path) -> None:
    words = ("profile", "--with=torch", "--on=host", "--dry-run", "--steps=4:8", "--", "x")
    done = invoke(*words, directory=reporting_here(tmp_path))
    assert done.returncode == 0, done.stderr
    first, *_ = done.stdout.splitlines()
    assert first == "# recorded: steps 4 to 7"
    assert '"--with=torch"' in done.stdout
    assert "nsys" not in done.stdout.replace('"nsys": ""', "").replace(str(tmp_path), "")


MANIFEST = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: a, image: "i:1", command: [python3, train.py]}]
"""


def test_pods_of_a_manifest_are_started_by_our_agent(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(MANIFEST)
    words = ("profile", "--with=torch", "--dry-run", "--manifest=job.yaml")
    done = invoke(*words, directory=reporting_here(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "# our agent: the image's own; an init container brings ours" in done.stdout
    assert "--with=torch" in done.stdout
    refused = invoke(*words, "--trace=cuda", directory=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--trace is nsys'" in refused.stderr


def test_a_script_of_slurm_looks_for_no_nsys(tmp_path: Path) -> None:
    words = ("profile", "--with=torch", "--gpus=0", "--on=slurm", "--dry-run", "--", "x")
    done = invoke(*words, directory=reporting_here(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "--with=torch" in done.stdout
    assert "nsys=$(" not in done.stdout
