"""profile --manifest on a real cluster: objects of users, of each kind that it has."""

import json
import re

import pytest

from gpu_profile.command import Result
from tests.live.kubernetes.conftest import Cluster, must

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry]

SHORT = "[sh, -c, 'sleep 1; hostname']"
"""One rank, which takes 1 s of CPU under nsys, and a training 5 s."""
TRAIN = "[python3, /train.py, --layers=1, --width=64, --steps=2, --warmup=1]"
TORCHRUN = """[torchrun, --nproc_per_node=2, --rdzv_backend=c10d, --rdzv_endpoint=/tmp/meeting,
  --rdzv_conf=store_type=file, --rdzv_id=1, /train.py, --layers=1, --width=64, --steps=2]"""
ENV = """[{name: USE_LIBUV, value: "0"},
  {name: TORCH_DISABLE_SHARE_RDZV_TCP_STORE, value: "1"}]"""
NEVER = "restartPolicy: Never, "


def pod(command: str, *, name: str = "main", policy: str = NEVER) -> str:
    """A pod's spec in braces. IMAGE stands for the image."""
    return (
        f"{{{policy}containers: [{{name: {name}, image: IMAGE, command: {command}, env: {ENV}}}]}}"
    )


SSHD = "[sh, -c, 'mkdir -p /run/sshd && ssh-keygen -A && exec /usr/sbin/sshd -De']"
MPIRUN = """[mpirun, --allow-run-as-root, --hostfile, /etc/mpi/hostfile, -np, "2", --map-by, node,
  --mca, plm_ssh_args, "-o StrictHostKeyChecking=no", sh, -c, "sleep 1; hostname"]"""
OBJECTS = {
    "Pod v1": f"spec: {pod(SHORT)}",
    "Job batch/v1": f"spec: {{backoffLimit: 0, template: {{spec: {pod(TORCHRUN)}}}}}",
    "StatefulSet apps/v1": f"""spec:
  {{serviceName: x, replicas: 2, selector: {{matchLabels: {{app: x}}}},
    template: {{metadata: {{labels: {{app: x}}}}, spec: {pod(SHORT, policy="")}}}}}""",
    "JobSet jobset.x-k8s.io/v1alpha2": f"""spec:
  replicatedJobs:
    - {{name: workers, replicas: 2, template: {{spec: {{template: {{spec: {pod(SHORT)}}}}}}}}}""",
    "PyTorchJob kubeflow.org/v1": f"""spec:
  pytorchReplicaSpecs:
    Master: &replica {{replicas: 1, template: {{spec: {pod(TRAIN, name="pytorch", policy="")}}}}}
    Worker: *replica""",
    "TrainJob trainer.kubeflow.org/v1alpha1": f"""spec:
  runtimeRef: {{name: torch-distributed}}
  trainer: {{image: IMAGE, numNodes: 2, command: {SHORT}}}""",
    "MPIJob kubeflow.org/v2beta1": f"""spec:
  launcherCreationPolicy: WaitForWorkersReady
  mpiReplicaSpecs:
    Launcher: {{template: {{spec: {pod(MPIRUN, policy="")}}}}}
    Worker: {{replicas: 2, template: {{spec: {pod(SSHD, policy="")}}}}}""",
}
RANKS = {"Pod": 1}


def write(cluster: Cluster, api: str, body: str, image: str = "") -> str:
    """The path of a manifest with one object `x`."""
    kind, _, version = api.partition(" ")
    head = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}} # ours\n"
    path = cluster.directory / "user.yaml"
    path.write_text(head + body.replace("IMAGE", f'"{image or cluster.image}"') + "\n")
    return f"--manifest={path}"


@pytest.mark.parametrize("api", OBJECTS, ids=lambda api: api.split()[0])
def test_an_object_of_each_kind_is_recorded_fetched_and_read(cluster: Cluster, api: str) -> None:
    # Of the calls that import torch alone, nsys writes 150,000 into each report: 5 s of a CPU.
    trace = ("--trace=nvtx",) if "/train.py" in OBJECTS[api] else ()
    done = cluster.invoke("profile", write(cluster, api, OBJECTS[api]), *trace)
    assert done.returncode == 0, done.stderr
    record = cluster.record()
    ranks = list(range(RANKS.get(api.split()[0], 2)))
    assert [facts["rank"] for facts in record["reports"]] == ranks
    assert record["handle"] == f"{api.split()[0].lower()}://{cluster.namespace}/x"
    kind = api.split()[0].lower()
    assert must(cluster.kubectl("get", kind, "--output=name", "--ignore-not-found")) == ""
    read = cluster.invoke("diagnose", "--run", record["id"])
    assert read.returncode == 0, read.stderr


def test_the_exit_code_is_kept_and_what_was_recorded_too(cluster: Cluster) -> None:
    body = f"spec: {pod('[bash, -c, sleep 1; exit 7]')}"
    done = cluster.invoke("profile", write(cluster, "Pod v1", body))
    assert done.returncode == 5
    assert "exit code 7" in done.stderr
    assert len(cluster.reports()) == 1


SERVER = f"""spec:
  replicas: 2
  selector: {{matchLabels: {{app: x}}}}
  template:
    metadata: {{labels: {{app: x}}}}
    spec: {pod('[python3, -m, http.server, "8000"]', policy="")}"""


def test_a_deployment_that_runs_is_changed_after_a_yes_and_put_back(cluster: Cluster) -> None:
    manifest = write(cluster, "Deployment apps/v1", SERVER)
    must(cluster.kubectl("apply", "--filename", manifest.partition("=")[2]))
    must(cluster.kubectl("rollout", "status", "deployment/x", "--timeout=120s"))
    before = spec_of(cluster)
    refused = cluster.invoke("profile", manifest, "--trace=osrt")
    assert refused.returncode == 2
    assert spec_of(cluster) == before
    handle = must(cluster.invoke("profile", manifest, "--trace=osrt", "--yes", "--detach"))
    assert "+        gpu-profile.io/object: x" in handle
    must(cluster.kubectl("rollout", "status", "deployment/x", "--timeout=120s"))
    where = handle.splitlines()[-1]
    again = cluster.invoke("profile", manifest, "--yes")
    assert again.returncode == 2
    assert re.search(r"exists on the cluster already, for x-\d+", again.stderr)
    must(cluster.invoke("stop", "--job", where))
    fetched: Result = cluster.invoke("fetch", "--job", where)
    assert fetched.returncode == 0, fetched.stderr
    assert [name.split(".")[0] for name in cluster.reports()] == ["rank0", "rank1"]
    assert spec_of(cluster) == before


def spec_of(cluster: Cluster) -> object:
    return json.loads(must(cluster.kubectl("get", "deployment", "x", "--output=json")))["spec"]


def test_a_job_of_that_name_is_left_alone(cluster: Cluster) -> None:
    sleeping = pod('[sleep, "60"]')
    manifest = write(cluster, "Job batch/v1", f"spec: {{template: {{spec: {sleeping}}}}}")
    must(cluster.kubectl("apply", "--filename", manifest.partition("=")[2]))
    done = cluster.invoke("profile", manifest, "--yes")
    assert done.returncode == 2
    assert "exists on the cluster already" in done.stderr
    assert cluster.invoke("stop", "--job", f"job://{cluster.namespace}/x").returncode == 2
