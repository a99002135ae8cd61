"""What `invoke build` says and how it exits when an engine, a base or a step is not as it should
be. The engine is a small script first on PATH that says what a real one says."""

import shutil
from pathlib import Path

import pytest

from gpu_profile.command import Result
from gpu_profile.settings.places import ROOT
from tests.further import keep_first
from tests.invoked import invoke

SETTINGS = ("BASE_IMAGE=example.com/base:1", "NSYS_SOURCE=base", "INSTALL_TORCH=none", "TORCH_URL=")

HEALTHY = """
case "$*" in
    *"Server.Version"*) echo 26.1.5 ;;
    "version "*) echo '{"Client": {"Version": "26.1.5"}, "Server": {"Version": "26.1.5"}}' ;;
    "info "*) echo '{"DockerRootDir": "/"}' ;;
    "buildx version") echo 'github.com/docker/buildx 0.13.1' ;;
    *) @BUILD@ ;;
esac
"""
STOPPED = """echo '{"Client": {"Version": "26.1.5"}, "Server": null}'
echo 'Cannot connect to the Docker daemon at unix:///x. Is it running?' >&2; exit 1"""
OLD = HEALTHY.replace("26.1.5", "20.10.24").replace("@BUILD@", "exit 1")
NO_BUILDX = HEALTHY.replace(
    "\"buildx version\") echo 'github.com/docker/buildx 0.13.1'",
    "buildx*) echo \"docker: 'buildx' is not a docker command.\" >&2; exit 1",
).replace("@BUILD@", "exit 1")


def _failing(*lines: str) -> str:
    said = "".join(f"echo '{line}' >&2; " for line in lines)
    return HEALTHY.replace("@BUILD@", f"{said} exit 1")


def _failing_step(said: str) -> str:
    """With the summary of the failed step that BuildKit ends with."""
    step = " > [nsys 1/1] RUN  --mount=type=tmpfs,target=/tmp [x]:"
    return _failing("------", step, f"1.2 {said}", "------", "ERROR: failed to solve: exit code: 1")


UNREACHABLE = _failing(
    *("------", " > [internal] load metadata for example.com/base:1:", "------"),
    "ERROR: failed to solve: example.com/base:1: failed to resolve source metadata for it",
)
BAD_DIGEST = _failing(
    "ERROR: failed to solve: example.com/base@sha256:00: not found: manifest unknown",
)
CHECKSUM = _failing_step("nsys: checksum mismatch: u has sha256 1")
FULL = _failing_step("write /x: no space left on device")
SCRIPT = _failing_step("nsys: the base image has no nsys")

REFUSALS = {
    "an engine that does not run": (STOPPED, 3, "Cannot connect to the Docker daemon"),
    "an engine too old": (OLD, 3, "docker engine: 20.10.24. Docker Engine 23 or newer is needed"),
    "no buildx": (NO_BUILDX, 3, "docker buildx: not there. `invoke doctor --fix`"),
    "a base out of reach": (UNREACHABLE, 4, "Set BASE_IMAGE to an image that this machine reaches"),
    "a digest that is not there": (BAD_DIGEST, 4, "Set BASE_IMAGE to an image"),
    "a checksum": (CHECKSUM, 4, "in nsys: nsys: checksum mismatch: u has sha256 1"),
    "no space": (FULL, 4, "`docker system prune`"),
    "a script": (
        SCRIPT,
        4,
        "in nsys: nsys: the base image has no nsys. See Container-Root/setup.d",
    ),
}


def _build(tmp_path: Path, engine: str, *options: str) -> Result:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("sh", "bash", "cat", "env", "df", "curl", "grep"):
        (tools / tool).symlink_to(shutil.which(tool) or "/nonexistent")
    if engine:
        (tools / "docker").write_text(f"#!/usr/bin/env bash\n{engine}\n")
        (tools / "docker").chmod(0o755)
    words = [word for setting in (*SETTINGS, *options) for word in ("--set", setting)]
    return invoke("build", "--unlocked", *words, directory=ROOT, PATH=str(tools))


@pytest.mark.parametrize(
    ("engine", "code", "said"), keep_first(2, REFUSALS.values()), ids=REFUSALS.keys()
)
def test_refused_in_one_line(tmp_path: Path, engine: str, code: int, said: str) -> None:
    result = _build(tmp_path, engine)
    last = result.stderr.strip().splitlines()[-1]
    assert said in last
    assert last.startswith("error: ")
    assert result.returncode == code
    assert "Traceback" not in result.stderr


def test_no_docker_at_all(tmp_path: Path) -> None:
    result = _build(tmp_path, "")
    assert result.returncode == 3
    assert "docker client: not there. `invoke doctor --fix`" in result.stderr


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("CA_BUNDLE=/no/such.pem", "CA_BUNDLE is '/no/such.pem', which is not a file"),
        ("INSTALL_EFA=true", "INSTALL_EFA needs INSTALL_MPI"),
    ],
)
def test_settings_are_refused_before_anything_is_built(
    tmp_path: Path, setting: str, said: str
) -> None:
    engine = HEALTHY.replace("@BUILD@", "echo BUILT")
    result = _build(tmp_path, engine, setting, "INSTALL_MPI=false")
    assert result.returncode == 2
    assert said in result.stderr
    assert "BUILT" not in result.stdout + result.stderr
