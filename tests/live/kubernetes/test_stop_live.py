"""stop --job on each engine, and a PyTorchJob with an elastic policy and no master."""

import json

import pytest

from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.job import Job, NsysPlan, Resources
from gpu_profile.launchers.kubernetes.pytorchjob import PyTorchJobLauncher
from tests.live.kubernetes.conftest import Cluster, must
from tests.live.kubernetes.test_profile_kubernetes import WORDS, assert_said
from tests.unit.settings_for import settings_for

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry]
_LIGHT = NsysPlan(options=("--trace=nvtx", "--sample=none", "--cpuctxsw=none"))


SAYS = """echo $RANK of $WORLD_SIZE
exec python3 -c 'import json, sys, time
print("words", json.dumps(sys.argv[1:]), flush=True)
time.sleep(600)' "$@"
"""


def test_a_stopped_job_leaves_its_reports(cluster: Cluster, launcher: str) -> None:
    handle = cluster.started(launcher, "--", "sh", "-c", SAYS, "sh", *WORDS)
    cluster.wait_for("words [", handle, ranks=2)
    said = must(cluster.invoke("stop", "--job", handle))
    assert f"`invoke fetch --job {handle}` brings its reports" in said
    done = cluster.invoke("fetch", "--job", handle)
    assert done.returncode == 0, done.stderr
    assert "stopped by you" in done.stderr
    ranks = [name.split(".")[0] for name in cluster.reports()]
    assert ranks == ["rank0", "rank1"], done.stderr
    assert_said(cluster)
    assert must(cluster.kubectl("get", handle.partition("://")[0], "--output=name")) == ""


def elastic(cluster: Cluster) -> str:
    """Our manifest as a user makes it elastic: workers alone, which torch's rendezvous counts."""
    job = Job(
        name="elastic-1",
        command=("python3", "/train.py", "--layers=1", "--width=64", "--steps=3", "--warmup=1"),
        image=ImageRef.parse(cluster.image),
        resources=Resources(nodes=2, gpus_per_node=0, tasks_per_node=1),
        ddp=True,
    )
    launcher = PyTorchJobLauncher.from_settings(settings_for())
    manifest = launcher.manifest(job, _LIGHT)
    replicas = manifest["spec"]["pytorchReplicaSpecs"]
    del replicas["Master"]
    replicas["Worker"]["replicas"] = 2
    manifest["spec"]["elasticPolicy"] = {"minReplicas": 2, "maxReplicas": 2, "rdzvBackend": "c10d"}
    must(cluster.kubectl("create", "--filename=-", stdin=json.dumps(manifest)))
    return f"pytorchjob://{cluster.namespace}/elastic-1"


def test_an_elastic_job_has_a_rank_for_each_worker(cluster: Cluster) -> None:
    handle = elastic(cluster)
    done = cluster.invoke("fetch", "--job", handle)
    assert done.returncode == 0, done.stderr
    ranks = {facts["rank"]: facts["host"] for facts in cluster.record()["reports"]}
    assert ranks == {0: "elastic-1-worker-0", 1: "elastic-1-worker-1"}
    (output,) = cluster.directory.glob("*/output.log")
    assert '"world_size": 2' in output.read_text()
