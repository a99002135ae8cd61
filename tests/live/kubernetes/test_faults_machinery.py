"""Parts of the cluster that stop: a kubelet, DNS, an operator. Only on one made by `up`."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.live.kubernetes.conftest import Cluster, kubectl, must

pytestmark = [
    *(pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry),
    pytest.mark.alone,
]
HERE = Path(__file__).parent


@pytest.fixture
def stopped(kubernetes: None) -> Iterator[Callable[[str], None]]:
    """`stopped("kubelet-2")`: end one of the cluster's programs; calling it again, or the test's
    end, starts all again."""
    state = Path(os.environ["KUBECONFIG"]).parent
    if not (state / "pid").is_dir():
        pytest.skip("kubernetes: only a cluster made by `up` may lose its parts")

    def stop(name: str = "") -> None:
        if name:
            os.kill(int((state / "pid" / name).read_text()), signal.SIGTERM)
            time.sleep(1)
        else:
            subprocess.run((HERE / "up", state), check=True, capture_output=True)

    yield stop
    stop()


def test_reports_of_a_kubelet_that_stopped_wait_for_it(
    cluster: Cluster, stopped: Callable[..., None]
) -> None:
    handle = cluster.started("mpijob", "--", "sh", "-c", "sleep 1")
    succeeded = "--for=condition=Succeeded"
    must(cluster.kubectl("wait", "mpijob", "--all", succeeded, "--timeout=120s"))
    lost = next(pod for pod in cluster.pods() if pod["spec"]["nodeName"] == "node-2"
                and "launcher" not in pod["metadata"]["name"])  # fmt: skip
    stopped("kubelet-2")
    done = cluster.invoke("fetch", "--job", handle)
    assert done.returncode == 6, done.stderr
    assert f"{lost['metadata']['name']} cannot be read" in done.stderr
    assert "10250: connect: connection refused" in done.stderr
    assert "exec/" not in done.stderr
    assert len(cluster.reports()) == 1
    stopped()
    done = cluster.invoke("fetch", "--job", handle)
    assert done.returncode == 0, done.stderr
    assert len(cluster.reports()) == 2


@pytest.mark.slow
def test_a_pod_that_a_silent_node_never_gives_back_ends_the_wait(
    cluster: Cluster, stopped: Callable[..., None]
) -> None:
    handle = cluster.started("pytorchjob", "--", "sh", "-c", "echo started; sleep 1")
    for name in ("master-0", "worker-0"):
        cluster.wait_for(f"{name} ended with 0", handle)
    (lost,) = [pod for pod in cluster.pods() if pod["spec"]["nodeName"] == "node-2"]
    name = lost["metadata"]["name"]
    stopped("kubelet-2")
    must(cluster.kubectl("delete", "pod", name, "--grace-period=1", "--wait=false"))
    done = cluster.invoke("fetch", "--job", handle)
    assert done.returncode == 5, done.stderr
    assert name in done.stderr  # "was deleted, and node-2 does not answer", or the operator's word
    assert "deleted" in done.stderr
    assert len(cluster.reports()) == 1


@pytest.mark.slow
def test_names_that_come_late_are_waited_for(
    cluster: Cluster, launcher: str, stopped: Callable[..., None]
) -> None:
    stopped("coredns")
    handle = cluster.started(launcher, "--", "sh", "-c", "sleep 1")
    time.sleep(20)
    stopped()
    done = cluster.invoke("fetch", "--job", handle)
    assert done.returncode == 0, done.stderr
    assert len(cluster.reports()) == 2


@pytest.mark.slow
def test_names_that_never_come_are_given_up_with_the_host(
    cluster: Cluster, stopped: Callable[..., None]
) -> None:
    stopped("coredns")
    done = cluster.profile("mpijob", "--set=KUBE_WAIT=25", "--", "true")
    assert done.returncode == 5, done.stderr
    assert "did not answer by ssh in 25 s" in done.stderr
    assert "Could not resolve hostname" in done.stderr


@pytest.mark.parametrize(
    ("launcher", "deployment", "code", "line"),
    [
        ("mpijob", "mpi-operator/mpi-operator", 5, "not running after 5 s: no operator has made"),
        ("pytorchjob", "kubeflow/training-operator", 3, "Its operator does not run"),
    ],
    ids=["mpijob", "pytorchjob"],
)
def test_an_operator_that_does_not_run(
    cluster: Cluster, launcher: str, deployment: str, code: int, line: str
) -> None:
    namespace, _, name = deployment.partition("/")
    scale = (f"--namespace={namespace}", "scale", f"deployment/{name}")
    must(kubectl(*scale, "--replicas=0"))
    try:
        doctor = cluster.invoke("doctor", f"--on={launcher}", "--format=csv")
        done = cluster.profile(launcher, "--set=KUBE_WAIT=5", "--", "true")
    finally:
        must(kubectl(*scale, "--replicas=1"))
        must(kubectl(f"--namespace={namespace}", "rollout", "status", f"deployment/{name}"))
    assert "(not running)" in doctor.stdout
    assert done.returncode == code, done.stderr
    assert line in done.stderr
    assert must(cluster.kubectl("get", launcher, "--output=name")) == ""
