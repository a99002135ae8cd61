"""The versions in the image's manifest, as commands of its components print them."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "Container-Root" / "lib" / "final" / "manifest.py"
SPEC = importlib.util.spec_from_file_location("image_manifest", SCRIPT)
assert SPEC is not None
assert SPEC.loader is not None
MANIFEST = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(MANIFEST)


@pytest.mark.parametrize(
    ("command", "version"),
    [
        (
            "echo NVIDIA Nsight Systems version 2025.3.1.90-253135822126v0",
            "2025.3.1.90-253135822126v0",
        ),
        ("echo 'mpirun (Open MPI 5.0.7)'", "5.0.7"),
        ("echo v2.19.6", "2.19.6"),
        ("echo stand-in", "stand-in"),
        ("echo not installed", ""),
        ("exit 1", ""),
    ],
)
def test_version(command: str, version: str) -> None:
    assert MANIFEST._version(command) == version
