"""The docker launcher: commands out, text in."""

import contextlib
import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpu_profile import process
from gpu_profile.command import Result, Steps, make_command
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.engine import local_container
from gpu_profile.errors import EngineAwayError, GpuProfileError, JobError, SettingsError, ToolError
from gpu_profile.job import Job, Mount, NsysPlan, ProfileSpec, Resources
from gpu_profile.job_status import JobState, JobStatus
from gpu_profile.launchers.docker.launcher import DockerLauncher
from gpu_profile.launchers.docker.own_directory import LIST_ABSENT, find_local_paths
from tests.unit.settings_for import settings_for

LAUNCHER = DockerLauncher(
    image=ImageRef(name="gpu-profile", tag="v1"),
    report_dir=Path("/tmp/reports"),
    options=("--shm-size=1g",),
)
PLAN = NsysPlan(options=("--trace=nvtx",), first=("--gpu-metrics-devices=all",))


def job(**changes: Any) -> Job:
    fields: dict[str, Any] = {
        "name": "train-1",
        "command": ("python3", "/train.py"),
        "resources": Resources(gpus_per_node=0, tasks_per_node=2),
        "ddp": True,
    }
    return Job(**fields | changes)


def submitted(job: Job, plan: NsysPlan = PLAN, launcher: DockerLauncher = LAUNCHER) -> str:
    """The `docker run` of the job: the last command."""
    return str(process.plan(launcher.submit(job, plan))[-1])


def answered(steps: Any, *results: Result) -> Any:
    """The value of steps that get these answers."""
    next(steps)
    for result in results[:-1]:
        steps.send(result)
    with pytest.raises(StopIteration) as stop:
        steps.send(results[-1])
    return stop.value.value


def inspected(state: dict[str, object], **labels: str) -> Result:
    """The engine's answer about a container of ours, unless it has other labels."""
    labels = labels or {"gpu-profile.run": "train-1"}
    return Result(returncode=0, stdout=f"{json.dumps(state)}\n{json.dumps(labels)}\n")


def test_a_container_tells_its_variables_or_that_the_engine_is_away() -> None:
    entries = ["HF_TOKEN=a=b\nc", "EMPTY=", "PATH=/bin"]
    told = Result(returncode=0, stdout=json.dumps(entries) + "\n")
    variables = {"HF_TOKEN": "a=b\nc", "EMPTY": "", "PATH": "/bin"}
    assert answered(LAUNCHER.get_variables("train-1"), told) == variables
    gone = Result(returncode=1, stderr="Error: No such container: train-1")
    assert answered(LAUNCHER.get_variables("train-1"), gone) == {}
    steps = LAUNCHER.get_variables("train-1")
    next(steps)
    with pytest.raises(EngineAwayError, match="train-1 may run on: no answer for 120 s"):
        steps.send(Result(returncode=124, stderr="no answer for 120 s: `docker version` …"))


@pytest.mark.parametrize("verb", ["status", "stop", "cleanup"])
def test_a_container_of_somebody_else_is_left_alone(verb: str) -> None:
    steps = getattr(LAUNCHER, verb)("innocent-db")
    assert next(steps).argv[1:3] == ("container", "inspect")
    ended = inspected({"Status": "exited", "ExitCode": 1}, maintainer="db")
    with pytest.raises(SettingsError, match="innocent-db was not started by `invoke profile`"):
        steps.send(ended)


def test_the_local_container_is_one_of_ours() -> None:
    steps = local_container.stop_container("db")
    next(steps)
    with pytest.raises(SettingsError, match="did not start the container db"):
        steps.send(inspected({"Status": "running"}, maintainer="db"))
    older = local_container.stop_container("db")
    next(older)
    labels = {"io.github.gpu-profile.layers": "nsys"}
    assert older.send(inspected({"Status": "running"}, **labels)).argv == ("docker", "stop", "db")


def test_the_local_container_sees_its_own_directory_alone(tmp_path: Path) -> None:
    chosen = settings_for(f"REPORT_DIR={tmp_path}", "CONTAINER=mine")
    _, run = process.plan(local_container.start_container(chosen, ImageRef(name="gpu-profile"), ()))
    assert f"--mount=type=bind,source={tmp_path}/mine,target=/wd/mine" in run.argv
    assert "--label=gpu-profile.container=mine" in run.argv


def test_no_program_of_the_image_sees_more_than_one_run(tmp_path: Path) -> None:
    run, output = tmp_path / "train-1", tmp_path / "train-1" / ".new" / "rank0.h.sqlite"
    export = LAUNCHER.export("train-1", run / "rank0.h.nsys-rep", output)
    assert export is not None
    assert [word for word in export.argv if "--mount" in word] == [
        f"--mount=type=bind,source={run},target={run}"
    ]
    assert f"--output={output}" in export.argv
    assert not [word for word in process.plan(LAUNCHER.probe(job()))[0].argv if "--mount" in word]


def test_a_job_is_one_docker_run() -> None:
    assert submitted(job()) == (
        "docker run --detach --pull=never --name=train-1 --label=gpu-profile.run=train-1"
        " --mount=type=bind,source=/tmp/reports/train-1,target=/wd/train-1 --shm-size=1g"
        " gpu-profile:v1 python3 /profile.py --processes=2 --ranks=all --output=/wd/train-1"
        " --first=--gpu-metrics-devices=all --trace=nvtx -- python3 /train.py"
    )


def test_gpus_and_privileges_only_where_needed() -> None:
    plain, full = submitted(job()), job(resources=Resources(gpus_per_node=4, tasks_per_node=4))
    assert "--gpus" not in plain
    assert "SYS_ADMIN" not in plain
    assert "--gpus=4 --ulimit=memlock=-1 --ulimit=stack=67108864 --cap-add=SYS_ADMIN" in submitted(
        full, NsysPlan(options=(), needs_privileges=True)
    )


def test_ranks_mounts_and_variables() -> None:
    mount = Mount(source=Path("/a,b c"), target="/data", read_only=True)
    line = submitted(
        job(profile=ProfileSpec(ranks=frozenset({3, 0})), mounts=(mount,), env={"A": "b c"})
    )
    assert "--ranks=0,3" in line
    assert """'--mount=type=bind,"source=/a,b c",target=/data,readonly'""" in line
    assert line.startswith("A=*** docker run")
    assert "--env=A " in line
    assert "b c'" not in line.replace("/a,b c", "")


def test_a_baseline_runs_without_nsys() -> None:
    line = submitted(job(profile=None))
    assert "--processes=2 --plain --output=/wd/train-1 -- python3 /train.py" in line


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ({"Status": "created"}, JobStatus(state=JobState.PENDING)),
        ({"Status": "running"}, JobStatus(state=JobState.RUNNING)),
        ({"Status": "exited", "ExitCode": 0}, JobStatus(state=JobState.SUCCEEDED, exit_code=0)),
        ({"Status": "exited", "ExitCode": 42}, JobStatus(state=JobState.FAILED, exit_code=42)),
        (
            {"Status": "exited", "ExitCode": 137, "OOMKilled": True},
            JobStatus(state=JobState.FAILED, exit_code=137, reason="out of memory"),
        ),
    ],
)
def test_a_state_is_read(state: dict[str, object], status: JobStatus) -> None:
    assert answered(LAUNCHER.status("train-1"), inspected(state)) == status


REFUSALS = {
    "a name in use": (
        'Conflict. The container name "/a" is already in use by container "f".',
        SettingsError,
        2,
    ),
    "a port taken": (
        "driver failed: Bind for 0.0.0.0:80: port is already allocated",
        SettingsError,
        2,
    ),
    "no image": (
        "docker: Error response from daemon: No such image: gpu-profile:v1.",
        ToolError,
        3,
    ),
    "no engine": ("Cannot connect to the Docker daemon at unix:///x.", ToolError, 3),
    "no permission": (
        "permission denied while trying to connect to the Docker daemon",
        ToolError,
        3,
    ),
    "no GPU support": (
        'could not select device driver "" with capabilities: [[gpu]].',
        ToolError,
        3,
    ),
    "no space": ("write /a: No space left on device", ToolError, 3),
    "no program": ('exec: "nope": executable file not found in $PATH: unknown.', JobError, 5),
    "something else": ("the engine is tired", JobError, 5),
}


def _refused(steps: Steps[str], failed: Result) -> None:
    next(steps)
    removal = steps.send(failed)
    assert removal.argv == ("docker", "container", "rm", "--force", "train-1")
    assert "in use" not in failed.stderr, "another's container must stay"
    steps.send(Result(returncode=0))


@pytest.mark.parametrize(("said", "kind", "code"), REFUSALS.values(), ids=REFUSALS.keys())
def test_an_engine_that_refuses_is_one_line(
    said: str, kind: type[GpuProfileError], code: int
) -> None:
    failed = Result(returncode=125, stderr=f"docker: {said}\n\nRun 'docker run --help' for more\n")
    with pytest.raises(kind) as refused:
        _refused(LAUNCHER.submit(job(), PLAN), failed)
    assert refused.value.exit_code == code
    assert str(refused.value).startswith("starting train-1: ")
    assert "\n" not in str(refused.value)
    assert "--help" not in str(refused.value)


def test_a_name_in_use_has_a_hint_for_a_job_and_one_for_the_local_container() -> None:
    """`invoke stop` ends neither a job nor a container of another CONTAINER."""
    said = REFUSALS["a name in use"][0]
    in_use = Result(returncode=125, stderr=f"docker: {said}\n\nRun 'docker run --help' for more\n")
    steps = LAUNCHER.submit(job(), PLAN)
    next(steps)
    with pytest.raises(SettingsError, match=r"in a second, or give it another --name\.$"):
        steps.send(in_use)
    absent = Result(returncode=1, stderr="Error: No such container: mine")
    run = local_container.start_container(settings_for("CONTAINER=mine"), ImageRef(name="x"), ())
    next(run)
    assert run.send(absent).argv[:2] == ("docker", "run")
    with pytest.raises(SettingsError, match=r"`invoke stop` it, or set another CONTAINER\.$"):
        run.send(in_use)


def test_gpus_need_the_engines_runtime() -> None:
    none = Result(returncode=0, stdout='{"runc": {}}')
    assert answered(LAUNCHER.gpus(), none) == 0
    some = Result(returncode=0, stdout='{"nvidia": {}}')
    listed = Result(returncode=0, stdout="GPU 0: NVIDIA H200 (UUID: a)\nGPU 1: H200 (UUID: b)\n")
    assert answered(LAUNCHER.gpus(), some, listed) == 2


@pytest.mark.parametrize(
    ("options", "programs"),
    [
        ('["name=seccomp,profile=builtin"]', ["info", "run"]),
        ('["name=seccomp,profile=builtin","name=rootless"]', ["info"]),
    ],
)
def test_reports_get_their_owner_where_the_engine_runs_as_root(
    options: str, programs: list[str], tmp_path: Path
) -> None:
    """A chown of a rootless engine's root would take the reports away from the user."""
    commands = []
    steps = dataclasses.replace(LAUNCHER, owner="1000:1000").fetch("train-1", tmp_path)
    with contextlib.suppress(StopIteration):
        commands.append(next(steps))
        while True:
            commands.append(steps.send(Result(returncode=0, stdout=options)))
    assert [each.argv[1] for each in commands] == programs


def test_an_export_gets_the_owner_of_its_report(tmp_path: Path) -> None:
    report, output = tmp_path / "rank 0.nsys-rep", tmp_path / "rank 0.sqlite"
    report.write_text("recorded")
    if os.getuid() == 0:
        os.chown(report, 1000, 1000)
    owned = dataclasses.replace(LAUNCHER, owner="1000:1000").export("train-1", report, output)
    assert owned is not None
    shell = owned.argv[owned.argv.index("sh") :]
    script = shell[: shell.index("nsys")]
    made = process.run(make_command(*script, "touch", str(output)))
    assert made.returncode == 0, made.last_line
    assert (output.stat().st_uid, output.stat().st_gid) == (
        report.stat().st_uid,
        report.stat().st_gid,
    )
    failed = process.run(make_command(*script, "false"))
    assert failed.returncode == 1
    assert "sh" not in LAUNCHER.export("train-1", report, output).argv  # type: ignore[union-attr]


def work_here(tmp_path: Path, *command: str) -> Job:
    own = Mount(source=tmp_path, target=str(tmp_path))
    return job(command=command, mounts=(own,), workdir=str(tmp_path))


def test_a_job_in_the_user_s_directory_has_the_user_s_uid(tmp_path: Path) -> None:
    launcher = dataclasses.replace(LAUNCHER, owner="1000:1001")
    line = submitted(work_here(tmp_path, "python3", "train.py"), launcher=launcher)
    assert f"--mount=type=bind,source={tmp_path},target={tmp_path} " in line
    assert f"--workdir={tmp_path} --user=1000:1001 --env=HOME=/tmp --env=USER=" in line
    root = submitted(work_here(tmp_path, "python3", "train.py"))
    assert f"--workdir={tmp_path}" in root
    assert "--user" not in root


def test_a_rootless_engine_s_root_is_the_user(tmp_path: Path) -> None:
    launcher = dataclasses.replace(LAUNCHER, owner="1000:1001")
    steps = launcher.submit(work_here(tmp_path, "train"), NsysPlan(options=()))
    assert "SecurityOptions" in str(next(steps))
    run = steps.send(Result(returncode=0, stdout='["name=rootless"]'))
    assert "--user" not in run.argv


def test_options_that_need_root_are_refused_beside_the_user_s_uid(tmp_path: Path) -> None:
    launcher = dataclasses.replace(LAUNCHER, owner="1000:1001")
    steps = launcher.check_job(
        work_here(tmp_path, "x"), NsysPlan(options=(), needs_privileges=True)
    )
    with pytest.raises(ToolError, match=f"Use --mount {tmp_path}:/code"):
        next(steps)


@pytest.mark.parametrize(
    ("word", "flag"),
    [
        ("train.py", "--mount ."),
        ("--config=conf/a.yaml", "--mount ."),
        ("./conf", "--mount ."),
        ("{other}/data.bin", "--mount {other}"),
    ],
)
def test_a_path_that_the_container_lacks_is_named_with_the_flag(
    word: str, flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, other = tmp_path / "here", tmp_path / "other"
    for path in (here / "conf" / "a.yaml", here / "train.py", other / "data.bin"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.chdir(here)
    word = word.format(other=other)
    steps = LAUNCHER.check_job(job(command=("python3", word)), NsysPlan(options=()))
    question = next(steps)
    name = word.partition("=")[2] or word
    assert question.argv[-1] == name
    with pytest.raises(SettingsError) as refused:
        steps.send(Result(returncode=0, stdout=f"{name}\n"))
    expected = f"{name} is here and not in the container. Use {flag.format(other=other)} to show"
    assert str(refused.value).startswith(expected)


def test_the_container_is_not_asked_about_what_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "train").mkdir()
    monkeypatch.chdir(tmp_path)
    words = ("python3", "train.py", f"{tmp_path}/train.py", ".", "absent.py", "x" * 5000 + "/y")
    assert find_local_paths(work_here(tmp_path, *words)) == ()
    assert find_local_paths(job(command=("python3", "train", "--", "none/x"))) == ()


def test_the_script_prints_what_is_absent(tmp_path: Path) -> None:
    """A relative path in `/` is absent even if a file of that name is there."""
    (tmp_path / "a b.py").touch()
    names = ("a b.py", "none.py", "/etc/passwd", "/none/x")
    in_folder = ("env", f"--chdir={tmp_path}", "sh", "-c", LIST_ABSENT, "sh", *names)
    assert process.run(make_command(*in_folder)).stdout.splitlines() == ["none.py", "/none/x"]
    in_root = ("env", "--chdir=/", "sh", "-c", LIST_ABSENT, "sh", "etc/passwd", "/etc/passwd")
    assert process.run(make_command(*in_root)).stdout.splitlines() == ["etc/passwd"]


def test_an_engine_that_goes_away_while_it_starts_a_job_may_run_it() -> None:
    cut = Result(returncode=125, stderr="docker: error during connect: Post: EOF\n")
    steps = LAUNCHER.submit(job(), PLAN)
    next(steps)
    with pytest.raises(EngineAwayError, match="train-1 may run: its engine went away") as away:
        steps.send(cut)
    assert "`invoke fetch --job train-1` goes on if it does" in str(away.value)


def test_an_engine_that_is_not_there_is_started_by_doctor() -> None:
    none = Result(returncode=125, stderr="docker: Cannot connect to the Docker daemon at unix:x\n")
    steps = LAUNCHER.submit(job(), PLAN)
    next(steps)
    steps.send(none)
    with pytest.raises(ToolError, match="`invoke doctor --fix` starts one"):
        steps.send(none)


def test_a_question_is_asked_again_while_the_engine_restarts() -> None:
    cut = Result(returncode=1, stderr="error during connect: EOF\n")
    steps = LAUNCHER.stop("train-1")
    question = next(steps)
    assert steps.send(cut).argv == ("sleep", "5")
    assert steps.send(Result(returncode=0)) == question
    assert steps.send(inspected({"Status": "running"})).argv[:2] == ("docker", "stop")


HUNG = Result(returncode=124, stderr="no answer for 120 s: `docker version` did not end in 110 s")


def test_an_engine_that_hangs_was_waited_for_already() -> None:
    status = LAUNCHER.status("train-1")
    next(status)
    with pytest.raises(StopIteration) as ended:
        status.send(HUNG)
    assert (ended.value.value.state, ended.value.value.patience_s) == (JobState.UNKNOWN, 0)
    stop = LAUNCHER.stop("train-1")
    next(stop)
    with pytest.raises(EngineAwayError, match=r"no answer for 120 s.*`invoke fetch` goes on"):
        stop.send(HUNG)


def test_a_job_may_run_on_an_engine_that_hung_while_it_started() -> None:
    steps = LAUNCHER.submit(job(), PLAN)
    next(steps)
    with pytest.raises(EngineAwayError, match="train-1 may run: its engine went away") as away:
        steps.send(HUNG)
    assert "`invoke fetch --job train-1` goes on if it does" in str(away.value)


def test_a_program_in_the_user_s_directory_has_the_user_s_umask(tmp_path: Path) -> None:
    """nsys starts programs with umask 0: what they write would be everybody's to change."""
    line = submitted(work_here(tmp_path, "python3", "train.py"))
    assert """-- sh -c 'umask 0022 && exec "$@"' sh python3 train.py""" in line
    private = dataclasses.replace(LAUNCHER, umask=0o077)
    assert "umask 0077" in submitted(work_here(tmp_path, "python3", "x.py"), launcher=private)
    assert "umask" not in submitted(work_here(tmp_path, "/usr/bin/mpirun", "python3", "x.py"))
    assert "umask" not in submitted(job())


@pytest.mark.parametrize(("code", "is_old"), [(0, False), (1, True), (125, False)])
def test_an_image_that_is_older_than_record_is_refused_before_it_starts(
    code: int, is_old: bool
) -> None:
    armed = job(command=("true",), profile=ProfileSpec(record="manual"))
    steps = LAUNCHER.check_job(armed, NsysPlan(options=()))
    old = pytest.raises(SettingsError, match="Build it again")
    with old if is_old else contextlib.nullcontext():
        assert answered(steps, Result(returncode=code)) is None
