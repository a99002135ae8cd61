"""Manifests as data: whole renderings, and words that must reach a rank unchanged."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from gpu_profile import process
from gpu_profile.errors import SettingsError
from gpu_profile.image_ref import ImageRef
from gpu_profile.job import Job, NsysPlan, Resources
from gpu_profile.kubernetes.ec2_instances import find_instance
from gpu_profile.kubernetes.kubectl import KubernetesCluster
from gpu_profile.launchers.kubernetes import manifests
from gpu_profile.launchers.kubernetes.job import KubernetesJob
from gpu_profile.launchers.kubernetes.mpijob import MpiJobLauncher
from gpu_profile.launchers.kubernetes.pod_options import PodOptions
from gpu_profile.launchers.kubernetes.pytorchjob import PyTorchJobLauncher
from gpu_profile.launchers.kubernetes.trainjob import TrainJobLauncher
from tests.unit.settings_for import settings_for

IMAGE = ImageRef(registry="registry.example:5000", name="gpu-profile", digest=f"sha256:{'0' * 64}")
CLUSTER = KubernetesCluster(context="gpus", namespace="team")
PLAIN = PodOptions(image=IMAGE)
FULL = PodOptions(
    image=IMAGE,
    instance=find_instance("p5.48xlarge"),
    pvc="reports",
    reports="/reports",
    queue="gpu-queue",
    node_selector={"node.kubernetes.io/instance-type": "p5.48xlarge"},
    tolerations=({"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"},),
    affinity={"nodeAffinity": {}},
    service_account="profiler",
    run_as_user=1000,
)
PLAN = NsysPlan(options=("--trace=cuda,nvtx", "--sample=none"), first=("--nic-metrics=lf",))
KINDS: tuple[type[KubernetesJob], ...] = (MpiJobLauncher, PyTorchJobLauncher, TrainJobLauncher)


def job(**changes: Any) -> Job:
    fields: dict[str, Any] = {
        "name": "train-20261121-031500",
        "command": ("python3", "/train.py", "--epochs", "2"),
        "resources": Resources(nodes=2, gpus_per_node=8, tasks_per_node=8),
        "ddp": True,
        "env": {"NCCL_DEBUG": "INFO"},
    }
    return Job(**fields | changes)


def cpu_job(**changes: Any) -> Job:
    return job(resources=Resources(nodes=2, gpus_per_node=0, tasks_per_node=1), **changes)


def submitted(kind: type[KubernetesJob], options: PodOptions, job: Job) -> Any:
    (create,) = process.plan(kind(cluster=CLUSTER, options=options).submit(job, PLAN))
    assert create.argv[:4] == ("kubectl", "--context=gpus", "--namespace=team", "create")
    return yaml.safe_load(create.stdin)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize(("name", "options"), [("plain", PLAIN), ("full", FULL)])
def test_rendering(
    kind: type[KubernetesJob],
    name: str,
    options: PodOptions,
    golden: Callable[[str, str], None],
) -> None:
    wanted = job() if name == "full" else cpu_job()
    (create,) = process.plan(kind(cluster=CLUSTER, options=options).submit(wanted, PLAN))
    golden(f"{kind.name}-{name}.yaml", create.stdin)


SETTINGS = (
    "KUBE_CONTEXT=gpus",
    "KUBE_NAMESPACE=team",
    "KUBE_QUEUE=gpu-queue",
    "KUBE_NODE_SELECTOR=node.kubernetes.io/instance-type=p5.48xlarge,zone=a",
    "KUBE_TOLERATIONS=team=a:NoSchedule,spot:NoExecute,any",
    'KUBE_AFFINITY={"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}',
    "KUBE_SERVICE_ACCOUNT=profiler",
)


def placed(kind: type[KubernetesJob]) -> KubernetesJob:
    """Every setting that says where pods go; a TrainJob refuses the priority class."""
    priority = () if kind is TrainJobLauncher else ("KUBE_PRIORITY_CLASS=training",)
    return kind.from_settings(settings_for(*SETTINGS, *priority))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_rendering_of_settings(
    kind: type[KubernetesJob], golden: Callable[[str, str], None]
) -> None:
    (create,) = process.plan(placed(kind).submit(cpu_job(image=IMAGE), PLAN))
    golden(f"{kind.name}-settings.yaml", create.stdin)


def test_a_trainjob_refuses_a_priority_class() -> None:
    launcher = TrainJobLauncher.from_settings(settings_for("KUBE_PRIORITY_CLASS=training"))
    with pytest.raises(SettingsError, match="KUBE_PRIORITY_CLASS"):
        process.plan(launcher.submit(cpu_job(), PLAN))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_file_in_k8s_is_a_manifest_by_itself(kind: type[KubernetesJob]) -> None:
    found = manifests.load_manifest(f"{kind.name}.yaml")
    assert found["metadata"]["name"] == "example"
    before = copy.deepcopy(found)
    submitted(kind, FULL, job())
    assert manifests.load_manifest(f"{kind.name}.yaml") == before


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_commands_words_are_kept_from_the_kubelets_expansion(
    kind: type[KubernetesJob], hostile_name: str
) -> None:
    text = json.dumps(submitted(kind, PLAIN, cpu_job(command=("echo", hostile_name, "$(HOME)"))))
    assert json.dumps(hostile_name.replace("$", "$$")) in text
    assert '"$$(HOME)"' in text


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_same_input_same_bytes(kind: type[KubernetesJob]) -> None:
    assert submitted(kind, FULL, job()) == submitted(kind, FULL, job())


def test_a_share_of_an_instance_gets_that_share_of_efa_and_memory() -> None:
    half = job(resources=Resources(nodes=1, gpus_per_node=4, tasks_per_node=4))
    limits = FULL.resources(half)["limits"]
    assert limits["nvidia.com/gpu"] == 4
    assert limits["vpc.amazonaws.com/efa"] == 16
    assert limits["memory"] == "768Gi"


def test_sampling_asks_for_the_capability_on_workers_alone() -> None:
    plan = NsysPlan(options=("--sample=process-tree",), privileged=True)
    found = MpiJobLauncher(cluster=CLUSTER, options=PLAIN).manifest(cpu_job(), plan)
    replicas = found["spec"]["mpiReplicaSpecs"]
    (worker,) = replicas["Worker"]["template"]["spec"]["containers"]
    (launcher,) = replicas["Launcher"]["template"]["spec"]["containers"]
    assert worker["securityContext"] == {"capabilities": {"add": ["SYS_ADMIN"]}}
    assert "securityContext" not in launcher


def test_one_node_needs_no_worker() -> None:
    one = job(resources=Resources(nodes=1, gpus_per_node=1, tasks_per_node=1))
    found = submitted(PyTorchJobLauncher, PLAIN, one)
    assert list(found["spec"]["pytorchReplicaSpecs"]) == ["Master"]


def test_a_plain_command_is_one_process_a_node() -> None:
    found = submitted(TrainJobLauncher, PLAIN, cpu_job(ddp=False))
    assert not [word for word in found["spec"]["trainer"]["args"] if "--processes" in word]
