"""A cluster that KUBECONFIG names, its operators, the image where its nodes can pull it.

`up` and `operators` beside this file make such a cluster on one machine.
"""

import contextlib
import json
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpu_profile import process
from gpu_profile.command import Result, make_command
from tests.invoked import INVOKE, invoke
from tests.live.conftest import CLUSTER_STARTS
from tests.live.side_by_side import get_common_directory, hold, share_server

CRDS = {
    "mpijob": "mpijobs.kubeflow.org",
    "pytorchjob": "pytorchjobs.kubeflow.org",
    "trainjob": "trainjobs.trainer.kubeflow.org",
}
REGISTRY = Path.home() / ".cache" / "gpu-profile" / "registry"
_REGISTRY_LIMIT = 8 * 2**30
"""Bytes of layers with which the registry begins anew: our image has 0.55 GB of them."""


def kubectl(*words: str, stdin: str = "") -> Result:
    return process.run(make_command("kubectl", "--request-timeout=60s", *words, stdin=stdin))


def must(result: Result) -> str:
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="session")
def kubernetes(require: Callable[[str, object], None]) -> None:
    """A cluster of two or more nodes that answers."""
    starts = os.environ.get(CLUSTER_STARTS)
    while starts and not Path(starts).exists():
        time.sleep(0.5)
    require("kubernetes", not shutil.which("kubectl") and "kubectl is not installed")
    require("kubernetes", "KUBECONFIG" not in os.environ and "KUBECONFIG is not set")
    nodes = kubectl("get", "nodes", "--output=name")
    require("kubernetes", nodes.returncode and nodes.last_line)
    require("kubernetes", len(nodes.stdout.split()) < 2 and "two nodes are needed")


@pytest.fixture(scope="session")
def operators(kubernetes: None, require: Callable[[str, object], None]) -> None:
    for crd in CRDS.values():
        answer = kubectl("get", "crd", crd)
        require("kubernetes", answer.returncode and f"{crd} is not installed")


@pytest.fixture(params=sorted(CRDS))
def launcher(request: pytest.FixtureRequest, operators: None) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def registry_address(docker: None, require: Callable[[str, object], None]) -> Iterator[str]:
    """An open registry on loopback, which the nodes of a cluster on this machine reach too; or the
    one that GPU_PROFILE_TEST_REGISTRY names, for a cluster elsewhere.

    Its layers and its port are kept for the next run, which then pushes what is new alone: the
    engine took 73 s of CPU to compress all layers of our image.
    """
    given = os.environ.get("GPU_PROFILE_TEST_REGISTRY", "")
    if given:
        yield given
        return
    require("registry", not shutil.which("docker-registry") and "docker-registry is not installed")
    blobs, serving = REGISTRY / "blobs", REGISTRY / "serving"

    def prepare() -> tuple[str, ...]:
        if measure_size(blobs) > _REGISTRY_LIMIT:
            shutil.rmtree(blobs)
        address = f"127.0.0.1:{find_port(REGISTRY / 'port')}"
        (serving / "address").write_text(address)
        (serving / "registry.yml").write_text(
            f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {blobs}}}}}\n"
            f"http: {{addr: '{address}'}}\n"
        )
        return ("docker-registry", "serve", str(serving / "registry.yml"))

    serving.mkdir(parents=True, exist_ok=True)
    with share_server(serving, prepare, "listening on"):
        yield (serving / "address").read_text()


def measure_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("data"))


def find_port(kept: Path) -> int:
    """The port of the last run if it is free, else another: the engine knows by the address which
    layers a registry has."""
    wanted = (int(kept.read_text()), 0) if kept.exists() else (0,)
    for port in wanted:
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            kept.write_text(str(probe.getsockname()[1]))
            break
    return int(kept.read_text())


def pushed(image: str, address: str) -> str:
    """A local image by the digest that it has in the registry at `address`."""
    name, _, tag = image.partition(":")
    there = f"{address}/{name}:{tag or 'latest'}-{os.getpid()}"
    must(process.run(make_command("docker", "tag", image, there)))
    # One push at a time: the registry answers 500, "invalid checksum digest format", where it is
    # asked for a layer whose link another push has made and not yet written.
    REGISTRY.mkdir(parents=True, exist_ok=True)
    with hold(REGISTRY / "push"):
        must(process.run(make_command("docker", "push", "--quiet", there)))
    words = ("docker", "image", "inspect", "--format={{json .RepoDigests}}", there)
    digests = json.loads(must(process.run(make_command(*words))))
    must(process.run(make_command("docker", "rmi", there)))
    return str(next(digest for digest in digests if digest.startswith(address)))


def derived(image: str, address: str, program: Path, path: str, more: Path | None = None) -> str:
    """The image with a program of a test's own at `path`, by its digest in the registry."""
    name = f"gpu-profile-with-{program.name}-{os.getpid()}"
    with tempfile.TemporaryDirectory() as context:
        lines, added = [f"FROM {image}"], [(program, path)]
        if more:
            added.append((more, f"/{more.name}"))
        for file, target in added:
            shutil.copy(file, context)
            lines.append(f"COPY {file.name} {target}")
        (Path(context) / "Dockerfile").write_text("\n".join(lines))
        must(process.run(make_command("docker", "build", "--quiet", f"--tag={name}", context)))
    where = pushed(name, address)
    must(process.run(make_command("docker", "rmi", name)))
    return where


@pytest.fixture(scope="session")
def cluster_image(kubernetes: None, request: pytest.FixtureRequest) -> str:
    """The image under test by digest. One of a registry (--image) is what the nodes pull;
    a local one is pushed to a registry on loopback first."""
    given = str(request.config.getoption("--image"))
    if "/" in given:
        return given
    image: str = request.getfixturevalue("image")
    return pushed(image, request.getfixturevalue("registry_address"))


@pytest.fixture
def namespace(kubernetes: None, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own, left to be deleted behind its back."""
    name = f"gp-{os.getpid()}-{abs(hash(request.node.nodeid)) % 10**8}"
    must(kubectl("create", "namespace", name))
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@dataclass(frozen=True)
class Cluster:
    """The verbs, in a namespace and a report directory of the test's own."""

    namespace: str
    image: str
    directory: Path
    answers: Path
    """A folder of all tests: what nsys answered in a pod of theirs."""

    def argv(self, *words: str) -> tuple[str, ...]:
        """A call of a verb; words after `--` are the job's."""
        here = ("env", f"--chdir={self.directory}", f"KUBE_NAMESPACE={self.namespace}")
        return (*here, *INVOKE, *words)

    def invoke(self, *words: str) -> Result:
        return invoke(*words, directory=self.directory, KUBE_NAMESPACE=self.namespace)

    def profile(self, launcher: str, *words: str) -> Result:
        """`profile` on two nodes, a process each. It asks no pod that a test before it asked."""
        where = (f"--on={launcher}", "--nodes=2", "--gpus=0", f"--image={self.image}")
        cache = self.directory / ".gpu-profile"
        copy_answers(self.answers, cache)
        done = self.invoke("profile", *where, *words)
        copy_answers(cache, self.answers)
        return done

    def started(self, launcher: str, *words: str) -> str:
        """The handle of a detached run."""
        done = self.profile(launcher, "--detach", *words)
        return must(done).strip().splitlines()[-1]

    def kubectl(self, *words: str, stdin: str = "") -> Result:
        return kubectl(f"--namespace={self.namespace}", *words, stdin=stdin)

    def pods(self) -> list[dict[str, Any]]:
        pods: list[dict[str, Any]] = json.loads(must(self.kubectl("get", "pods", "-ojson")))[
            "items"
        ]
        return pods

    def pod_named(self, part: str) -> dict[str, str]:
        (pod,) = [pod for pod in self.pods() if part in pod["metadata"]["name"]]
        return {"name": pod["metadata"]["name"], "node": pod["spec"].get("nodeName", "")}

    def reports(self) -> list[str]:
        return sorted(path.name for path in self.directory.glob("*/*.nsys-rep"))

    def record(self) -> dict[str, Any]:
        (path,) = self.directory.glob("*/run.json")
        record: dict[str, Any] = json.loads(path.read_text())
        return record

    def wait_for(self, text: str, handle: str, seconds: float = 120, ranks: int = 1) -> None:
        """Until the job's output has `text`, of each rank one."""
        end = time.monotonic() + seconds
        while (said := self.invoke("logs", "--job", handle).stdout).count(text) < ranks:
            assert time.monotonic() < end, said
            time.sleep(2)  # `logs` takes three calls of kubectl


def copy_answers(source: Path, target: Path) -> None:
    """Copy what pods answered, each file at once: other processes of tests copy beside us."""
    target.mkdir(exist_ok=True)
    for answer in source.glob("nsys-pod-*.txt"):
        copy = shutil.copy(answer, target / f"new-{os.getpid()}")
        Path(copy).replace(target / answer.name)


@pytest.fixture
def cluster(
    namespace: str,
    operators: None,
    cluster_image: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Cluster:
    (tmp_path / ".env").write_text(f"REPORT_DIR={tmp_path}\n")
    answers = get_common_directory(tmp_path_factory) / "answers"
    return Cluster(namespace=namespace, image=cluster_image, directory=tmp_path, answers=answers)


@pytest.fixture
def gpus_for_the_scheduler(kubernetes: None) -> Iterator[None]:
    """Eight GPUs and EFA on every node, as far as the scheduler knows."""

    def set_all(gpus: str | None, efa: str | None) -> None:
        amounts = {"nvidia.com/gpu": gpus, "vpc.amazonaws.com/efa": efa}
        body = json.dumps({"status": {"capacity": amounts, "allocatable": amounts}})
        for node in must(kubectl("get", "nodes", "--output=name")).split():
            words = ("patch", node, "--subresource=status", "--type=merge", f"--patch={body}")
            must(kubectl(*words))

    set_all("8", "32")
    yield
    set_all(None, None)
