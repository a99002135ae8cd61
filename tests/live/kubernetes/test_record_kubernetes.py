"""`invoke record` on a cluster: pods that go on, each window fetched and read."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.live.kubernetes.conftest import Cluster, must

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry]

TURNS = "import time\nwhile True:\n    time.sleep(0.02)\n    print('turn', flush=True)"
SERVER = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: main
          image: "IMAGE"
          command: [python3, -m, http.server, "8000"]
          readinessProbe: {httpGet: {path: /, port: 8000}, periodSeconds: 1}
"""
CLIENT = """
import os, sys, time, urllib.request
made = failed = 0
print("begun", flush=True)
while not os.path.exists("/tmp/enough"):
    for address in sys.argv[1:]:
        try:
            urllib.request.urlopen(f"http://{address}:8000/", timeout=20).read()
            made += 1
        except OSError as error:
            print(address, error, flush=True)
            failed += 1
    time.sleep(0.02)
print(made, failed)
"""
_REPORT = re.compile(r"/rank(\d)\.\S+?\.(\d)\.nsys-rep: .* (\d+) osrt")


@contextmanager
def requesting(cluster: Cluster, pods: list[str], addresses: list[str]) -> Iterator[list[int]]:
    """Request from both pods while the body runs; then the list holds made and failed ones."""
    words = ("exec", pods[0], "--", "python3", "-c", CLIENT, *addresses)
    argv = ("kubectl", f"--namespace={cluster.namespace}", *words)
    counts: list[int] = []
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "begun\n"
        try:
            yield counts
        finally:
            must(cluster.kubectl("exec", pods[0], "--", "touch", "/tmp/enough"))
        said = client.stdout.read().strip().splitlines()
    assert len(said) == 1, said
    counts += map(int, said[0].split())


def wait_until_running(cluster: Cluster, handle: str) -> None:
    end = time.monotonic() + 120
    while (said := cluster.invoke("status", f"--job={handle}").stdout) != "running\n":
        assert time.monotonic() < end, said
        time.sleep(2)


def test_a_deployment_is_recorded_three_times_while_it_serves(cluster: Cluster) -> None:
    path = cluster.directory / "web.yaml"
    path.write_text(SERVER.replace("IMAGE", cluster.image))
    armed = ("--record=manual", "--trace=osrt", "--detach")
    handle = must(cluster.invoke("profile", f"--manifest={path}", *armed)).splitlines()[-1]
    must(cluster.kubectl("rollout", "status", "deployment/web", "--timeout=120s"))
    pods = sorted(cluster.pods(), key=lambda pod: str(pod["metadata"]["name"]))
    names = [str(pod["metadata"]["name"]) for pod in pods]
    with requesting(cluster, names, [str(pod["status"]["podIP"]) for pod in pods]) as counts:
        for number in (1, 2, 3):
            done = cluster.invoke("record", f"--job={handle}", "--seconds=1")
            assert done.returncode == 0, done.stderr
            reports = _REPORT.findall(done.stdout)
            assert [row[:2] for row in reports] == [("0", str(number)), ("1", str(number))]
            assert all(int(events) > 10 for _, _, events in reports)
    made, failed = counts
    assert (made > 20, failed) == (True, 0)
    assert cluster.invoke("status", f"--job={handle}").stdout == "running\n"
    refused = cluster.invoke("record", f"--job={handle}", "--steps=5")
    assert (refused.returncode, "no step of it is marked" in refused.stderr) == (2, True)
    must(cluster.invoke("stop", f"--job={handle}"))
    fetched = cluster.invoke("fetch", f"--job={handle}", "--no-html")
    assert len(cluster.reports()) == 6, fetched.stderr


def test_both_workers_of_an_mpijob_are_recorded(cluster: Cluster) -> None:
    """Which are not taken for ranks that have ended, however often they are looked at."""
    armed = ("--record=manual", "--trace=osrt", "--env=LOOK_SECONDS=1")
    handle = cluster.started("mpijob", *armed, "--", "python3", "-c", TURNS)
    cluster.wait_for("turn", handle, ranks=4)
    done = cluster.invoke("record", f"--job={handle}", "--seconds=1")
    assert done.returncode == 0, done.stderr
    assert [row[:2] for row in _REPORT.findall(done.stdout)] == [("0", "1"), ("1", "1")]
    assert cluster.invoke("status", f"--job={handle}").stdout == "running\n"
    must(cluster.invoke("stop", f"--job={handle}"))
    must(cluster.invoke("fetch", f"--job={handle}", "--no-html"))


SLOWLY = """
import runpy, sys, time
from torch.optim.optimizer import register_optimizer_step_post_hook
register_optimizer_step_post_hook(lambda *_: time.sleep(0.1))
sys.argv = ["/train.py", "--layers=1", "--width=64", "--steps=5000", "--warmup=1"]
runpy.run_path("/train.py", run_name="__main__")
"""
"""Ten steps a second: as fast as it can, two pods would take two CPUs until they are stopped."""
PYTORCHJOB = f"""apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: steps}}
spec:
  pytorchReplicaSpecs:
    Master: &replica
      replicas: 1
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: pytorch
              image: "IMAGE"
              command: [python3, -c, {json.dumps(SLOWLY)}]
              env: [{{name: OMP_NUM_THREADS, value: "1"}}]
    Worker: *replica
"""


def test_steps_of_a_users_own_pytorchjob_are_recorded(cluster: Cluster) -> None:
    path = cluster.directory / "steps.yaml"
    path.write_text(PYTORCHJOB.replace("IMAGE", cluster.image))
    armed = ("--record=manual", "--trace=nvtx,osrt", "--detach")
    handle = must(cluster.invoke("profile", f"--manifest={path}", *armed)).splitlines()[-1]
    assert handle == f"pytorchjob://{cluster.namespace}/steps"
    cluster.wait_for('"step_ms"', handle)
    wait_until_running(cluster, handle)  # the master prints while its worker's pod starts
    done = cluster.invoke("record", f"--job={handle}", "--steps=4")
    assert done.returncode == 0, done.stderr
    assert [row[:2] for row in _REPORT.findall(done.stdout)] == [("0", "1"), ("1", "1")]
    assert done.stdout.count(" nvtx, ") == 2
    must(cluster.invoke("stop", f"--job={handle}"))
    fetched = must(cluster.invoke("fetch", f"--job={handle}", "--no-html", "--format=json"))
    assert '"step' in fetched
