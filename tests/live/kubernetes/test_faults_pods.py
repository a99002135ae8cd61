"""Pods that go away or never come: the line that says so, and what was recorded is fetched."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from tests.live.kubernetes.conftest import Cluster, kubectl, must

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry]
RIGHTS = "test $(id -u) = 0 && grep -q '^CapEff:.*00000400c0$' /proc/self/status"
"""An image of others keeps its user, root here; what sshd starts has its three capabilities."""
_STEADY = ("--", "sh", "-c", f"{RIGHTS} && echo started && sleep 30")


def evict(cluster: Cluster, pod: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    path = f"/api/v1/namespaces/{cluster.namespace}/pods/{pod}/eviction"
    must(cluster.kubectl("create", "--raw", path, "--filename=-", stdin=json.dumps(body)))


def test_a_worker_deleted_in_the_middle_is_named_and_the_others_report_kept(
    cluster: Cluster,
) -> None:
    handle = cluster.started("mpijob", *_STEADY)
    cluster.wait_for("started", handle, ranks=2)
    must(cluster.kubectl("delete", "pod", cluster.pod_named("worker-1")["name"], "--now"))
    done = cluster.invoke("fetch", "--job", handle)
    assert done.returncode in (5, 6), done.stderr
    assert "worker-1" in done.stderr
    assert [name for name in cluster.reports() if "worker-0" in name]


def test_an_evicted_launcher_ends_the_job_and_the_workers_reports_are_fetched(
    cluster: Cluster,
) -> None:
    handle = cluster.started("mpijob", *_STEADY)
    cluster.wait_for("started", handle, ranks=2)
    evict(cluster, cluster.pod_named("launcher")["name"])
    done = cluster.invoke("fetch", "--job", handle)
    assert done.returncode == 5, done.stderr
    assert len(cluster.reports()) == 2


def test_a_deleted_launcher_ends_the_job_and_two_fetches_at_once_bring_it(
    cluster: Cluster,
) -> None:
    handle = cluster.started("mpijob", *_STEADY)
    cluster.wait_for("started", handle, ranks=2)
    must(cluster.kubectl("delete", "pod", cluster.pod_named("launcher")["name"], "--now"))
    words = cluster.argv("fetch", "--job", handle)
    both = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for child in both:
        _, said = child.communicate(timeout=300)
        assert child.returncode == 5, said
        assert "Traceback" not in said
    assert len(cluster.reports()) == 2


@pytest.fixture
def drained(cluster: Cluster) -> Iterator[Callable[[str, str], None]]:
    """`drained(node, job)`: kubectl drain of this job's pods alone; the node is back after."""
    nodes = []

    def drain(node: str, job: str) -> None:
        nodes.append(node)
        selector = f"--pod-selector=training.kubeflow.org/job-name={job}"
        must(kubectl("drain", node, selector, "--force", "--delete-emptydir-data"))

    yield drain
    for node in nodes:
        must(kubectl("uncordon", node))


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("when", ["during the run", "before the fetch"])
@pytest.mark.parametrize("launcher", ["mpijob", "pytorchjob"])
def test_a_drained_node(
    cluster: Cluster, launcher: str, when: str, drained: Callable[[str, str], None]
) -> None:
    seconds = 30 if when == "during the run" else 1
    handle = cluster.started(launcher, "--", "sh", "-c", f"echo started; sleep {seconds}")
    cluster.wait_for("started" if seconds > 1 or launcher == "mpijob" else "ended with 0", handle)
    time.sleep(8 if seconds == 1 else 2)  # nsys writes the short run's reports
    first, second = sorted(
        cluster.pod_named(part)["name"]
        for part in (
            ("master-0", "worker-0") if launcher == "pytorchjob" else ("worker-0", "worker-1")
        )
    )
    # One that is drained before it ran fails the job at once, and the operator deletes the others.
    must(cluster.kubectl("wait", "--for=condition=Ready", f"pod/{second}", "--timeout=60s"))
    drained(cluster.pod_named(second)["node"], handle.rpartition("/")[2])
    done = cluster.invoke("fetch", "--job", handle)
    assert done.returncode in (5, 6), done.stderr
    assert second in done.stderr
    assert [name for name in cluster.reports() if first in name]


def test_a_missing_image_is_said_at_once(cluster: Cluster) -> None:
    words = ("--detach", "--on=mpijob", "--nodes=2", "--gpus=0")
    done = cluster.invoke("profile", *words, f"--image={cluster.image.partition('@')[0]}:nope")
    assert done.returncode != 0
    assert "nope" in done.stderr


def test_a_quota_is_named(cluster: Cluster) -> None:
    must(cluster.kubectl("create", "quota", "small", "--hard=pods=2"))
    done = cluster.profile("mpijob", "--set", "KUBE_WAIT=15", "--", "true")
    assert done.returncode == 5, done.stderr
    assert "exceeded quota: small" in done.stderr


def test_restricted_podsecurity_refuses_root(cluster: Cluster) -> None:
    level = "pod-security.kubernetes.io/enforce=restricted"
    must(cluster.kubectl("label", "namespace", cluster.namespace, level))
    refused = cluster.profile("mpijob", "--", "true")
    assert refused.returncode != 0
    assert "violates PodSecurity" in refused.stderr


@pytest.mark.slow
def test_an_sshd_that_does_not_answer_is_given_up_with_its_name(cluster: Cluster) -> None:
    done = cluster.profile("mpijob", "--set", "KUBE_WAIT=40", "--env", "SSH_PORT=2", "--", "true")
    assert done.returncode == 5, done.stderr
    assert "did not answer by ssh in 40 s" in done.stderr
    assert "worker-0" in done.stderr


@pytest.mark.alone
@pytest.mark.usefixtures("gpus_for_the_scheduler")
def test_more_gpus_than_a_node_has(cluster: Cluster) -> None:
    where = ("--on=mpijob", f"--image={cluster.image}", "--set", "KUBE_WAIT=10")
    nine = cluster.invoke("profile", *where, "--nodes=2", "--gpus=9", "--", "true")
    assert nine.returncode == 3
    assert "9 GPUs asked for, 8 there" in nine.stderr
    three = cluster.invoke("profile", *where, "--nodes=3", "--gpus=8", "--", "true")
    assert three.returncode == 5, three.stderr
    assert "Insufficient nvidia.com/gpu" in three.stderr


@pytest.mark.alone
@pytest.mark.usefixtures("gpus_for_the_scheduler")
def test_a_worker_without_a_node_does_not_keep_the_master_waiting(cluster: Cluster) -> None:
    where = ("--on=pytorchjob", f"--image={cluster.image}", "--set=KUBE_WAIT=20")
    done = cluster.invoke("profile", *where, "--nodes=3", "--gpus=8", "--", "sh", "-c", "sleep 1")
    assert done.returncode == 5, done.stderr
    assert "not running after 20 s" in done.stderr
    assert "Insufficient nvidia.com/gpu" in done.stderr
    assert must(cluster.kubectl("get", "pytorchjobs", "--output=name")) == ""


def test_a_selector_that_no_node_has_is_named(cluster: Cluster) -> None:
    where = ("--detach", "--on=pytorchjob", "--nodes=2", f"--image={cluster.image}")
    selector = ("--set", "KUBE_NODE_SELECTOR=no/such=node", "--set", "KUBE_WAIT=10")
    done = cluster.invoke("profile", *where, "--gpus=0", *selector, "--", "true")
    assert done.returncode == 5, done.stderr
    assert "didn't match Pod's node affinity/selector" in done.stderr
