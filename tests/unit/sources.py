"""The nodes of the sources of the package. A process of tests parses each once: all take 2 s."""

import ast
import functools
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "gpu_profile"


@functools.cache
def list_nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
