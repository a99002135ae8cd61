"""Manifests as data: whole renderings, and words that must reach a rank unchanged."""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_profile import process
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.errors import SettingsError
from gpu_profile.job import Job, NsysPlan, Resources
from gpu_profile.kubernetes.ec2_instances import find_instance
from gpu_profile.kubernetes.kubectl import KubernetesCluster
from gpu_profile.kubernetes.report_place import ReportPlace
from gpu_profile.kubernetes.yaml_text import load_yaml
from gpu_profile.launchers.kubernetes import manifests
from gpu_profile.launchers.kubernetes.job.job import KubernetesJob
from gpu_profile.launchers.kubernetes.mpijob import MpiJobLauncher
from gpu_profile.launchers.kubernetes.nsys_probe import make_probe_manifest
from gpu_profile.launchers.kubernetes.pod_options import PodOptions
from gpu_profile.launchers.kubernetes.pytorchjob import PyTorchJobLauncher
from gpu_profile.launchers.kubernetes.reports.claim_reader import make_reader_manifest
from gpu_profile.launchers.kubernetes.trainjob import TrainJobLauncher
from tests.invoked import invoke
from tests.unit.settings_for import settings_for

IMAGE = ImageRef(registry="registry.example:5000", name="gpu-profile", digest=f"sha256:{'0' * 64}")
CLUSTER = KubernetesCluster(context="gpus", namespace="team")
PLAIN = PodOptions(image=IMAGE)
FULL = PodOptions(
    image=IMAGE,
    instance=find_instance("p5.48xlarge"),
    place=ReportPlace(claim="reports", mount="/reports"),
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
    create, _ = process.plan(kind(cluster=CLUSTER, options=options).submit(job, PLAN))
    assert create.argv[:4] == ("kubectl", "--context=gpus", "--namespace=team", "create")
    return load_yaml(create.stdin)


def objects(launcher: KubernetesJob, job: Job) -> str:
    """What is created, the job and its Secret, as one YAML file."""
    return "---\n".join(command.stdin for command in process.plan(launcher.submit(job, PLAN)))


def test_no_script_has_two_dollars() -> None:
    """The kubelet makes one of them. A rank's mark held no process, so that its job was ended after
    three minutes as one whose ranks have all ended."""
    texts = {path.name: path.read_text() for path in manifests.DIRECTORY.glob("*.yaml")}
    assert [name for name, text in texts.items() if "$$" in text] == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize(("name", "options"), [("plain", PLAIN), ("full", FULL)])
def test_rendering(
    kind: type[KubernetesJob],
    name: str,
    options: PodOptions,
    golden: Callable[[str, str], None],
) -> None:
    wanted = job() if name == "full" else cpu_job()
    golden(f"{kind.name}-{name}.yaml", objects(kind(cluster=CLUSTER, options=options), wanted))


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
    golden(f"{kind.name}-settings.yaml", objects(placed(kind), cpu_job(image=IMAGE)))


def test_a_trainjob_refuses_a_priority_class() -> None:
    launcher = TrainJobLauncher.from_settings(settings_for("KUBE_PRIORITY_CLASS=training"))
    with pytest.raises(SettingsError, match="KUBE_PRIORITY_CLASS"):
        process.plan(launcher.submit(cpu_job(), PLAN))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_file_in_k8s_is_a_manifest_by_itself(kind: type[KubernetesJob]) -> None:
    manifest = manifests.load_manifest(f"{kind.name}.yaml")
    assert manifest["metadata"]["name"] == "example"
    before = copy.deepcopy(manifest)
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


def pod_specs(manifest: Any) -> list[dict[str, Any]]:
    """The pod specs of a job: of each replica, or of the runtime patch."""
    if "trainer" in manifest["spec"]:
        jobs = manifest["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]
        return [job["template"]["spec"]["template"]["spec"] for job in jobs["replicatedJobs"]]
    replicas = next(v for k, v in manifest["spec"].items() if k.endswith("ReplicaSpecs"))
    return [replica["template"]["spec"] for replica in replicas.values()]


def all_pods(launcher: KubernetesJob, plan: NsysPlan = PLAN) -> list[dict[str, Any]]:
    """The job's pods, and the two that gpu-profile makes itself; the file in k8s/ as it stands."""
    options = launcher.options
    reader = make_reader_manifest("team/a-reader", str(IMAGE), options, "reports", "/wd")
    probe = make_probe_manifest("a-probe", cpu_job(), options)
    manifest = launcher.manifest(cpu_job(), plan)
    return [*pod_specs(manifest), reader["spec"], probe["spec"]]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("options", [PLAIN, FULL], ids=["root", "user"])
def test_every_pod_has_a_seccomp_profile_no_token_and_no_capability(
    kind: type[KubernetesJob], options: PodOptions
) -> None:
    launcher = kind(cluster=CLUSTER, options=options)
    as_it_stands = manifests.load_manifest(f"{kind.name}.yaml")
    for pod in [*all_pods(launcher), *pod_specs(as_it_stands)]:
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        of_runtime = "restartPolicy" not in pod and kind is TrainJobLauncher
        assert of_runtime or pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            mounts = [mount["mountPath"] for mount in container.get("volumeMounts", ())]
            # Kubernetes mounts no token over another mount.
            assert not of_runtime or "/var/run/secrets/kubernetes.io/serviceaccount" in mounts
        for container in pod["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
            added = container["securityContext"]["capabilities"].get("add", [])
            is_sshd = container["name"] == "worker"
            wanted = {"SETGID", "SETUID", "SYS_CHROOT"} if is_sshd else {"DAC_OVERRIDE"}
            assert set(added) <= (wanted if not pod["securityContext"].get("runAsUser") else set())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_pod_cannot_fill_its_node(kind: type[KubernetesJob]) -> None:
    """A /dev/shm without a limit takes half of the node's memory."""
    as_it_stands = manifests.load_manifest(f"{kind.name}.yaml")
    launcher = kind(cluster=CLUSTER, options=PLAIN)
    for pod in [*all_pods(launcher), *pod_specs(as_it_stands)]:
        for volume in pod.get("volumes", ()):
            assert "emptyDir" not in volume or volume["emptyDir"]["sizeLimit"], volume

    settings = settings_for("KUBE_CPUS=6", "KUBE_MEMORY_GIB=40", "KUBE_DISK_GIB=7")
    options = kind.from_settings(settings).options
    manifest = kind(cluster=CLUSTER, options=options).manifest(job(), PLAN)
    limited = pod_specs(manifest)
    # A TrainJob's resources stand beside the pods: spec.trainer.resourcesPerNode.
    assert '"limits": {"nvidia.com/gpu": 8, "memory": "40Gi", "cpu": 6}' in json.dumps(manifest)
    sizes = {
        volume["name"]: volume["emptyDir"]["sizeLimit"]
        for pod in limited
        for volume in pod.get("volumes", ())
        if volume["name"] in ("shm", "reports")
    }
    assert sizes == {"shm": "10Gi", "reports": "7Gi"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_pods_of_our_image_do_not_run_as_root(kind: type[KubernetesJob]) -> None:
    for pod in all_pods(kind.from_settings(settings_for())):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 1000


@pytest.mark.parametrize(
    "setting", ["KUBE_RUN_AS_USER=0", "INSTALL_MPI=false", "KUBE_REPORT_TO=pvc:reports:/wd"]
)
def test_the_images_own_user_stays(setting: str) -> None:
    """Asked for; without the account; on a file server where fsGroup changes nothing."""
    (master, *_) = all_pods(PyTorchJobLauncher.from_settings(settings_for(setting)))
    assert "runAsUser" not in master["securityContext"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_reports_in_a_directory_of_each_node_are_roots(kind: type[KubernetesJob]) -> None:
    options = kind.from_settings(settings_for("KUBE_REPORT_TO=hostpath:/tmp")).options
    manifest = kind(cluster=CLUSTER, options=options).manifest(cpu_job(), PLAN)
    run = "train-20261121-031500"
    assert manifest["metadata"]["annotations"]["gpu-profile.io/host-path"] == f"/tmp/{run}"
    source = {"hostPath": {"path": f"/tmp/{run}", "type": "DirectoryOrCreate"}}
    workers = [pod for pod in pod_specs(manifest) if "reports" in json.dumps(pod.get("volumes"))]
    for pod in workers:
        assert pod["securityContext"]["runAsUser"] == 0
        assert {"name": "reports", **source} in pod["volumes"]
        mounts = pod["containers"][0]["volumeMounts"]
        assert {"name": "reports", "mountPath": f"/wd/{run}"} in mounts
    assert workers
    with pytest.raises(SettingsError, match="root's alone, and KUBE_RUN_AS_USER is 7"):
        kind.from_settings(settings_for("KUBE_REPORT_TO=hostpath:/tmp", "KUBE_RUN_AS_USER=7"))


def test_an_image_of_others_keeps_its_own_user(tmp_path: Path) -> None:
    words = ("--image=team/training:1", "--gpus=0", "--dry-run", "--nodes=1", "--", "true")
    done = invoke("profile", "--on=pytorchjob", *words, directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "seccompProfile" in done.stdout
    assert "runAsUser" not in done.stdout


def test_sampling_asks_for_the_capability_on_workers_alone() -> None:
    """SYS_ADMIN reaches root alone: the default user gives way, a user of the settings stays."""
    plan = NsysPlan(options=("--sample=process-tree",), needs_privileges=True)
    ours = MpiJobLauncher.from_settings(settings_for()).manifest(cpu_job(), plan)
    launcher, worker = pod_specs(ours)
    assert "runAsUser" not in {**worker["securityContext"], **launcher["securityContext"]}
    assert worker["containers"][0]["securityContext"] == {
        "capabilities": {"drop": ["ALL"], "add": ["SETGID", "SETUID", "SYS_CHROOT", "SYS_ADMIN"]}
    }
    assert launcher["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    theirs = MpiJobLauncher.from_settings(settings_for("KUBE_RUN_AS_USER=7"))
    assert pod_specs(theirs.manifest(cpu_job(), plan))[1]["securityContext"]["runAsUser"] == 7


def test_one_node_needs_no_worker() -> None:
    one = job(resources=Resources(nodes=1, gpus_per_node=1, tasks_per_node=1))
    manifest = submitted(PyTorchJobLauncher, PLAIN, one)
    assert list(manifest["spec"]["pytorchReplicaSpecs"]) == ["Master"]


def test_a_plain_command_is_one_process_a_node() -> None:
    manifest = submitted(TrainJobLauncher, PLAIN, cpu_job(ddp=False))
    assert not [word for word in manifest["spec"]["trainer"]["args"] if "--processes" in word]


def test_an_image_of_the_nodes_is_not_pulled() -> None:
    """Kubernetes' default is IfNotPresent, except for `latest`: a TrainJob has no such field."""
    for kind in KINDS:
        pods = json.dumps(manifests.load_manifest(f"{kind.name}.yaml"))
        image = re.search(r'"image": "(?P<name>[^"]+)"', pods)
        assert image
        assert '"imagePullPolicy": "IfNotPresent"' in pods or not image["name"].endswith(":latest")
        assert "@sha256:" in json.dumps(submitted(kind, PLAIN, cpu_job(image=IMAGE)))
