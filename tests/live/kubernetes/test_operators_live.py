"""k8s.install-operator on a real cluster: onto nothing, twice, and onto MPIJob v1.

Takes the operators away and brings them back: the other tests must not run meanwhile.
"""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_profile import process
from gpu_profile.command import Command, Result
from tests.live.kubernetes.conftest import Cluster, kubectl, must

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow, pytest.mark.alone]
HERE = Path(__file__).parent
CRD = "mpijobs.kubeflow.org"


@pytest.fixture
def manifest(operators: None, require: object) -> Iterator[str]:
    """The MPI operator's own manifest, from its Go module; the operator is there again after."""
    if "local-k8s" not in os.environ["KUBECONFIG"]:
        pytest.skip("kubernetes: only a cluster made by `up` may lose its operators")
    said = subprocess.run((HERE / "operators", "mpi"), capture_output=True, text=True, check=True)
    path = said.stdout.split()[-1]
    yield path
    if "v1" in stored():
        must(kubectl("delete", "crd", CRD, "--timeout=120s"))
    must(kubectl("apply", "--server-side", "--force-conflicts", f"--filename={path}"))
    established()
    must(kubectl("--namespace=mpi-operator", "rollout", "status", "deployment/mpi-operator"))


def crd_status() -> dict[str, Any]:
    text = kubectl("get", "crd", CRD, "--ignore-not-found", "--output=json").stdout
    status: dict[str, Any] = json.loads(text or "{}").get("status", {})
    return status


def stored() -> list[str]:
    return list(crd_status().get("storedVersions", ()))


def established() -> None:
    """Wait for the CRD; `kubectl wait` fails on one that has no conditions yet."""
    end = time.monotonic() + 60
    while not any(c["type"] == "Established" for c in crd_status().get("conditions") or ()):
        assert time.monotonic() < end
        time.sleep(0.5)


def invoke(tmp_path: Path, *words: str) -> Result:
    (tmp_path / ".env").write_text(f"REPORT_DIR={tmp_path}\n")
    return process.run(Command(argv=Cluster("default", "", tmp_path, tmp_path).argv(*words)))


def install(tmp_path: Path, manifest: str, *words: str) -> Result:
    return invoke(tmp_path, "k8s.install-operator", f"--from={manifest}", *words)


def test_onto_nothing_and_twice(manifest: str, tmp_path: Path) -> None:
    must(kubectl("delete", f"--filename={manifest}", "--timeout=120s"))
    missing = invoke(tmp_path, "doctor", "--on=mpijob", "--format=csv")
    assert "k8s.install-operator --operator mpi" in missing.stdout
    assert "serves mpijobs.kubeflow.org" in must(install(tmp_path, manifest))
    assert "serves mpijobs.kubeflow.org" in must(install(tmp_path, manifest))


@pytest.mark.docker
@pytest.mark.image
@pytest.mark.registry
def test_a_profile_without_the_operator_says_how_to_get_it(cluster: Cluster, manifest: str) -> None:
    must(kubectl("delete", f"--filename={manifest}", "--timeout=120s"))
    done = cluster.profile("mpijob", "--", "true")
    assert done.returncode == 3, done.stderr
    assert "`invoke k8s.install-operator` installs it" in done.stderr


def test_onto_the_training_operators_mpijob_v1(manifest: str, tmp_path: Path) -> None:
    must(kubectl("delete", f"--filename={manifest}", "--timeout=120s"))
    module = "github.com/kubeflow/training-operator@v1.9.0"
    listed = subprocess.run(
        ("go", "mod", "download", "-json", module), capture_output=True, text=True, check=True
    )
    root = next(line.split('"')[3] for line in listed.stdout.splitlines() if '"Dir"' in line)
    crd = f"{root}/manifests/base/crds/kubeflow.org_mpijobs.yaml"
    must(kubectl("create", f"--filename={crd}"))
    established()
    refused = install(tmp_path, manifest)
    assert refused.returncode == 2, refused.stderr
    assert "MPIJob v1" in refused.stderr
    assert "--replace-mpijob-v1" in refused.stderr
    must(install(tmp_path, manifest, "--replace-mpijob-v1"))
    assert stored() == ["v2beta1"]
