"""--with torch in pods: of an object of ours, and of a manifest whose image has nothing of ours."""

import base64
import json
import os
from collections.abc import Iterator

import pytest

from gpu_profile import process
from gpu_profile.command import make_command
from tests.live.kubernetes.conftest import Cluster, must, pushed
from tests.live.torch_site import DOUBLE, PROFILER, TRAIN

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry]
WORDS = ("--with=torch", "--annotate=modules", "--steps=4:8")
SITE = f"KINETO = True\n{DOUBLE.read_text()}{PROFILER}"
FILES = {"torch/__init__.py": SITE, "train.py": TRAIN}
SCRIPT = "mkdir -p /tmp/site/torch; cd /tmp/site; "
SCRIPT += "; ".join(
    f"echo {base64.b64encode(text.encode()).decode()} | base64 -d >{name}"
    for name, text in FILES.items()
)
SCRIPT += "; export PYTHONPATH=/tmp/site:$PYTHONPATH; exec python3 train.py 20"


def check_run(cluster: Cluster, ranks: int) -> None:
    facts = cluster.record()["reports"]
    assert [one["rank"] for one in facts] == list(range(ranks))
    traces = sorted(path.name for path in cluster.directory.glob("*/*.pt.trace.json.gz"))
    assert [name.partition(".")[0] for name in traces] == [f"rank{rank}" for rank in range(ranks)]


def test_pods_of_a_pytorchjob(cluster: Cluster) -> None:
    done = cluster.profile("pytorchjob", "--ddp", *WORDS, "--", "bash", "-c", SCRIPT)
    assert done.returncode == 0, done.stderr
    check_run(cluster, 2)


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
    container = {"name": "main", "image": theirs, "command": ["bash", "-c", SCRIPT]}
    spec = {"restartPolicy": "Never", "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
    path = cluster.directory / "pod.yaml"
    path.write_text(json.dumps(pod))
    ours = f"--set=CARRIER_IMAGE={cluster.image}"
    done = cluster.invoke("profile", f"--manifest={path}", ours, *WORDS)
    assert done.returncode == 0, done.stderr
    assert f"our agent is carried to {theirs}: {cluster.image}" in done.stderr
    check_run(cluster, 1)
