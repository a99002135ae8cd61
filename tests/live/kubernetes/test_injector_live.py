"""k8s.injector against a stand-in for NVIDIA's chart, which is not to be had here.

The chart beside this file does to a labelled pod what NVIDIA documents; helm, the admission
webhook, the labels and the pods are real.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.live.kubernetes.conftest import Cluster, must

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry]
CHART = Path(__file__).parent / "injector-stand-in"
PROGRAM = ("python3", "-m", "timeit", "--number=1", "--repeat=1", "sum(range(9))")
"""No training: ranks need not meet, and torch takes 5 s of CPU under nsys."""


@pytest.fixture
def injector(
    cluster: Cluster, require: Callable[[str, object], None]
) -> Iterator[Callable[..., str]]:
    """`injector("install", …)`: the verb, with the stand-in's release in the test's namespace."""
    require("kubernetes", not shutil.which("helm") and "helm is not installed")

    def call(action: str, *words: str) -> str:
        where = f"--release-namespace={cluster.namespace}"
        return must(cluster.invoke("k8s.injector", action, where, *words))

    yield call
    call("uninstall")


def install(injector: Callable[..., str], image: str, *words: str) -> None:
    options = "--trace=nvtx,osrt --sample=none --cpuctxsw=none"
    injector(
        "install",
        *(f"--chart={CHART}", f"--image={image}", f"--nsys-args={options}", *words),
        *("--", *PROGRAM),
    )


def checks(injector: Callable[..., str]) -> dict[str, str]:
    (rows,) = json.loads(injector("status", "--format=json")).values()
    return {row["What"]: row["Found"] for row in rows}


@pytest.mark.parametrize("launcher", ["pytorchjob", "trainjob"])
def test_a_jobs_own_label_has_its_ranks_profiled(
    cluster: Cluster, injector: Callable[..., str], launcher: str
) -> None:
    name = "rank%q{RANK}.{PROCESS_NAME}_%{POD_FULLNAME}_{TIMESTAMP}_{UID}"
    install(injector, cluster.image, f"--set=KUBE_INJECTOR_NAME={name}")
    done = cluster.profile(launcher, "--ddp", "--set", "KUBE_INJECTOR=devtools", "--", *PROGRAM)
    assert done.returncode == 0, done.stderr
    names = [
        re.fullmatch(r"(rank\d)\.python3_[\w-]+_\d+_\d+\.nsys-rep", n) for n in cluster.reports()
    ]
    assert [match and match[1] for match in names] == ["rank0", "rank1"]


def test_install_status_on_off_uninstall(cluster: Cluster, injector: Callable[..., str]) -> None:
    install(injector, cluster.image)
    install(injector, cluster.image)
    release = "devtools-sidecar-injector"
    results = checks(injector)
    assert results[release] == "deployed"
    assert release in results["webhook"]
    assert cluster.namespace not in results["namespaces"]
    injector("on", f"--namespace={cluster.namespace}")
    assert cluster.namespace in checks(injector)["namespaces"]
    assert "nvidia-devtools-binaries" in init_containers(cluster, "labelled")
    injector("off", f"--namespace={cluster.namespace}")
    assert init_containers(cluster, "unlabelled") == []
    injector("uninstall")
    assert checks(injector)[release] == ""


def init_containers(cluster: Cluster, name: str) -> list[str]:
    words = ("run", name, f"--image={cluster.image}", "--dry-run=server", "--output=json", "true")
    spec = json.loads(must(cluster.kubectl(*words)))["spec"]
    return [container["name"] for container in spec.get("initContainers", ())]
