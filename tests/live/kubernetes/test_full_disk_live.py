"""A full disk in a pod, or here during the fetch: the line says so, and the recording stays."""

import json
from pathlib import Path

import pytest

from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.job import Job, NsysPlan, Resources
from gpu_profile.launchers.kubernetes.pytorchjob import PyTorchJobLauncher
from tests.live.kubernetes.conftest import Cluster, must
from tests.unit.settings_for import settings_for

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry]
_LIGHT = NsysPlan(options=("--trace=nvtx,osrt", "--sample=none", "--cpuctxsw=none"))


def start_with_little_room(cluster: Cluster) -> str:
    """A PyTorchJob of one pod whose reports' volume takes 128 KiB; a report has 250 KiB or more."""
    job = Job(
        name="full-1",
        command=("sh", "-c", "sleep 1"),
        image=ImageRef.parse(cluster.image),
        resources=Resources(nodes=1, gpus_per_node=0, tasks_per_node=1),
    )
    manifest = PyTorchJobLauncher.from_settings(settings_for()).manifest(job, _LIGHT)
    pod = manifest["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    (reports,) = [volume for volume in pod["volumes"] if volume["name"] == "reports"]
    reports["emptyDir"] = {"medium": "Memory", "sizeLimit": "128Ki"}
    must(cluster.kubectl("create", "--filename=-", stdin=json.dumps(manifest)))
    return f"pytorchjob://{cluster.namespace}/full-1"


def test_a_full_volume_of_a_pod_is_named_and_the_pod_keeps_the_recording(cluster: Cluster) -> None:
    handle = start_with_little_room(cluster)
    done = cluster.invoke("fetch", "--job", handle)
    assert done.returncode == 6, done.stderr
    assert "no report of rank 0" in done.stderr
    assert "a disk was full (No space left on device)" in done.stderr
    (output,) = cluster.directory.glob("*/output.log")
    streams = ("exec", "full-1-master-0", "--", "sh", "-c", "ls /tmp/nsys-report-*.qdstrm")
    listed = must(cluster.kubectl(*streams))
    assert listed.strip() in output.read_text()


def test_a_full_disk_here_leaves_the_reports_in_the_pods(
    cluster: Cluster, small_disk: Path
) -> None:
    handle = cluster.started("pytorchjob", "--", "sh", "-c", "sleep 1")
    (small_disk / "taken").write_bytes(bytes(3 * 2**20 - 64 * 1024))
    done = cluster.invoke("fetch", "--job", handle, "--set", f"REPORT_DIR={small_disk}")
    assert done.returncode == 6, done.stderr
    assert f"no space is left in {small_disk}" in done.stderr
    assert "goes on: the pods have them still" in done.stderr
    assert not list(small_disk.glob("*/*.nsys-rep"))
    done = cluster.invoke("fetch", "--job", handle)
    assert done.returncode == 0, done.stderr
    assert len(cluster.reports()) == 2
