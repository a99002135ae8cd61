"""--with torch in pods: of an object of ours, and of a manifest whose image has nothing of ours."""

import json
import os
from collections.abc import Iterator

import pytest

from gpu_profile import process
from gpu_profile.command import make_command
from tests.live.kubernetes.conftest import Cluster, must, pushed
from tests.live.torch_site import REAL_TRAIN, check_end, record_twice

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry]
ARMED = ("--with=torch", "--record=manual", "--detach")
PROGRAM = ("python3", "-c", REAL_TRAIN, "/tmp/enough")


def check_windows(cluster: Cluster, handle: str, ranks: int) -> None:
    """Two windows are brought while the pods train, and then the job has its own exit code."""
    record_twice(cluster.invoke, handle, ranks)
    for pod in cluster.pods():
        name = pod["metadata"]["name"]
        must(cluster.kubectl("exec", name, "--", "touch", "/tmp/enough"))
    check_end(cluster.invoke, handle, ranks)
    assert not cluster.reports()


def test_pods_of_a_pytorchjob(cluster: Cluster) -> None:
    handle = cluster.started("pytorchjob", "--ddp", *ARMED, "--", *PROGRAM)
    check_windows(cluster, handle, ranks=2)


@pytest.fixture
def theirs(image: str, registry_address: str) -> Iterator[str]:
    """The image under test without what makes it ours: its Python is the image's own."""
    name = f"gpu-profile-test-by-torch-{os.getpid()}"
    recipe = f"FROM {image}\nRUN rm -r /opt/gpu-profile /profile.py\n"
    must(process.run(make_command("docker", "build", f"--tag={name}", "-", stdin=recipe)))
    yield pushed(name, registry_address)
    process.run(make_command("docker", "rmi", name))


def test_a_pod_of_a_manifest_gets_our_agent_from_an_init_container(
    cluster: Cluster, theirs: str
) -> None:
    container = {"name": "main", "image": theirs, "command": list(PROGRAM)}
    spec = {"restartPolicy": "Never", "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
    path = cluster.directory / "pod.yaml"
    path.write_text(json.dumps(pod))
    ours = f"--set=CARRIER_IMAGE={cluster.image}"
    done = cluster.invoke("profile", f"--manifest={path}", ours, *ARMED)
    assert f"our agent is carried to {theirs}: {cluster.image}" in done.stderr
    check_windows(cluster, must(done).splitlines()[-1], ranks=1)
