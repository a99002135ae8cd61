"""The full image from a lock to its digest in a registry, with all of its checks on the way."""

from pathlib import Path
from typing import Any

import pytest

from gpu_profile import process
from gpu_profile.command import make_command
from gpu_profile.lock import file, installed
from tests.image.checks import in_container
from tests.live.image.builds import FULL, PLAIN, assert_checked
from tests.live.registry.conftest import Invoke, Registry, stored_digest, tell_ecr

pytestmark = [pytest.mark.registry, pytest.mark.docker]


def test_what_was_locked_is_built_checked_and_pushed_once(
    embedded: None, invoke: Invoke, real_registry: Registry, ecr: Any, tmp_path: Path
) -> None:
    """The full image, from a lock by way of its inputs' hash to its digest in the registry."""
    words = [word for setting in (*PLAIN, *FULL) for word in ("--set", setting)]
    refused = invoke("build", *words, "--set", "NCCL_VERSION=latest", VERSION="auto")
    assert (refused.returncode, "`invoke lock` pins it" in refused.stderr) == (2, True)
    locked = invoke("lock", *words)
    assert locked.returncode == 0, locked.stderr
    built = invoke("build", *words, VERSION="auto")
    assert built.returncode == 0, built.stderr
    name, _, tag = built.stdout.partition(" ")[0].rpartition(":")
    pinned = installed.pinned_by_lock(file.read_lock(tmp_path / "work" / file.NAME))
    assert {"NCCL_VERSION", "NCCL_TESTS_VERSION"} <= set(pinned)
    assert_checked(f"{name}:{tag}", off={"20-torch", "25-samples"})
    mpirun = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", "all_reduce_perf")
    said = in_container(f"{name}:{tag}", *mpirun).stdout
    assert {line[:11] for line in said.splitlines()} == {"rank 0 of 2", "rank 1 of 2"}
    text = in_container(f"{name}:{tag}", "cat", str(installed.PATH)).stdout
    assert installed.list_differences(installed.parse_components(text), pinned) == ()

    assert "is up to date" in invoke("build", *words, VERSION="auto").stdout
    pushed = invoke("push", *words, VERSION="auto")
    assert pushed.returncode == 0, pushed.stderr
    digest = stored_digest(real_registry, "gpu-profile", tag)
    assert pushed.stdout == f"{name}@{digest}\n"
    tell_ecr(ecr, real_registry.ref("gpu-profile", tag), digest)
    anew = invoke("push", *words, VERSION="auto")
    assert (anew.returncode, anew.stdout) == (0, pushed.stdout), anew.stderr
    assert ": pushed" not in anew.stderr
    process.run(make_command("docker", "image", "rm", f"{name}:{tag}"))
