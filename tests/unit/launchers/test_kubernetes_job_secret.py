"""The values of --env stand in the job's Secret alone, and go with the job on every path."""

import base64
import io
import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from gpu_profile import process
from gpu_profile.command import Command, Result
from gpu_profile.errors import GpuProfileError, Interrupted, SettingsError, ToolError
from gpu_profile.job import Job, NsysPlan, Resources
from gpu_profile.kubernetes import pods
from gpu_profile.kubernetes.kubectl import KubernetesCluster
from gpu_profile.kubernetes.yaml_text import load_yaml
from gpu_profile.launchers.kubernetes.job.job import KubernetesJob
from gpu_profile.launchers.kubernetes.mpijob import MpiJobLauncher
from gpu_profile.progress import Progress
from gpu_profile.runs.output_log import find_secrets
from tests.unit.launchers.kubernetes_objects import answer, driven, refused, waiting
from tests.unit.launchers.test_kubernetes_manifests import KINDS, PLAIN

JOB = Job(
    name="train-1",
    command=("true",),
    resources=Resources(nodes=2, gpus_per_node=0, tasks_per_node=1),
    env={"HF_TOKEN": "planted: |\n$(HOME)", "REPORTS": "/mine"},
)
CREATED = Result(returncode=0, stdout="team/train-1 0f3c-77\n")
FORBIDDEN = refused('Error from server (Forbidden): secrets is forbidden: User "x" cannot create')
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def launcher(kind: type[KubernetesJob]) -> KubernetesJob:
    return kind(cluster=KubernetesCluster(namespace="team"), options=PLAIN)


def submit(kind: type[KubernetesJob], *answers: Result) -> tuple[Any, list[Command]]:
    value: tuple[Any, list[Command]] = driven(
        launcher(kind).submit(JOB, NsysPlan(options=())), CREATED, *answers
    )
    return value


@every_kind
def test_the_secret_has_the_values_and_the_job_owns_it(kind: type[KubernetesJob]) -> None:
    job_id, (create, secret) = submit(kind, Result(returncode=0))
    assert job_id == "team/train-1"
    assert "planted" not in json.dumps([create.stdin, create.argv, secret.argv])
    document = load_yaml(secret.stdin)
    assert document["stringData"] == JOB.env
    assert document["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "gpu-profile"
    (owner,) = document["metadata"]["ownerReferences"]
    made = load_yaml(create.stdin)
    assert owner == {
        "apiVersion": made["apiVersion"],
        "kind": made["kind"],
        "name": "train-1",
        "uid": "0f3c-77",
    }


@every_kind
def test_containers_refer_to_the_secret_and_our_own_variables_win(
    kind: type[KubernetesJob],
) -> None:
    _, (create, _) = submit(kind, Result(returncode=0))
    entries = []

    def look(node: Any) -> None:
        for value in node.values() if isinstance(node, dict) else node:
            if isinstance(value, (dict, list)):
                look(value)
        if isinstance(node, dict) and node.get("name") in JOB.env:
            entries.append(node)

    look(load_yaml(create.stdin))
    reference = {"secretKeyRef": {"name": "train-1-env", "key": "HF_TOKEN"}}
    tokens = [entry for entry in entries if entry["name"] == "HF_TOKEN"]
    assert tokens
    assert all(entry == {"name": "HF_TOKEN", "valueFrom": reference} for entry in tokens)
    reports = [entry for entry in entries if entry["name"] == "REPORTS"]
    assert all(entry["value"] == "/wd/train-1" for entry in reports)


@every_kind
def test_without_env_no_right_for_secrets_is_needed(kind: type[KubernetesJob]) -> None:
    plain = Job(name="train-1", command=("true",), resources=JOB.resources)
    (create,) = process.plan(launcher(kind).submit(plain, NsysPlan(options=())))
    assert "Secret" not in create.stdin


def test_a_secret_that_is_refused_takes_the_job_away_again() -> None:
    kind = KINDS[0]
    steps = launcher(kind).submit(JOB, NsysPlan(options=()))
    commands = raised_after(steps, CREATED, FORBIDDEN, Result(returncode=0), kind=ToolError)
    assert commands[-1].argv[2:5] == ("delete", "mpijobs.v2beta1.kubeflow.org", "train-1")
    with pytest.raises(ToolError, match=r"handing the variables of --env to train-1: .*secrets"):
        submit(kind, FORBIDDEN, Result(returncode=0))


def test_a_job_that_cannot_be_taken_away_is_named() -> None:
    denied = refused("Error from server (Forbidden): mpijobs is forbidden")
    with pytest.raises(ToolError, match=r"; train-1 is left there: .*mpijobs is forbidden"):
        submit(KINDS[0], FORBIDDEN, denied)


def test_a_secret_of_that_name_is_left_alone() -> None:
    there = refused('Error from server (AlreadyExists): secrets "train-1-env" already exists')
    with pytest.raises(SettingsError, match="--name"):
        submit(KINDS[0], there, Result(returncode=0))


def test_an_interrupt_meanwhile_takes_the_job_away_again() -> None:
    steps = launcher(KINDS[0]).submit(JOB, NsysPlan(options=()))
    next(steps)
    steps.send(CREATED)
    delete = steps.throw(KeyboardInterrupt())
    assert "delete" in delete.argv
    with pytest.raises(Interrupted, match="the job was deleted"):
        steps.send(Result(returncode=0))


def raised_after(
    steps: Generator[Command, Result, Any], *answers: Result, kind: type[GpuProfileError]
) -> list[Command]:
    """The commands of steps that raise this error after the last answer."""
    commands = [next(steps)]
    for result in answers[:-1]:
        commands.append(steps.send(result))
    with pytest.raises(kind):
        steps.send(answers[-1])
    return commands


def job_object(job: Job, kind: type[KubernetesJob]) -> Result:
    """The API server's answer about a job that was created."""
    return answer(launcher(kind).manifest(job, NsysPlan(options=())))


@every_kind
def test_another_process_reads_the_values_from_the_secret(kind: type[KubernetesJob]) -> None:
    data = {name: base64.b64encode(value.encode()).decode() for name, value in JOB.env.items()}
    secret = answer({"kind": "Secret", "data": data})
    steps = launcher(kind).get_variables("team/train-1")
    variables, (_, question) = driven(steps, job_object(JOB, kind), secret)
    assert variables == JOB.env
    assert question.argv[1:5] == ("--namespace=team", "get", "secret", "train-1-env")


@every_kind
def test_a_job_without_env_has_no_secret_to_be_read(kind: type[KubernetesJob]) -> None:
    plain = Job(name="train-1", command=("true",), resources=JOB.resources)
    steps = launcher(kind).get_variables("team/train-1")
    variables, commands = driven(steps, job_object(plain, kind))
    assert (variables, len(commands)) == ({}, 1)


def test_a_role_that_may_not_read_the_secret_is_one_line(
    fake_tool: Callable[..., object], tmp_path: Path
) -> None:
    job = tmp_path / "job.json"
    job.write_text(job_object(JOB, MpiJobLauncher).stdout)
    denied = f"case \"$*\" in *secret*) echo '{FORBIDDEN.stderr}' >&2; exit 1 ;; esac; cat {job}"
    fake_tool("kubectl", denied)
    shown = io.StringIO()
    assert find_secrets(launcher(MpiJobLauncher), "team/train-1", Progress(stream=shown)) == ()
    (line,) = shown.getvalue().splitlines()
    assert line.startswith("values of --env may stand in the job's output: reading the Secret")
    assert "secrets is forbidden" in line


def test_a_secret_that_was_never_created_holds_nothing() -> None:
    absent = refused('Error from server (NotFound): secrets "train-1-env" not found')
    kind = KINDS[0]
    steps = launcher(kind).get_variables("team/train-1")
    assert driven(steps, job_object(JOB, kind), absent)[0] == {}


def test_a_pod_that_is_faster_than_its_secret_is_waited_for() -> None:
    error = "CreateContainerConfigError"
    busy = "failed to sync secret cache: timed out waiting for the condition"
    late = pods.find_trouble(waiting("train-1-worker-0", error, busy))
    assert late is not None
    assert not late.hopeless
    early = pods.find_trouble(waiting("train-1-worker-0", error, 'secret "train-1-env" not found'))
    assert early
    assert not early.hopeless
    never = pods.find_trouble(waiting("train-1-worker-0", error, 'secret "of-others" not found'))
    assert never
    assert never.hopeless
