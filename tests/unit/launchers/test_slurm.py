"""The sbatch script, whole, for each way to run it; Slurm's states; what is refused."""

import dataclasses
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.carrier import Carrier
from gpu_profile.errors import JobError, SettingsError, ToolError
from gpu_profile.job import Job, NsysPlan, ProfileSpec, Resources
from gpu_profile.job_status import JobState
from gpu_profile.launchers.slurm import state as slurm_state
from gpu_profile.launchers.slurm.commands import SlurmCluster
from gpu_profile.launchers.slurm.container import Container
from gpu_profile.launchers.slurm.launcher import SlurmLauncher
from gpu_profile.launchers.slurm.sbatch import Script
from gpu_profile.launchers.slurm.spelling import parse_time_limit, quote_directive
from gpu_profile.settings.settings import Settings, load_settings

PLAN = NsysPlan(
    options=("--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none"),
    first=("--gpu-metrics-devices=all",),
)
JOB = Job(
    name="train-20261121-040000",
    command=("python", "train.py", "--note", "it's; $(a) test"),
    resources=Resources(nodes=2, gpus_per_node=8, tasks_per_node=8, cpus_per_task=12),
)
ECR = "123456789012.dkr.ecr.us-west-2.amazonaws.com/gpu-profile:v1"
WAYS = {
    "plain": Script(time="00:30:00"),
    "modules": Script(
        partition="gpu",
        account="lab",
        time="1-00",
        modules=("cuda/12.4", "python/3.11"),
        workdir="/home/me/my code",
        sbatch_args=("--exclusive", "--comment=a # b"),
    ),
    "pyxis": Script(container=Container(image=ECR), workdir="/fsx/code"),
    "apptainer": Script(container=Container(image="/fsx/gpu-profile.sif", tool="apptainer")),
    "torchrun": Script(torchrun=True),
}


CARRIER = Carrier(source="/fsx/runs/carrier-0f3c", directory="/fsx/runs/carrier-0f3c")


@pytest.mark.parametrize("way", ["pyxis", "apptainer"])
def test_an_image_without_nsys_gets_a_directory_of_the_cluster(
    way: str, golden: Callable[[str, str], None]
) -> None:
    job = dataclasses.replace(JOB, carrier=CARRIER)
    golden(f"slurm-{way}-carried.sbatch", WAYS[way].render(job, PLAN, "/fsx/runs/train-1"))


def test_nsys_is_asked_on_a_node_in_the_image_and_exports_there() -> None:
    cluster = SlurmCluster(script=WAYS["apptainer"], shared="/fsx/runs")
    launcher = SlurmLauncher(
        directory="/fsx/runs/mine", older="/fsx/runs", report_dir=Path("/tmp"), cluster=cluster
    )
    job = dataclasses.replace(JOB, carrier=CARRIER)
    (ask,) = process.plan(launcher.probe(job))
    assert "apptainer exec --bind=/fsx/runs:/fsx/runs /fsx/gpu-profile.sif" in str(ask)
    assert f"{CARRIER.python} -E {CARRIER.checker} help {CARRIER.directory}" in str(ask)
    commands = map(str, process.plan(launcher.submit(job, PLAN)))
    link = f"ln -s -- {CARRIER.directory} /fsx/runs/mine/{JOB.name}/carrier"
    assert link in commands
    export = str(launcher.export("7", Path("/tmp/rank0.h.nsys-rep"), Path("/tmp/x.sqlite")))
    assert 'exec "$d/carrier/carrier/bin"/python3 -E "$d/job.py" export "$d"' in export


@pytest.mark.parametrize("way", WAYS)
def test_scripts_are_plain(way: str, golden: Callable[[str, str], None]) -> None:
    golden(f"slurm-{way}.sbatch", WAYS[way].render(JOB, PLAN, "/fsx/runs/train-20261121-040000"))


def test_a_baseline_has_no_nsys() -> None:
    text = Script().render(dataclasses.replace(JOB, profile=None), PLAN, "/fsx/r")
    assert "--plain" in text
    assert "find_nsys" not in text


def test_chosen_ranks() -> None:
    job = dataclasses.replace(JOB, profile=ProfileSpec(ranks=frozenset({3, 0})))
    assert "--ranks=0,3" in Script().render(job, PLAN, "/fsx/r")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain-1.2", "plain-1.2"),
        ("a b", '"a b"'),
        ("a#b", '"a\\#b"'),
        ('a"b\\c', '"a\\"b\\\\c"'),
        ("; echo x", '"; echo x"'),
    ],
)
def test_words_of_a_directive(value: str, written: str) -> None:
    assert quote_directive(value) == written


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("90", 5400),
        ("10:30", 630),
        ("01:00:00", 3600),
        ("2-0", 172800),
        ("1-06:30", 109800),
        ("1-06:30:15", 109815),
        ("UNLIMITED", 0),
        ("", 0),
    ],
)
def test_time_limits(limit: str, expected: int) -> None:
    assert parse_time_limit(limit) == expected


def test_short_jobs_are_left_to_slurms_own_signal() -> None:
    assert "USR1@" not in Script(time="5").render(JOB, PLAN, "/fsx/r")
    for time, kept in (("10", 120), ("4:00:00", 720), ("2-0", 900)):
        assert f"--signal=B:USR1@{kept}\n" in Script(time=time).render(JOB, PLAN, "/fsx/r")


@pytest.mark.parametrize(
    ("script", "directory", "said"),
    [
        (Script(), "/fsx/100%", "holds a %"),
        (Script(partition="a\nb"), "/fsx/r", "line break"),
        (Script(container=Container(image="a")), "/fsx/a:b", "cannot be mounted"),
        (Script(container=Container(image="a")), "/fsx/a,b", "cannot be mounted"),
        (Script(container=Container(image="a b")), "/fsx/r", "is not an image"),
    ],
)
def test_refused_scripts(script: Script, directory: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        script.render(JOB, PLAN, directory)


@pytest.mark.parametrize(
    ("workdir", "login", "image", "where"),
    [
        ("", "", "", ""),
        ("code", "", "", "{here}/code"),
        ("", "", "/x.sqsh", "{here}"),
        ("~/code", "u@login", "", "code"),
        ("/fsx/code", "u@login", "/x.sqsh", "/fsx/code"),
    ],
)
def test_where_a_job_runs(
    workdir: str,
    login: str,
    image: str,
    where: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    values = {"SLURM_WORKDIR": workdir, "SLURM_LOGIN": login, "SLURM_IMAGE": image}
    chosen = Settings(launcher_values=values)
    assert Script.from_settings(chosen).workdir == where.format(here=tmp_path)


def scontrol(state: str, **facts: object) -> str:
    more = " ".join(f"{name}={value}" for name, value in facts.items())
    return f"JobId=7 JobName=train JobState={state} {more} Partition=main NodeList=n[1-2]"


@pytest.mark.parametrize(
    ("line", "state", "reason", "code"),
    [
        (scontrol("PENDING", Reason="Priority"), JobState.PENDING, "Priority", None),
        (
            scontrol("PENDING", Reason="BeginTime", Restarts=1),
            JobState.PENDING,
            "requeued once; BeginTime",
            None,
        ),
        (scontrol("RUNNING", Reason="None"), JobState.RUNNING, "", None),
        (scontrol("COMPLETED", ExitCode="0:0"), JobState.SUCCEEDED, "", 0),
        (scontrol("FAILED", ExitCode="7:0"), JobState.FAILED, "", 7),
        (scontrol("FAILED", ExitCode="0:9"), JobState.FAILED, "", 137),
        (
            scontrol("TIMEOUT", ExitCode="0:0", TimeLimit="00:01:00"),
            JobState.FAILED,
            "it ran over its time limit of 00:01:00: ask for more by --time",
            0,
        ),
        (
            scontrol("NODE_FAIL", ExitCode="0:0"),
            JobState.FAILED,
            "a node failed (n[1-2])",
            0,
        ),
        (
            scontrol("NODE_FAIL", ExitCode="0:0", Restarts=2),
            JobState.FAILED,
            "requeued 2 times; a node failed (n[1-2])",
            0,
        ),
        (scontrol("A_LATER_STATE"), JobState.UNKNOWN, "", None),
    ],
)
def test_scontrol(line: str, state: JobState, reason: str, code: int | None) -> None:
    status = slurm_state.parse_scontrol(line)
    assert (status.state, status.reason, status.exit_code) == (state, reason, code)


def test_sacct_has_the_last_attempt() -> None:
    rows = (
        "of-another-year|COMPLETED|0:0|01:00:00|n1\n"
        "train|REQUEUED|1:0|01:00:00|n1\n"
        "train|CANCELLED by 1000|0:15|01:00:00|n2\n"
    )
    status = slurm_state.parse_sacct(rows)
    assert status is not None
    assert (status.state, status.reason) == (
        JobState.CANCELLED,
        "requeued once; it was cancelled",
    )
    assert slurm_state.parse_sacct("Slurm accounting storage is disabled\n") is None


@pytest.mark.parametrize(
    ("ended", "state", "code"),
    [
        ("exit code 0\n", JobState.SUCCEEDED, 0),
        ("exit code 3\n", JobState.FAILED, 3),
        ("exit code 7 of task 1\n", JobState.FAILED, 7),
        ("stopped\n", JobState.CANCELLED, None),
        ("time limit\n", JobState.FAILED, None),
        ("", JobState.FAILED, None),
    ],
)
def test_what_the_job_wrote_itself(ended: str, state: JobState, code: int | None) -> None:
    status = slurm_state.from_ended(ended)
    assert (status.state, status.exit_code) == (state, code)


def test_the_task_that_failed_first_is_named() -> None:
    failed = slurm_state.parse_scontrol(scontrol("FAILED", ExitCode="7:0"))
    assert (
        slurm_state.apply_end_line(failed, "exit code 7 of task 1\n").reason
        == "task 1 failed first"
    )
    node = slurm_state.parse_scontrol(scontrol("NODE_FAIL", ExitCode="0:0"))
    assert (
        slurm_state.apply_end_line(node, "exit code 7 of task 1\n").reason
        == "a node failed (n[1-2])"
    )


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("invalid partition specified: x", SettingsError),
        (
            "Batch job submission failed: Requested node configuration is not available",
            SettingsError,
        ),
        ("Batch job submission failed: Requested time limit is invalid", SettingsError),
        ("Batch job submission failed: Invalid account or account/partition", SettingsError),
        ("unrecognized option '--x'", SettingsError),
        ("Unable to contact slurm controller (connect failure)", ToolError),
        ("Batch job submission failed: Job violates policy", JobError),
    ],
)
def test_refusals_of_sbatch(words: str, kind: type[Exception]) -> None:
    refusal = slurm_state.make_sbatch_error(words)
    assert type(refusal) is kind
    assert words in str(refusal)


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("sinfo: fatal: Could not establish a configuration source", "--login user@address"),
        (
            "slurm_load_partitions: Unable to contact slurm controller (connect failure)",
            "`scontrol ping` says whether the controller is up",
        ),
    ],
)
def test_a_machine_without_a_cluster_is_told_where_to_go(
    message: str, hint: str, fake_tool: Callable[..., object]
) -> None:
    fake_tool("sinfo", f"echo {shlex.quote(message)} >&2; exit 1")
    with pytest.raises(ToolError) as refused:
        process.drive(SlurmCluster().gpus())
    assert message in str(refused.value)
    assert hint in str(refused.value)


def test_a_machine_without_slurm_is_told_of_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    cluster = SlurmCluster.from_settings(load_settings(tmp_path / "none", {}), shared="/fsx")
    hint = "is not installed here. Use a log-in node, or name one: --login user@address"
    with pytest.raises(ToolError, match=f"sinfo {hint}"):
        process.drive(cluster.gpus())
    with pytest.raises(ToolError, match=f"srun {hint}"):
        process.run(cluster.on_a_node("true"))
    with pytest.raises(ToolError, match=f"sbatch {hint}"):
        process.drive(cluster.submit("job.sbatch", {}))


def test_a_machine_without_ssh_is_not_told_of_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    settings = load_settings(tmp_path / "none", {}, ["SLURM_LOGIN=me@login"])
    with pytest.raises(ToolError, match="ssh is not installed here") as refused:
        process.drive(SlurmCluster.from_settings(settings, shared="/fsx").gpus())
    assert "--login" not in str(refused.value)


def test_a_partition_that_does_not_exist_is_named(fake_tool: Callable[..., object]) -> None:
    fake_tool("sinfo")
    cluster = SlurmCluster(script=Script(partition="gpu"))
    with pytest.raises(SettingsError, match=r"no node of 'gpu'. `sinfo` lists the partitions"):
        process.drive(cluster.gpus())
    assert process.drive(SlurmCluster().gpus()) == 0


def test_a_step_that_its_node_does_not_know_yet_is_told_again(
    tmp_path: Path, fake_tool: Callable[..., Callable[[], list[list[str]]]]
) -> None:
    said = "scancel: error: Kill job error on job step id 24: Invalid job id specified"
    fake_tool("squeue", "echo 24.0")
    fake_tool("sleep")
    calls = fake_tool("scancel", f'[ -e "$0.1" ] || {{ touch "$0.1"; echo {said!r} >&2; exit 1; }}')
    script = WAYS["plain"].render(JOB, PLAN, "/fsx/runs/train-1")
    function = script[script.index("finish() {") : script.index("trap 'finish")]
    lines = (f"run={tmp_path} SLURM_JOB_ID=24 step=$$", function, "finish stopped")
    subprocess.run(["bash", "-c", "\n".join(lines)], check=True, timeout=60)
    assert calls() == [["--signal=TERM", "24.0"]] * 2
    assert (tmp_path / "ended").read_text() == "stopped\n"
