"""Who may import whom, and how large things may grow: DESIGN's rules, kept by a program."""

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_profile.spec import LAUNCHER_NAMES

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "gpu_profile"
OURS = sorted(PACKAGE.rglob("*.py"))
SOURCES = [*OURS, ROOT / "tasks.py", *sorted((ROOT / "Container-Root").rglob("*.py"))]
BASH = (b"#!/usr/bin/env bash", b"#!/bin/bash")

ONLY = {
    "subprocess": {"process.py"},
    "docker": {"engine_api.py"},
    "boto3": {"registry.py", "fetched.py"},
    "invoke": set(),
}
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"errors", "credentials", "redact"}),
    frozenset({"command", "spec", "component", "component_rows", "progress"}),
    frozenset({"components", "envfile", "setting_values", "process"}),
    frozenset({"settings"}),
    frozenset(
        {"launchers", "counters", "host_doctor", "kubernetes_doctor", "injector", "operators"}
    ),
    frozenset({"runner"}),
    frozenset({"verbs"}),
)
"""What is not named here stands between settings and launchers."""
MIDDLE = 3.5


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _ours(path: Path) -> set[str]:
    """The first word behind gpu_profile. of each import."""
    return {name.split(".")[1] for name in _imports(path) if name.startswith("gpu_profile.")}


def _layer(module: str) -> float:
    for level, names in enumerate(LAYERS):
        if module in names:
            return level
    return MIDDLE


@pytest.mark.parametrize("path", OURS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if own in {"__init__", "analysis"}:
        return
    up = {module for module in _ours(path) - {own, "__version__"} if _layer(module) > _layer(own)}
    assert not up


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "analysis").rglob("*.py")), ids=lambda path: path.name
)
def test_analysis_knows_only_itself_and_errors(path: Path) -> None:
    assert _ours(path) <= {"analysis", "errors", "credentials"}


@pytest.mark.parametrize("path", OURS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_each_foreign_library_has_one_door(path: Path) -> None:
    used = {name.split(".")[0] for name in _imports(path)}
    assert {
        name for name, doors in ONLY.items() if name in used and path.name not in doors
    } == set()


@pytest.mark.parametrize("name", LAUNCHER_NAMES)
def test_no_launcher_imports_another(name: str) -> None:
    found = _imports(PACKAGE / "launchers" / f"{name}.py")
    used = {word.split(".")[2] for word in found if word.startswith("gpu_profile.launchers.")}
    assert not used & set(LAUNCHER_NAMES) - {name}


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{path}:{node.lineno} {node.name}", (node.end_lineno or 0) - node.lineno + 1


def test_no_file_and_no_function_grows_too_long() -> None:
    scripts = [
        p for p in (ROOT / "Container-Root").rglob("*.sh") if p.read_bytes().startswith(BASH)
    ]
    long_files = {str(p): n for p in [*SOURCES, *scripts] if (n := p.read_text().count("\n")) > 250}
    lengths = dict(f for path in SOURCES for f in _functions(path))
    assert long_files == {}
    assert {name: n for name, n in lengths.items() if n > 40} == {}
    assert statistics.median(lengths.values()) <= 10
