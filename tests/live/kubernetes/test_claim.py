"""Reports on a claim outlive their pods: pods need not wait, and a lost node loses nothing."""

import json
from pathlib import Path

import pytest

from tests.live.kubernetes.conftest import Cluster, must

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
    done = cluster.profile(launcher, f"--pvc={volume}", "--", "sh", "-c", "sleep 1")
    assert done.returncode == 0, done.stderr
    assert [name.split(".")[0] for name in cluster.reports()] == ["rank0", "rank1"]
    assert len(list((cluster.directory / "volume").glob("*/*.nsys-rep"))) == 2
    must(cluster.kubectl("delete", "pv", cluster.namespace, "--wait=false"))


def test_a_worker_whose_disk_is_full_says_so(cluster: Cluster, small_disk: Path) -> None:
    (small_disk / "taken").write_bytes(bytes(3 * 2**20 - 4096))
    words = (f"--pvc={claim(cluster, small_disk)}", "--", "sh", "-c", "sleep 1")
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
