"""Python packages by version and hash, for the image's Python and not for this machine's."""

import dataclasses
import re

import pytest

from gpu_profile.command import Command, Result
from gpu_profile.declared.kinds import fault
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.image.dockerfile import render_dockerfile
from gpu_profile.image.downloads import Downloads
from gpu_profile.lock import file
from gpu_profile.lock.python_index import find_target, make_index_environment
from gpu_profile.pins import python_packages
from gpu_profile.pins.python_packages import Target
from tests.unit.launchers.kubernetes_objects import driven
from tests.unit.lock.lock_web import load, resolve, wheel_hash

TARGET = Target(python="3.13", glibc=40)
CPU = {"INSTALL_TORCH": "cpu", "TORCH_URL": "https://wheels.test/cpu"}


def names_of(packages: str) -> dict[str, str]:
    """The hash of each package of a setting's text."""
    lines = python_packages.split_packages(packages)
    assert all(re.fullmatch(r"\S+==\S+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)
    return {line.partition("==")[0]: line[-64:] for line in lines}


def test_what_torch_needs_is_locked_by_hash() -> None:
    pinned = resolve(load())["torch"].pinned
    assert set(names_of(pinned["TORCH_PACKAGES"])) == {"torch", "numpy", "sympy"}
    assert names_of(pinned["TORCH_PACKAGES"])["sympy"] == wheel_hash("sympy", "1.14.0")
    assert set(names_of(pinned["NVTX_PACKAGES"])) == {"nvtx"}
    assert fault("packages", pinned["TORCH_PACKAGES"]) == ""


@pytest.mark.parametrize("source", ["pypi", "source"])
def test_nvidias_wheels_are_locked_by_hash(source: str) -> None:
    urls = {"NCCL_URL": "https://git.test/nccl", "NCCL_TESTS_URL": "https://git.test/tests.tar.gz"}
    lock = resolve(load(INSTALL_TESTS="true", NCCL_SOURCE=source, **urls))
    nccl = set(names_of(lock["nccl"].pinned["NCCL_PACKAGES"]))
    assert "nvidia-cuda-runtime" in nccl
    assert ("nvidia-nccl-cu13" if source == "pypi" else "nvidia-cuda-nvcc") in nccl
    assert "nvidia-cuda-nvcc" in names_of(lock["nccl-tests"].pinned["NCCL_TESTS_PACKAGES"])


@pytest.mark.parametrize("key", ["TORCH_PACKAGES", "NVTX_PACKAGES"])
def test_a_build_without_hashes_is_refused(key: str) -> None:
    """As with a lock that an older gpu-profile wrote."""
    settings = load(NVTX_VERSION="0.2.10")
    applied = file.apply_lock(settings, resolve(settings))
    file.refuse_unlocked(applied)
    older = dataclasses.replace(applied, component={**applied.component, key: ""})
    with pytest.raises(SettingsError, match=f"torch is not locked: {key} not exact"):
        file.refuse_unlocked(older)


def test_nvtx_of_the_default_version_is_known_by_hash() -> None:
    plain = load(NSYS_SOURCE="debian", INSTALL_TORCH="base", NCCL_SOURCE="base")
    file.refuse_unlocked(plain)
    assert 'ARG NVTX_PACKAGES="nvtx==0.2.11 --hash=sha256:' in render_dockerfile(plain)
    component = {**plain.component, "NVTX_VERSION": "0.2.10"}
    other = dataclasses.replace(plain, component=component)
    assert 'ARG NVTX_PACKAGES=""' in render_dockerfile(other)


def test_a_lock_has_a_line_for_each_package() -> None:
    text = file.render_lock(resolve(load()))
    line = f"    sympy==1.14.0 --hash=sha256:{wheel_hash('sympy', '1.14.0')}\n"
    assert "pinned TORCH_PACKAGES =\n    numpy==2.5.5 --hash=" in text
    assert line in text


def test_the_index_of_the_cpu_builds_is_for_those_alone() -> None:
    commands: list[Command] = []

    def record(command: Command) -> Result:
        commands.append(command)
        raise ToolError("enough")

    for values in (CPU, {"INSTALL_TORCH": "cuda", "TORCH_URL": "https://wheels.test/cpu"}):
        with pytest.raises(ToolError, match="enough"):
            resolve(load(**values), run=record)
    assert [command.env.get("UV_DEFAULT_INDEX") for command in commands] == [CPU["TORCH_URL"], None]


def test_the_command_is_for_the_images_python_and_hides_the_index() -> None:
    downloads = Downloads(pip_conf="[global]\nindex-url = https://me:hunter2@index.test/simple\n")
    environment = make_index_environment(downloads, ca_bundle="/ca.pem")
    command = python_packages.make_resolve_command(("torch",), TARGET, environment)
    assert "--python-version=3.13" in command.argv
    assert "--python-platform=x86_64-manylinux_2_40" in command.argv
    assert command.env["UV_DEFAULT_INDEX"] == "https://me:hunter2@index.test/simple"
    assert command.env["SSL_CERT_FILE"] == "/ca.pem"
    assert "hunter2" not in str(command)


def test_an_index_without_hashes_is_refused() -> None:
    listed = '[[packages]]\nname = "nvtx"\nversion = "1"\nwheels = [{ hashes = {} }]\n'
    with pytest.raises(ToolError, match="the index gives no sha256 for nvtx"):
        python_packages.parse_packages(Result(returncode=0, stdout=listed), ("nvtx",))
    failed = Result(returncode=1, stderr="error: No solution\n  cause: nothing")
    with pytest.raises(ToolError, match="no wheels of nvtx==9 for this image: No solution cause"):
        python_packages.parse_packages(failed, ("nvtx==9",))


@pytest.mark.parametrize(
    ("base", "answer", "target"),
    [
        ("debian:13", Result(returncode=125), Target(python="3.13", glibc=40)),
        ("team/training:1", Result(returncode=125), None),
        (
            "team/training:1",
            Result(returncode=0, stdout="ubuntu24.04\nPython 3.11.9\n"),
            Target(python="3.11", glibc=39),
        ),
        (
            "gpu-profile-base:0123456789ab",
            Result(returncode=0, stdout="ubuntu22.04\n"),
            Target(python="3.10", glibc=35),
        ),
        (
            "team/rocky:9",
            Result(returncode=0, stdout="rocky9.4\nPython 3.9.18\n"),
            Target(python="3.9", glibc=28),
        ),
    ],
)
def test_the_images_python(base: str, answer: Result, target: Target | None) -> None:
    python, (command,) = driven(find_target(base, "amd64"), answer)
    assert python == target
    assert "--pull=never" in command.argv


def test_an_unknown_python_is_said() -> None:
    with pytest.raises(ToolError, match="The Python of BASE_IMAGE is not known"):
        resolve(load(), target=None)


@pytest.mark.parametrize(
    "text", ["torch", "torch==2 --hash=md5:0", "torch==2 --index-url=http://evil", "-r /etc/passwd"]
)
def test_what_is_no_list_of_hashed_packages_is_refused(text: str) -> None:
    assert "--hash=sha256:" in fault("packages", text)
