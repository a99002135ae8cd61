"""What the Kubernetes launchers refuse: input -> its line and exit code."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_profile import process
from gpu_profile.command import Result
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.errors import GpuProfileError, SettingsError
from gpu_profile.job import Job, Mount, NsysPlan, ProfileSpec, Resources
from gpu_profile.kubernetes import kubectl
from gpu_profile.kubernetes.ec2_instances import find_instance
from gpu_profile.kubernetes.injector_charts import find_generation
from gpu_profile.kubernetes.report_place import ReportPlace
from gpu_profile.launchers.kubernetes import pod_options
from gpu_profile.launchers.kubernetes.mpijob import MpiJobLauncher
from gpu_profile.launchers.kubernetes.pod_options import PodOptions
from gpu_profile.launchers.kubernetes.pytorchjob import PyTorchJobLauncher
from gpu_profile.launchers.kubernetes.trainjob import TrainJobLauncher
from gpu_profile.settings.parse import parse_count
from tests.unit.launchers.kubernetes_objects import driven, refused

POD = PodOptions(image=ImageRef(name="gpu-profile"))
MPI = MpiJobLauncher(cluster=kubectl.KubernetesCluster(), options=POD)
TRAIN = TrainJobLauncher(cluster=kubectl.KubernetesCluster(), options=POD)


def job(name: str = "train-1", **changes: Any) -> Job:
    return Job(name=name, command=("true",), resources=Resources(nodes=2), **changes)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        *(
            (
                lambda text=text: ReportPlace.parse(text),
                "is not a place for reports. Use pvc:NAME:/",
            )
            for text in (
                *(
                    "pvc:claim",
                    "pvc::/wd",
                    "pvc:claim:/",
                    "claim:/wd",
                    "hostpath:tmp",
                    "hostpath:/",
                ),
                *("hostpath:/tmp/../etc", "s3://", "s3://B/x", "s3://team/a b", "https://a.b/c"),
            )
        ),
        (lambda: pod_options.parse_selector("a"), "is not a selector. Use key=value,…."),
        (lambda: pod_options.parse_selector("=b"), "is not a selector"),
        (lambda: pod_options.parse_tolerations("a=b:Never"), "is not a toleration"),
        (lambda: pod_options.parse_tolerations(":NoSchedule"), "is not a toleration"),
        (lambda: pod_options.parse_affinity("{"), "KUBE_AFFINITY is not JSON"),
        (lambda: pod_options.parse_affinity("[]"), "KUBE_AFFINITY is not a JSON object"),
        (lambda: parse_count("KUBE_WAIT", "-1"), "KUBE_WAIT '-1' is not a number"),
        (lambda: find_instance("p5.48xlrge"), "not in the table. Did you mean p5.48xlarge?"),
        (lambda: find_instance("q"), "not in the table. Known: p4d.24xlarge"),
        (lambda: kubectl.split_id("a/b/c"), "'a/b/c' is not a job. Use namespace/name."),
        (lambda: kubectl.split_id("a/"), "'a/' is not a job"),
    ],
)
def test_setting(call: Any, line: str) -> None:
    with pytest.raises(SettingsError) as caught:
        call()
    assert line in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a" * 60, "is too long for a job's name: its pod"),
        ("1train", "is not a name for a job"),
        ("Train", "is not a name for a job"),
        ("train_1", "is not a name for a job"),
        ("train-", "is not a name for a job"),
    ],
)
@pytest.mark.parametrize("launcher", [MPI, TRAIN], ids=["mpijob", "trainjob"])
def test_names_that_operators_would_only_whisper_of(
    launcher: MpiJobLauncher | TrainJobLauncher, name: str, line: str
) -> None:
    with pytest.raises(SettingsError, match=line):
        process.plan(launcher.submit(job(name), NsysPlan(options=())))


def test_a_directory_of_this_machine_cannot_be_mounted() -> None:
    mounted = job(mounts=(Mount(source=Path("/data"), target="/data"),))
    with pytest.raises(SettingsError, match="KUBE_REPORT_TO"):
        process.plan(MPI.submit(mounted, NsysPlan(options=())))


def test_a_trainjob_says_what_a_runtime_patch_cannot() -> None:
    with pytest.raises(SettingsError, match="cannot add CAP_SYS_ADMIN"):
        process.plan(TRAIN.submit(job(), NsysPlan(options=(), needs_privileges=True)))


@pytest.mark.parametrize(
    ("said", "code", "hint"),
    [
        ('Error from server (Forbidden): mpijobs is forbidden: User "x" cannot create', 3, "role"),
        ('error: no matches for kind "MPIJob" in version "v2beta1"', 3, "install-operator"),
        ("(NotFound): the server could not find the requested resource (post", 3, "install-op"),
        ('error: the server doesn\'t have a resource type "mpijobs"', 3, "install-operator"),
        ('Error from server (AlreadyExists): mpijobs "train-1" already exists', 2, "--name"),
        ("The connection to the server x:6443 was refused - did you", 3, "VPN"),
        ("Unable to connect to the server: dial tcp: i/o timeout", 3, "VPN"),
        ("error: You must be logged in to the server (Unauthorized)", 3, "Log in"),
        ('error: context "nope" does not exist', 2, "get-contexts"),
        ('Error from server (NotFound): namespaces "nope" not found', 2, "KUBE_NAMESPACE"),
        ('Error from server (Forbidden): pods "x" is forbidden: exceeded quota: q', 5, "quota"),
        ("something nobody foresaw", 5, "See kubectl's message"),
    ],
)
def test_kubectls_refusals(said: str, code: int, hint: str) -> None:
    with pytest.raises(GpuProfileError) as caught:
        driven(MPI.submit(job(), NsysPlan(options=())), refused(said))
    assert caught.value.exit_code == code
    assert hint in caught.value.hint
    assert "\n" not in str(caught.value)


def test_an_injector_arms_nothing() -> None:
    options = replace(POD, injector=find_generation("operator"))
    launcher = PyTorchJobLauncher(cluster=kubectl.KubernetesCluster(), options=options)
    with pytest.raises(SettingsError, match="KUBE_INJECTOR's nsys is not ours"):
        launcher.manifest(job(profile=ProfileSpec(record="manual")), NsysPlan(options=()))


def test_nodes_that_may_not_be_listed() -> None:
    denied = refused("Error from server (Forbidden): nodes is forbidden: User x cannot list")
    with pytest.raises(SettingsError, match="--gpus-per-node"):
        driven(MPI.gpus(), denied)


def test_stopping_a_finished_job_is_no_error() -> None:
    finished = (
        '{"metadata":{"name":"t","labels":{"app.kubernetes.io/managed-by":"gpu-profile"}},'
        '"status":{"conditions":[{"type":"Failed","status":"True"}]}}'
    )
    _, commands = driven(MPI.stop("team/t"), Result(returncode=0, stdout=finished))
    assert len(commands) == 1
