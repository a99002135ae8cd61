"""nsys by an init container, for pods of an image that is not ours."""

import dataclasses

import pytest

from gpu_profile import process
from gpu_profile.command import Command, Result, Steps
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.declared.object_kinds import KINDS
from gpu_profile.errors import GpuProfileError, JobError, NoNsysError, SettingsError
from gpu_profile.job import Job, NsysPlan, ProfileSpec, Resources
from gpu_profile.kubernetes.injector_charts import find_generation
from gpu_profile.kubernetes.kubectl import KubernetesCluster
from gpu_profile.launchers.kubernetes.job.job import KubernetesJob
from gpu_profile.launchers.kubernetes.mpijob import MpiJobLauncher
from gpu_profile.launchers.kubernetes.nsys_probe import make_probe_manifest
from gpu_profile.launchers.kubernetes.pod_options import PodOptions
from gpu_profile.launchers.kubernetes.pytorchjob import PyTorchJobLauncher
from gpu_profile.launchers.kubernetes.trainjob import TrainJobLauncher
from gpu_profile.launchers.user_object import UserObject
from gpu_profile.settings.settings import Settings
from tests.unit.launchers.kubernetes_objects import answer, ended

OURS = f"registry.example/gpu-profile@sha256:{'0' * 64}"
THEIRS = ImageRef(registry="registry.example", name="theirs", tag="1")
OPTIONS = PodOptions(image=THEIRS, carrier_image=OURS)
CLUSTER = KubernetesCluster(context="", namespace="team")
JOB = Job(
    name="train-1",
    command=("python", "train.py"),
    image=THEIRS,
    resources=Resources(nodes=2, gpus_per_node=0, tasks_per_node=1),
)


def carried(kind: type[KubernetesJob]) -> tuple[KubernetesJob, Job]:
    launcher = kind(cluster=CLUSTER, options=OPTIONS)
    return launcher, process.plan_value(launcher.carry(JOB, wanted=True))[1]


def test_each_pod_of_ranks_gets_the_init_container() -> None:
    launcher, job = carried(PyTorchJobLauncher)
    assert process.plan_value(launcher.carry(JOB, wanted=False)) == ((), JOB)
    replicas = launcher.manifest(job, NsysPlan(options=()))["spec"]["pytorchReplicaSpecs"]
    for replica in replicas.values():
        spec = replica["template"]["spec"]
        (init,) = spec["initContainers"]
        assert init["image"] == OURS
        (container,) = spec["containers"]
        assert container["image"] == str(THEIRS)
        first = container["args"][1:5]
        assert first[0] == "/opt/gpu-profile/carrier/bin/python3"
        assert first[3] == "--nsys=/opt/gpu-profile/carrier/bin/nsys"


def test_the_workers_of_an_mpijob_get_it_and_mpirun_starts_it_there() -> None:
    launcher, job = carried(MpiJobLauncher)
    roles = launcher.manifest(job, NsysPlan(options=()))["spec"]["mpiReplicaSpecs"]
    assert roles["Worker"]["template"]["spec"]["initContainers"][0]["image"] == OURS
    starter = roles["Launcher"]["template"]["spec"]
    assert "initContainers" not in starter, "it runs mpirun alone"
    assert starter["containers"][0]["args"][1] == "/opt/gpu-profile/carrier/bin/python3"


def test_a_trainjob_cannot_have_it() -> None:
    with pytest.raises(SettingsError, match=r"theirs:1 has no nsys, and a TrainJob cannot"):
        carried(TrainJobLauncher)
    of_manifest = UserObject.from_kind(Settings(), KINDS["trainjob"])
    with pytest.raises(SettingsError, match="a TrainJob cannot"):
        process.drive(of_manifest.carry(JOB, wanted=True))


def fail_probe(steps: Steps[str], reason: str, code: int) -> list[Command]:
    """Send the answers of a cluster whose pod ended with this code."""
    commands = [next(steps)]
    pod = answer(ended("probe", code, reason, "StartError" if "exec" in reason else "Error"))
    for result in (Result(returncode=0), pod, Result(returncode=0), Result(returncode=0)):
        commands.append(steps.send(result))
    return commands


ENDINGS = {
    "no nsys": ('exec: "sh": executable file not found in $PATH', 128, NoNsysError),
    "no nsys, by its path": (
        'exec: "/bin/bash": stat /bin/bash: no such file or directory',
        128,
        NoNsysError,
    ),
    "no nsys, says crun": ("executable file `sh` not found: No such file", 128, NoNsysError),
    "not ours": ("", 127, NoNsysError),
    "no directory of the node": ("mounting /reports: no such file or directory", 128, JobError),
    "another fault": ("segmentation fault", 139, JobError),
    "ours, and older than record": ("", 95, SettingsError),
}


@pytest.mark.parametrize(("reason", "code", "kind"), ENDINGS.values(), ids=ENDINGS)
def test_an_image_without_nsys_is_told_from_one_that_fails(
    reason: str, code: int, kind: type[GpuProfileError]
) -> None:
    launcher = PyTorchJobLauncher(cluster=CLUSTER, options=OPTIONS)
    with pytest.raises(kind) as refused:
        fail_probe(launcher.probe(JOB), reason, code)
    assert type(refused.value) is kind


PULLS = {
    "no image": ("ImagePullBackOff", "theirs:1: not found", "nodes may pull it"),
    "no name": ("InvalidImageName", "couldn't parse image name", "nodes may pull it"),
    "no secret": ("CreateContainerConfigError", 'secret "tokens" not found', "Check the image"),
}


@pytest.mark.parametrize(("reason", "message", "hint"), PULLS.values(), ids=PULLS)
def test_an_image_that_is_missing_is_told_from_one_without_nsys(
    reason: str, message: str, hint: str
) -> None:
    waiting = {"state": {"waiting": {"reason": reason, "message": message}}}
    status = {"phase": "Pending", "containerStatuses": [waiting]}
    pod = answer({"metadata": {"name": "probe"}, "status": status})
    steps = PyTorchJobLauncher(cluster=CLUSTER, options=OPTIONS).probe(JOB)
    next(steps)
    for result in (Result(returncode=0), pod, Result(returncode=1)):
        steps.send(result)
    with pytest.raises(JobError, match=hint) as refused:
        steps.send(Result(returncode=0))
    assert type(refused.value) is JobError
    assert f"nsys in {THEIRS} cannot be asked: {reason}: {message}" in str(refused.value)


def test_the_probe_of_a_carried_job_checks_what_its_pods_need() -> None:
    _, job = carried(PyTorchJobLauncher)
    spec = make_probe_manifest("probe", job, OPTIONS)["spec"]
    command = spec["containers"][0]["command"]
    assert command[0] == "/bin/bash", "the script of the job's pods needs it"
    assert command[-2:] == ["help", "/opt/gpu-profile"]
    assert spec["initContainers"][0]["image"] == OURS


def by_torch(job: Job) -> Job:
    return dataclasses.replace(job, profile=ProfileSpec(tool="torch"))


def test_pods_that_torch_profiler_records_are_asked_for_our_agent() -> None:
    own = make_probe_manifest("probe", by_torch(JOB), OPTIONS)["spec"]["containers"][0]
    agent = "[ -e /opt/gpu-profile/agent/torch_recording.py ] || exit 127"
    assert own["command"] == ["sh", "-c", agent]
    spec = make_probe_manifest("probe", by_torch(carried(PyTorchJobLauncher)[1]), OPTIONS)["spec"]
    assert spec["containers"][0]["command"] == ["/bin/bash", "-c", agent]
    assert spec["initContainers"][0]["image"] == OURS


def test_the_error_of_a_pod_names_what_was_asked() -> None:
    launcher = PyTorchJobLauncher(cluster=CLUSTER, options=OPTIONS)
    for job, subject in ((JOB, "nsys"), (by_torch(JOB), "agent")):
        with pytest.raises(NoNsysError, match=f"^{subject} in {THEIRS} cannot be asked"):
            fail_probe(launcher.probe(job), "", 127)


def test_torch_profiler_is_refused_where_pods_cannot_have_our_agent() -> None:
    options = dataclasses.replace(OPTIONS, injector=find_generation("devtools"))
    injected = PyTorchJobLauncher(cluster=CLUSTER, options=options)
    with pytest.raises(SettingsError, match="KUBE_INJECTOR brings nsys to pods"):
        process.plan(injected.probe(by_torch(JOB)))
    trainjob = TrainJobLauncher(cluster=CLUSTER, options=OPTIONS)
    with pytest.raises(SettingsError, match="theirs:1 has no agent of ours, and a TrainJob"):
        process.drive(trainjob.carry(by_torch(JOB), wanted=True))
