"""Open MPI 4 and 5, whose launchers read other variables; an mpirun that drops hosts, or hangs."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import make_command
from tests.live.hosts import await_true
from tests.live.kubernetes.conftest import Cluster, derived, must, pushed

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry]
HERE = Path(__file__).parent
_RANK = ("--", "sh", "-c", "mpirun --version | head -n 1; sleep 1")


@pytest.fixture(scope="session")
def open_mpi_4(registry_address: str, require: Callable[[str, object], None]) -> str:
    """An image with Open MPI 4.1, where the nodes can pull it."""
    require("mpi", not shutil.which("debootstrap") and "debootstrap is not installed")
    name = "gpu-profile-open-mpi-4"
    subprocess.run((HERE / "open-mpi-4", name), check=True)
    where = pushed(name, registry_address)
    must(process.run(make_command("docker", "rmi", name)))
    return where


@pytest.mark.slow
@pytest.mark.parametrize("version", ["5", "4"])
def test_four_ranks_of_two_hosts(
    cluster: Cluster, version: str, request: pytest.FixtureRequest
) -> None:
    image = cluster.image if version == "5" else request.getfixturevalue("open_mpi_4")
    four = ("--on=mpijob", "--nodes=2", "--gpus=0", "--processes=2", "--ranks=0,3")
    done = cluster.invoke("profile", *four, f"--image={image}", *_RANK)
    assert done.returncode == 0, done.stderr
    (output,) = cluster.directory.glob("*/output.log")
    assert output.read_text().count(f"(Open MPI) {version}.") == 4
    hosts = {facts["rank"]: facts["host"][-8:] for facts in cluster.record()["reports"]}
    assert hosts == {0: "worker-0", 3: "worker-1"}


@pytest.fixture(scope="session")
def forgetful(image: str, registry_address: str) -> str:
    """The image under test with an mpirun that drops hosts."""
    return derived(image, registry_address, HERE / "forgetful-mpirun", "/usr/local/bin/mpirun")


def test_ranks_on_one_of_two_hosts_are_no_success(cluster: Cluster, forgetful: str) -> None:
    where = ("--on=mpijob", "--nodes=2", "--gpus=0", f"--image={forgetful}")
    done = cluster.invoke("profile", *where, "--", "sh", "-c", "sleep 1")
    assert done.returncode == 5, done.stderr
    assert "of 2 workers mpirun used" in done.stderr
    assert "worker-0 alone" in done.stderr
    assert [name.split(".")[0] for name in cluster.reports()] == ["rank0", "rank1"]


def test_ranks_that_run_in_the_launcher_fail_at_once(cluster: Cluster, forgetful: str) -> None:
    where = ("--on=mpijob", "--nodes=2", "--gpus=0", f"--image={forgetful}", "--env=FORGET=all")
    done = cluster.invoke("profile", *where, "--", "sh", "-c", "sleep 1")
    assert done.returncode == 5, done.stderr
    (output,) = cluster.directory.glob("*/output.log")
    assert "-launcher is not a worker of this run" in output.read_text()


def launcher_says(cluster: Cluster, *argv: str) -> bool:
    """Whether a program ends with 0 in the launcher, once there is one."""
    names = [pod["metadata"]["name"] for pod in cluster.pods()]
    launchers = [name for name in names if "-launcher-" in name]
    return bool(launchers) and not cluster.kubectl("exec", launchers[0], "--", *argv).returncode


def test_a_worker_that_is_deleted_before_mpirun_reaches_it_is_named(
    cluster: Cluster, image: str, registry_address: str
) -> None:
    patient = derived(image, registry_address, HERE / "patient-mpirun", "/usr/local/bin/mpirun")
    where = ("--detach", "--on=mpijob", "--nodes=2", "--gpus=0", f"--image={patient}")
    handle = must(cluster.invoke("profile", *where, "--", "sh", "-c", "sleep 1")).split()[-1]
    worker = f"{handle.rpartition('/')[2]}-worker-1"
    await_true(lambda: launcher_says(cluster, "test", "-e", "/tmp/waiting"), 240)
    must(cluster.kubectl("delete", "pod", worker, "--now"))
    ready = ("wait", "--for=condition=Ready", f"pod/{worker}", "--timeout=5s")
    await_true(lambda: cluster.kubectl(*ready).returncode == 0, 240)
    assert launcher_says(cluster, "touch", "/tmp/go")
    done = cluster.invoke("fetch", "--job", handle)
    assert done.returncode in (5, 6), done.stderr
    assert worker in done.stderr
    assert "--hostfile" not in done.stderr


def test_an_mpirun_that_never_ends_is_ended(
    cluster: Cluster, image: str, registry_address: str
) -> None:
    hanging = derived(image, registry_address, HERE / "hanging-mpirun", "/usr/local/bin/mpirun")
    where = ("--on=mpijob", "--nodes=2", "--gpus=0", f"--image={hanging}", "--env=LOOK_SECONDS=2")
    done = cluster.invoke("profile", *where, "--", "sh", "-c", "sleep 1")
    assert done.returncode == 5, done.stderr
    assert "mpirun waited on for ranks that had all ended" in done.stderr
    assert [name.split(".")[0] for name in cluster.reports()] == ["rank0", "rank1"]
