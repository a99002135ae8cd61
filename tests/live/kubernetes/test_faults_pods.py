"""Pods that go away or never come: the line that says so, and what was recorded is fetched."""

import json
import time
from collections.abc import Iterator

import pytest

from tests.live.kubernetes.conftest import Cluster, must

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry]
_STEADY = ("--", "sh", "-c", "echo started; sleep 30")


def pod_named(cluster: Cluster, part: str) -> dict[str, str]:
    (found,) = [pod for pod in cluster.pods() if part in pod["metadata"]["name"]]
    return {"name": found["metadata"]["name"], "node": found["spec"].get("nodeName", "")}


def evict(cluster: Cluster, pod: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    path = f"/api/v1/namespaces/{cluster.namespace}/pods/{pod}/eviction"
    must(cluster.kubectl("create", "--raw", path, "--filename=-", stdin=json.dumps(body)))


def test_a_worker_deleted_in_the_middle_is_named_and_the_others_report_kept(
    cluster: Cluster,
) -> None:
    handle = cluster.started("mpijob", *_STEADY)
    cluster.wait_for("started", handle)
    must(cluster.kubectl("delete", "pod", pod_named(cluster, "worker-1")["name"], "--now"))
    done = cluster.invoke("fetch", "--job", handle)
    assert done.returncode in (5, 6), done.stderr
    assert "worker-1" in done.stderr
    assert [name for name in cluster.reports() if "worker-0" in name]


def test_an_evicted_launcher_ends_the_job_and_the_workers_reports_are_fetched(
    cluster: Cluster,
) -> None:
    handle = cluster.started("mpijob", *_STEADY)
    cluster.wait_for("started", handle)
    evict(cluster, pod_named(cluster, "launcher")["name"])
    done = cluster.invoke("fetch", "--job", handle)
    assert done.returncode == 5, done.stderr
    assert len(cluster.reports()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("when", ["during the run", "before the fetch"])
def test_a_drained_node(cluster: Cluster, when: str) -> None:
    seconds = 30 if when == "during the run" else 1
    handle = cluster.started("pytorchjob", "--", "sh", "-c", f"echo started; sleep {seconds}")
    cluster.wait_for("started" if seconds > 1 else "ended with 0", handle)
    time.sleep(2)
    worker = pod_named(cluster, "worker-0")
    evict(cluster, worker["name"])
    done = cluster.invoke("fetch", "--job", handle)
    assert done.returncode in (5, 6), done.stderr
    assert worker["name"] in done.stderr
    assert [name for name in cluster.reports() if "master-0" in name]


def test_a_missing_image_is_said_at_once(cluster: Cluster) -> None:
    words = ("--detach", "--on=mpijob", "--nodes=2", "--gpus=0")
    done = cluster.invoke("profile", *words, f"--image={cluster.image.partition('@')[0]}:nope")
    assert done.returncode != 0
    assert "nope" in done.stderr


@pytest.mark.slow
def test_a_quota_is_named(cluster: Cluster) -> None:
    must(cluster.kubectl("create", "quota", "small", "--hard=pods=2"))
    done = cluster.profile("mpijob", "--set", "KUBE_WAIT=15", "--", "true")
    assert done.returncode == 5, done.stderr
    assert "exceeded quota: small" in done.stderr


def test_restricted_podsecurity_refuses_root_and_runs_another_user(cluster: Cluster) -> None:
    level = "pod-security.kubernetes.io/enforce=restricted"
    must(cluster.kubectl("label", "namespace", cluster.namespace, level))
    refused = cluster.profile("mpijob", "--", "true")
    assert refused.returncode != 0
    assert "violates PodSecurity" in refused.stderr
    user = ("--set", "KUBE_RUN_AS_USER=1000")
    done = cluster.profile("mpijob", *user, "--", "sh", "-c", "sleep 1")
    assert done.returncode == 0, done.stderr
    assert len(cluster.reports()) == 2


@pytest.mark.slow
def test_an_sshd_that_does_not_answer_is_given_up_with_its_name(cluster: Cluster) -> None:
    done = cluster.profile("mpijob", "--set", "KUBE_WAIT=40", "--env", "SSH_PORT=2", "--", "true")
    assert done.returncode == 5, done.stderr
    assert "did not answer by ssh in 40 s" in done.stderr
    assert "worker-0" in done.stderr


@pytest.fixture
def gpus_for_the_scheduler(cluster: Cluster) -> Iterator[None]:
    """Eight GPUs and EFA on every node, as far as the scheduler knows."""

    def set_all(gpus: str | None, efa: str | None) -> None:
        amounts = {"nvidia.com/gpu": gpus, "vpc.amazonaws.com/efa": efa}
        body = json.dumps({"status": {"capacity": amounts, "allocatable": amounts}})
        for node in must(cluster.kubectl("get", "nodes", "--output=name")).split():
            words = ("patch", node, "--subresource=status", "--type=merge", f"--patch={body}")
            must(cluster.kubectl(*words))

    set_all("8", "32")
    yield
    set_all(None, None)


@pytest.mark.usefixtures("gpus_for_the_scheduler")
def test_more_gpus_than_a_node_has(cluster: Cluster) -> None:
    where = ("--on=mpijob", f"--image={cluster.image}", "--set", "KUBE_WAIT=10")
    nine = cluster.invoke("profile", *where, "--nodes=2", "--gpus=9", "--", "true")
    assert nine.returncode == 3
    assert "9 GPUs asked for, 8 there" in nine.stderr
    three = cluster.invoke("profile", *where, "--nodes=3", "--gpus=8", "--", "true")
    assert three.returncode == 5, three.stderr
    assert "Insufficient nvidia.com/gpu" in three.stderr


@pytest.mark.slow
def test_a_selector_that_no_node_has_is_named(cluster: Cluster) -> None:
    where = ("--detach", "--on=pytorchjob", "--nodes=2", f"--image={cluster.image}")
    selector = ("--set", "KUBE_NODE_SELECTOR=no/such=node", "--set", "KUBE_WAIT=10")
    done = cluster.invoke("profile", *where, "--gpus=0", *selector, "--", "true")
    assert done.returncode == 5, done.stderr
    assert "didn't match Pod's node affinity/selector" in done.stderr
