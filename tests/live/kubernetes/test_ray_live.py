"""A RayJob on a real cluster without KubeRay: the test makes its pods, as KubeRay's pages say.

Its image has no Ray. What stands for `ray start` is a program that starts another one, as the
raylet does, and goes on until it is stopped.
"""

import json
import time
from typing import Any

import pytest

from tests.live.kubernetes.conftest import Cluster, kubectl, must

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry]
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "rayjobs.ray.io"},
    "spec": {
        "group": "ray.io",
        "scope": "Namespaced",
        "names": {"kind": "RayJob", "plural": "rayjobs", "singular": "rayjob"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": OPEN},
                "subresources": {"status": {}},
            }
        ],
    },
}
RAYJOB = """apiVersion: ray.io/v1
kind: RayJob
metadata: {name: tune}
spec:
  entrypoint: python tune.py
  shutdownAfterJobFinishes: true
  rayClusterSpec:
    headGroupSpec:
      template: {spec: {containers: [{name: ray-head, image: "IMAGE"}]}}
    workerGroupSpecs:
      - replicas: 2
        template: {spec: {containers: [{name: ray-worker, image: "IMAGE"}]}}
"""
START = 'python3 -c \'import subprocess; subprocess.run(["sleep", "600"])\''


def make_pods(cluster: Cluster) -> None:
    """What KubeRay does with a RayJob, as far as its pods show it."""
    job: dict[str, Any] = json.loads(must(cluster.kubectl("get", "rayjob", "tune", "-ojson")))
    spec = job["spec"]["rayClusterSpec"]
    assert job["metadata"]["annotations"]["ray.io/overwrite-container-cmd"] == "true"
    assert job["spec"]["shutdownAfterJobFinishes"] is False
    owner = {key: job["metadata"][key] for key in ("name", "uid")}
    owner |= {"apiVersion": job["apiVersion"], "kind": job["kind"]}
    groups = [("head", 1, spec["headGroupSpec"]), ("workers", 2, spec["workerGroupSpecs"][0])]
    for name, count, group in groups:
        pod = {"apiVersion": "v1", "kind": "Pod", **group["template"]}
        pod["metadata"] |= {"generateName": f"tune-{name}-", "ownerReferences": [owner]}
        variable = {"name": "KUBERAY_GEN_RAY_START_CMD", "value": START}
        pod["spec"]["containers"][0]["env"].append(variable)
        for _ in range(count):
            must(cluster.kubectl("create", "--filename=-", stdin=json.dumps(pod)))


def set_status(cluster: Cluster, word: str) -> None:
    patch = json.dumps({"status": {"jobDeploymentStatus": word}})
    words = ("patch", "rayjob", "tune", "--subresource=status", "--type=merge")
    must(cluster.kubectl(*words, f"--patch={patch}"))


def test_what_its_pods_recorded_is_fetched_when_it_has_ended(cluster: Cluster) -> None:
    must(kubectl("apply", "--server-side", "--filename=-", stdin=json.dumps(CRD)))
    must(kubectl("wait", "crd/rayjobs.ray.io", "--for=condition=Established", "--timeout=60s"))
    (cluster.directory / "tune.yaml").write_text(RAYJOB.replace("IMAGE", cluster.image))
    words = ("--manifest=tune.yaml", "--trace=osrt", "--detach")
    handle = must(cluster.invoke("profile", *words)).splitlines()[-1]
    assert handle == f"rayjob://{cluster.namespace}/tune"
    make_pods(cluster)
    set_status(cluster, "Running")
    started = ("wait", "pod", "--selector=gpu-profile.io/object=tune", "--timeout=120s")
    must(cluster.kubectl(*started, "--for=condition=Ready"))
    assert cluster.invoke("status", "--job", handle).stdout == "running\n"
    time.sleep(3)  # for a program that sleeps there is nothing to wait for
    set_status(cluster, "Complete")
    fetched = cluster.invoke("fetch", "--job", handle, "--no-html")
    assert fetched.returncode == 0, fetched.stderr
    assert [name.split(".")[0] for name in cluster.reports()] == ["rank0", "rank1", "rank2"]
    assert must(cluster.kubectl("get", "rayjob", "--output=name")) == ""
