"""The program of the engine's command line has its name in one place."""

import ast

from gpu_profile.command import ENGINE
from tests.unit.sources import PACKAGE, list_nodes

NAMES = {
    "command.py": "the program",
    "declared/launchers.py": "the launcher's row",
    "launchers/docker/launcher.py": "the launcher's name",
    "settings/settings.py": "the default of LAUNCHER",
    "image/oci_layout.py": "the driver of a buildx builder",
}
"""Each file that has the word once, and what it means there."""


def test_the_engine_program_stands_once() -> None:
    words = [
        str(path.relative_to(PACKAGE))
        for path in sorted(PACKAGE.rglob("*.py"))
        if ENGINE in path.read_text(encoding="utf-8")
        for node in list_nodes(path)
        if isinstance(node, ast.Constant) and node.value == ENGINE
    ]
    assert words == sorted(NAMES)
