"""Manifests against the operators' own schemas: a server-side dry run refuses unknown fields."""

from collections.abc import Callable

import pytest

from gpu_profile import process
from gpu_profile.launchers.kube.manifests import DIRECTORY
from tests.live.kubernetes.conftest import kubectl
from tests.unit.test_kube_manifests import CLUSTER, FULL, KINDS, PLAIN, PLAN, cpu_job, job

pytestmark = pytest.mark.kubernetes
_DRY = ("create", "--dry-run=server", "--validate=strict", "--filename=-")


def test_the_files_in_k8s_as_they_stand(launcher: str) -> None:
    text = (DIRECTORY / f"{launcher}.yaml").read_text()
    done = kubectl(*_DRY, stdin=text)
    assert done.returncode == 0, done.stderr
    assert "example created (server dry run)" in done.stdout


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("full", [False, True], ids=["plain", "full"])
def test_renderings(kind: Callable[..., object], full: bool, operators: None) -> None:
    made = kind(cluster=CLUSTER, options=FULL if full else PLAIN)
    (create,) = process.plan(made.submit(job() if full else cpu_job(), PLAN))  # type: ignore[attr-defined]
    done = kubectl(*_DRY, stdin=create.stdin)
    assert done.returncode == 0, done.stderr
