"""Reports outlive their pods on a claim, and in a directory of each node."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.live.kubernetes.conftest import Cluster, kubectl, must

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry]


def claim(cluster: Cluster, directory: Path) -> str:
    """A claim that pods of both nodes write to: a directory, for the nodes share a machine."""
    size = {"storage": "1Gi"}
    volume = {
        "capacity": size,
        "accessModes": ["ReadWriteMany"],
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": "",
        "hostPath": {"path": str(directory), "type": "DirectoryOrCreate"},
    }
    wanted = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "volumeName": cluster.namespace,
        "resources": {"requests": size},
    }
    for kind, name, spec in (
        ("PersistentVolume", cluster.namespace, volume),
        ("PersistentVolumeClaim", "reports", wanted),
    ):
        manifest = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        must(cluster.kubectl("create", "--filename=-", stdin=json.dumps(manifest)))
    return "reports:/reports"


@pytest.mark.parametrize("launcher", ["mpijob", "pytorchjob"])
def test_reports_come_off_the_claim(cluster: Cluster, launcher: str) -> None:
    volume = claim(cluster, cluster.directory / "volume")
    done = cluster.profile(launcher, f"--report-to=pvc:{volume}", "--", "sh", "-c", "sleep 1")
    assert done.returncode == 0, done.stderr
    assert [name.split(".")[0] for name in cluster.reports()] == ["rank0", "rank1"]
    assert len(list((cluster.directory / "volume").glob("*/*.nsys-rep"))) == 2
    must(cluster.kubectl("delete", "pv", cluster.namespace, "--wait=false"))


POD = """{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {restartPolicy: Never,
  containers: [{name: main, image: "IMAGE", command: [sh, -c, "sleep 1"]}]}}"""


@pytest.mark.parametrize("place", [pytest.param("claim", marks=pytest.mark.slow), "hostpath"])
def test_an_object_of_the_user_writes_to_the_place_that_the_flag_names(
    cluster: Cluster, place: str
) -> None:
    (cluster.directory / "pod.yaml").write_text(POD.replace("IMAGE", cluster.image))
    volume = cluster.directory / "volume"
    volume.mkdir(mode=0o755)
    to = f"hostpath:{volume}" if place == "hostpath" else f"pvc:{claim(cluster, volume)}"
    words = ("--manifest=pod.yaml", "--trace=osrt", f"--report-to={to}")
    done = cluster.invoke("profile", *words)
    assert done.returncode == 0, done.stderr
    assert "its reports stay in" in done.stderr
    (report,) = volume.glob("*/*.nsys-rep")
    assert [report.name] == cluster.reports()
    assert report.parent.name == cluster.record()["id"]
    assert report.parent.stat().st_mode & 0o077 == 0
    kubectl("delete", "pv", cluster.namespace, "--wait=false", "--ignore-not-found")


def list_pods(cluster: Cluster) -> list[dict[str, Any]]:
    """The job's pods, without the one that asks nsys for its options."""
    return [pod for pod in cluster.pods() if pod["metadata"]["name"].endswith("-0")]


def test_nodes_have_the_reports_of_pods_that_are_gone(cluster: Cluster) -> None:
    to = f"--report-to=hostpath:{cluster.directory}/node"
    # Ranks that meet: a worker whose master has ended before never starts, for it has no address.
    training = ("python3", "/train.py", "--layers=1", "--width=64", "--steps=3", "--warmup=1")
    words = (to, "--set=KUBE_HOLD=1", "--trace=nvtx", "--", *training)
    handle = cluster.started("pytorchjob", *words)
    end = time.monotonic() + 120
    while [pod["status"]["phase"] for pod in list_pods(cluster)] != ["Succeeded", "Succeeded"]:
        assert time.monotonic() < end
        time.sleep(1)
    done = cluster.invoke("fetch", "--job", handle)
    assert done.returncode == 6, done.stderr
    (run,) = (cluster.directory / "node").iterdir()
    for role in ("master", "worker"):
        node = cluster.pod_named(f"-{role}-0")["node"]
        assert f"-{role}-0 on {node} cannot be read (succeeded); {node} has" in done.stderr
    assert f"has its reports in {run}" in done.stderr
    assert len(list(run.glob("*.nsys-rep"))) == 2
    assert run.stat().st_mode & 0o077 == 0


def test_a_namespace_without_host_paths_is_one_line_before_anything_starts(
    cluster: Cluster,
) -> None:
    label = "pod-security.kubernetes.io/enforce=baseline"
    must(cluster.kubectl("label", "namespace", cluster.namespace, label))
    done = cluster.profile("pytorchjob", "--report-to=hostpath:/tmp", "--", "true")
    assert done.returncode == 2
    assert "hostPath volumes" in done.stderr
    assert "Use --report-to pvc: or s3:" in done.stderr
    assert not list(cluster.directory.glob("*/run.json"))


def test_a_worker_whose_disk_is_full_says_so(cluster: Cluster, small_disk: Path) -> None:
    (small_disk / "taken").write_bytes(bytes(3 * 2**20 - 4096))
    words = (f"--report-to=pvc:{claim(cluster, small_disk)}", "--", "sh", "-c", "sleep 1")
    done = cluster.profile("mpijob", *words)
    assert done.returncode == 6, done.stderr
    (output,) = cluster.directory.glob("*/output.log")
    assert f"no report of rank 0, 1 in {output.parent}: a disk was full" in done.stderr
    said = output.read_text()
    assert "No space left on device" in said
    worker = cluster.pod_named("worker-0")["name"]  # the job stays: what was recorded is in it
    listed = must(cluster.kubectl("exec", worker, "--", "sh", "-c", "ls /tmp/*.qdstrm"))
    assert listed.strip() in said
    must(cluster.kubectl("delete", "pv", cluster.namespace, "--wait=false"))
