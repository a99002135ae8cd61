"""--with torch in pods: of an object of ours, and of a manifest of the user's."""

import base64
import json

import pytest

from tests.live.kubernetes.conftest import Cluster
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


def test_a_pod_of_a_manifest(cluster: Cluster) -> None:
    container = {"name": "main", "image": cluster.image, "command": ["bash", "-c", SCRIPT]}
    spec = {"restartPolicy": "Never", "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
    path = cluster.directory / "pod.yaml"
    path.write_text(json.dumps(pod))
    done = cluster.invoke("profile", f"--manifest={path}", *WORDS)
    assert done.returncode == 0, done.stderr
    check_run(cluster, 1)
