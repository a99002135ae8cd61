"""Manifests against the operators' own schemas: a server-side dry run refuses unknown fields."""

import dataclasses
from collections.abc import Callable

import pytest

from gpu_profile import process
from gpu_profile.kubernetes.kubectl import KubernetesCluster
from gpu_profile.launchers.kubernetes.job.job import KubernetesJob
from gpu_profile.launchers.kubernetes.manifests import DIRECTORY
from tests.live.kubernetes.conftest import kubectl
from tests.unit.launchers.test_kubernetes_manifests import (
    CLUSTER,
    FULL,
    IMAGE,
    KINDS,
    PLAIN,
    PLAN,
    cpu_job,
    job,
    placed,
)

pytestmark = pytest.mark.kubernetes
_DRY = ("create", "--dry-run=server", "--validate=strict", "--filename=-")


def test_the_files_in_k8s_as_they_stand(launcher: str) -> None:
    text = (DIRECTORY / f"{launcher}.yaml").read_text()
    done = kubectl(*_DRY, stdin=text)
    assert done.returncode == 0, done.stderr
    assert "example created (server dry run)" in done.stdout


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_settings_of_where_pods_go(kind: type[KubernetesJob], namespace: str) -> None:
    launcher = placed(kind)
    here = dataclasses.replace(launcher, cluster=KubernetesCluster(namespace=namespace))
    create, *_ = process.plan(here.submit(cpu_job(image=IMAGE), PLAN))
    done = kubectl(f"--namespace={namespace}", *_DRY, stdin=create.stdin)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("full", [False, True], ids=["plain", "full"])
def test_renderings(kind: Callable[..., object], full: bool, operators: None) -> None:
    made = kind(cluster=CLUSTER, options=FULL if full else PLAIN)
    create, *_ = process.plan(made.submit(job() if full else cpu_job(), PLAN))  # type: ignore[attr-defined]
    done = kubectl(*_DRY, stdin=create.stdin)
    assert done.returncode == 0, done.stderr
