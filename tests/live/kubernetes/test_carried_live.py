"""Pods of images without nsys and Python: an init container brings both from our image."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from gpu_profile import process
from gpu_profile.command import make_command
from tests.live.kubernetes.conftest import Cluster, must, pushed
from tests.live.test_docker_carried import LIKENESS, NAPS

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry]

PROGRAM = ("perl", "-e", f"{NAPS} exit $ENV{{RANK}} * 7")


@pytest.fixture
def theirs(embedded: None, registry_address: str) -> Iterator[str]:
    """An image of Debian's essential packages, by its digest in the registry."""
    name = f"gpu-profile-test-pods-{os.getpid()}"
    subprocess.run([LIKENESS, "bookworm", name], check=True)
    yield pushed(name, registry_address)
    process.run(make_command("docker", "image", "rm", "--force", name))


def test_two_pods_of_an_image_without_nsys(cluster: Cluster, theirs: str) -> None:
    where = ("--on=pytorchjob", "--nodes=2", "--gpus=0", f"--image={theirs}")
    ours = f"--set=CARRIER_IMAGE={cluster.image}"
    done = cluster.invoke("profile", *where, ours, "--", *PROGRAM)
    assert done.returncode == 5, done.stderr
    assert f"nsys is carried to {theirs}: {cluster.image}" in done.stderr
    assert "7" in done.stderr, "the exit code of rank 1"
    record = cluster.record()
    assert [facts["rank"] for facts in record["reports"]] == [0, 1]
    assert all(facts["events"]["osrt"] >= 20 for facts in record["reports"])
    refused = cluster.invoke("profile", "--on=trainjob", *where[1:], ours, "--", *PROGRAM)
    assert refused.returncode == 2
    assert "a TrainJob cannot add an init container to its runtime" in refused.stderr


def test_podsecurity_restricted_lets_it_in(cluster: Cluster, theirs: str) -> None:
    label = "pod-security.kubernetes.io/enforce=restricted"
    must(cluster.kubectl("label", "namespace", cluster.namespace, label))
    where = ("--on=pytorchjob", "--gpus=0", f"--image={theirs}", "--carry")
    settings = (f"--set=CARRIER_IMAGE={cluster.image}", "--set=KUBE_RUN_AS_USER=1000")
    done = cluster.invoke("profile", *where, *settings, "--", *PROGRAM)
    assert done.returncode == 0, done.stderr
    (facts,) = cluster.record()["reports"]
    assert facts["events"]["osrt"] >= 20
