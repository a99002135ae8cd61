"""The sources of the package as syntax trees, each parsed once in a process of tests: all take 1.5 s."""

import ast
import functools
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "gpu_profile"


@functools.cache
def parse_source(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
