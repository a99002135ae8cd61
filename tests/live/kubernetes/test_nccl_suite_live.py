"""test --suite nccl on nodes with eight GPUs, EFA and hugepages, as far as the scheduler knows.

The nodes are the API server's alone: no kubelet of ours would say that it has hugepages and two
terabytes. What is admitted, scheduled and refused is the cluster's own word.
"""

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_profile import process
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.job import NsysPlan, Resources
from gpu_profile.launchers.kubernetes.mpijob import MpiJobLauncher
from gpu_profile.nccl import suite as nccl_suite
from tests.live.kubernetes.conftest import Cluster, derived, kubectl, must
from tests.unit.settings_for import settings_for

pytestmark = [pytest.mark.kubernetes, pytest.mark.alone]
HERE, DATA = Path(__file__).parent, Path(__file__).parents[2] / "data"
TYPE = "node.kubernetes.io/instance-type"
P5 = {
    "cpu": "192",
    "memory": "2000Gi",
    "pods": "100",
    "nvidia.com/gpu": "8",
    "vpc.amazonaws.com/efa": "32",
    "hugepages-2Mi": "10Gi",
}
COUNT = itertools.count()
SETTINGS = ("KUBE_INSTANCE=p5.48xlarge", f"KUBE_NODE_SELECTOR={TYPE}=p5.48xlarge")


def node(name: str, amounts: dict[str, str]) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    taint = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {TYPE: "p5.48xlarge", "kubernetes.io/hostname": name}},
        "spec": {"taints": [taint]},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


@pytest.fixture
def p5(operators: None, request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Two nodes of p5.48xlarge, or of what the test says is different."""
    # The cluster remembers the health of a node of the same name.
    names = [f"p5-{os.getpid()}-{next(COUNT)}" for _ in range(2)]
    amounts = P5 | getattr(request, "param", {})
    for name in names:
        must(kubectl("create", "--filename=-", stdin=json.dumps(node(name, amounts))))
        status = json.dumps({"status": node(name, amounts)["status"]})
        patch = ("--subresource=status", "--type=merge", f"--patch={status}")
        must(kubectl("patch", "node", name, *patch))
        taints = json.dumps({"spec": {"taints": node(name, amounts)["spec"]["taints"]}})
        must(kubectl("patch", "node", name, "--type=merge", f"--patch={taints}"))
    yield names
    for name in names:
        must(kubectl("delete", "node", name))


@pytest.fixture
def suite(namespace: str, operators: None, tmp_path: Path) -> Cluster:
    """The verbs alone: no image is pulled where nothing runs."""
    (tmp_path / ".env").write_text(f"REPORT_DIR={tmp_path}\n")
    return Cluster(
        namespace=namespace,
        image="registry.example/gpu-profile:1",
        directory=tmp_path,
        answers=tmp_path,
    )


def asked(suite: Cluster, *words: str) -> tuple[str, ...]:
    settings = tuple(f"--set={setting}" for setting in SETTINGS)
    return ("test", "--suite=nccl", "--on=mpijob", f"--image={suite.image}", *settings, *words)


def test_eight_gpus_efa_and_hugepages_find_their_nodes(suite: Cluster, p5: list[str]) -> None:
    launcher = MpiJobLauncher.from_settings(
        settings_for(f"KUBE_NAMESPACE={suite.namespace}", *SETTINGS)
    )
    shape = Resources(nodes=2, gpus_per_node=8, tasks_per_node=8)
    (job,) = nccl_suite.make_jobs(
        nccl_suite.make_suite("all_reduce", min_busbw=400, at="1G", efa=True),
        name="nccl-1",
        image=ImageRef.parse(suite.image),
        resources=shape,
    )
    assert process.drive(launcher.gpus()) == 8
    process.drive(launcher.submit(job, NsysPlan(options=())))
    selector = "--selector=training.kubeflow.org/job-role=worker"
    must(suite.kubectl("wait", "pod", selector, "--for=create", "--timeout=60s"))
    must(suite.kubectl("wait", "pod", selector, "--for=condition=PodScheduled", "--timeout=60s"))
    containers = {pod["spec"]["nodeName"]: pod["spec"]["containers"][0] for pod in suite.pods()}
    assert sorted(containers) == sorted(p5)
    for container in containers.values():
        limits = container["resources"]["limits"]
        assert limits["nvidia.com/gpu"] == "8"
        assert limits["vpc.amazonaws.com/efa"] == "32"
        assert limits["hugepages-2Mi"] == "5Gi"
    must(suite.kubectl("delete", "mpijob", "--all", "--wait=false"))  # no kubelet ends its pods
    must(suite.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false"))


def test_nine_gpus_are_refused_before_anything_is_made(suite: Cluster, p5: list[str]) -> None:
    done = suite.invoke(*asked(suite, "--nodes=2", "--gpus=9"))
    assert done.returncode == 3, done.stderr
    assert done.stderr.strip().endswith("error: 9 GPUs asked for, 8 there. Use --gpus all.")
    assert suite.pods() == []


@pytest.mark.parametrize(
    ("p5", "missing"),
    [
        ({"nvidia.com/gpu": "4"}, "Insufficient nvidia.com/gpu"),
        ({"vpc.amazonaws.com/efa": "16"}, "Insufficient vpc.amazonaws.com/efa"),
        ({"hugepages-2Mi": "0"}, "Insufficient hugepages-2Mi"),
        ({"memory": "64Gi"}, "Insufficient memory"),
    ],
    indirect=["p5"],
    ids=["GPUs", "EFA", "hugepages", "memory"],
)
def test_what_is_missing_is_named_in_a_line(suite: Cluster, p5: list[str], missing: str) -> None:
    words = ("--nodes=2", "--gpus=8", "--set=KUBE_WAIT=5")
    done = suite.invoke(*asked(suite, *words))
    assert done.returncode == 5, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert missing in line
    assert suite.pods() == [] or all(p["metadata"].get("deletionTimestamp") for p in suite.pods())


def test_a_name_that_grows_too_long_is_refused(suite: Cluster) -> None:
    words = ("--nodes=2", "--gpus=8", "--collective=reduce_scatter", "--dry-run")
    done = suite.invoke(*asked(suite, *words, f"--name={'long' * 10}"))
    assert done.returncode == 2, done.stderr
    assert "63 are allowed. Give the run a shorter --name." in done.stderr


@pytest.mark.docker
@pytest.mark.image
@pytest.mark.registry
@pytest.mark.usefixtures("gpus_for_the_scheduler")
@pytest.mark.parametrize(("floor", "code"), [("300", 0), ("400", 8)])
def test_numbers_of_two_nodes_are_judged(
    suite: Cluster, image: str, registry_address: str, floor: str, code: int
) -> None:
    program, recorded = HERE / "all_reduce_perf", DATA / "nccl-tests-all_reduce_perf-h200x4.txt"
    there = derived(image, registry_address, program, "/usr/local/bin/all_reduce_perf", recorded)
    words = ("--nodes=2", "--gpus=2", "--at=512M", f"--min-busbw={floor}")
    done = suite.invoke("test", "--suite=nccl", "--on=mpijob", f"--image={there}", *words)
    assert done.returncode == code, done.stderr
    assert "347.61" in done.stdout + done.stderr
