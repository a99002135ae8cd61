"""lock --check --image: the versions installed in the image against those of the lock."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.invoked import invoke

SETTINGS = ("NSYS_SOURCE=debian", "INSTALL_TORCH=cpu", "TORCH_URL=", "BASE_IMAGE=embedded")
LOCK = """\
[base]
asked BASE_IMAGE = embedded
pinned BASE_IMAGE = embedded

[carrier]

[mpi]

[nsys]
asked NSYS_SOURCE = debian

[torch]
asked NVTX_VERSION = 0.2.11
pinned NVTX_VERSION = 0.2.11
"""
WORDS = tuple(word for setting in SETTINGS for word in ("--set", setting))


@pytest.mark.parametrize(
    ("installed", "code", "text"),
    [
        ("0.2.11", 0, "gpu-profile.lock is of these settings and of the image\n"),
        ("0.2.13", 8, "NVTX_VERSION is pinned to 0.2.11, installed is 0.2.13"),
    ],
)
def test_the_image_is_compared_with_the_lock(
    tmp_path: Path, fake_tool: Callable[..., object], installed: str, code: int, text: str
) -> None:
    fake_tool("docker", f"echo '{json.dumps({'components': {'nvtx': installed}})}'")
    (tmp_path / "gpu-profile.lock").write_text(LOCK)
    result = invoke("lock", "--check", "--image", *WORDS, directory=tmp_path)
    assert (result.returncode, text in result.stdout + result.stderr) == (code, True), (
        result.last_line
    )


def test_image_without_check_is_refused(tmp_path: Path) -> None:
    result = invoke("lock", "--image", directory=tmp_path)
    assert (result.returncode, result.last_line) == (
        2,
        "error: --image is for --check. Add --check.",
    )
    assert list(tmp_path.iterdir()) == []
