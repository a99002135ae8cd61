"""Verbs and flags ask members of Launcher: they know no launcher's name, class or module."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from gpu_profile.declared.launchers import LAUNCHERS, ROWS

PACKAGE = Path(__file__).resolve().parents[3] / "gpu_profile"
MODULES = sorted(path for folder in ("verbs", "cli") for path in (PACKAGE / folder).rglob("*.py"))
CLASSES = {row.path.rpartition(".")[2] for row in ROWS}
COMMON_WORDS = {"docker", "host", "ssh"}
"""Names that are also English words or programs: only `--on host` or a text of its own counts."""
NAMED = re.compile(
    rf"\b({'|'.join(sorted(set(LAUNCHERS) - COMMON_WORDS))})\b|--on[ =]({'|'.join(LAUNCHERS)})\b"
)


def docstrings(tree: ast.Module) -> set[int]:
    """The constants that are documentation: the texts that stand as statements."""
    nodes = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    return {id(node) for node in nodes if isinstance(node, ast.Constant)}


def list_names(source: str) -> Iterator[str]:
    """What a module says of single launchers: names in texts, classes, modules."""
    tree = ast.parse(source)
    prose = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            if node.value in LAUNCHERS or NAMED.search(node.value):
                yield node.value
        elif isinstance(node, ast.Name) and node.id in CLASSES:
            yield node.id
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from (name for name in names if name.startswith("gpu_profile.launchers."))


def test_a_verb_knows_no_launcher() -> None:
    names = {
        str(path.relative_to(PACKAGE)): list(list_names(path.read_text(encoding="utf-8")))
        for path in MODULES
    }
    assert {path: said for path, said in names.items() if said} == {}


NAMES = (
    'if launcher.name == "docker": pass',
    'hint = "Use --on host, or leave it out"',
    'hint = f"Use slurm, {other} or trainjob"',
    "isinstance(launcher, SshLauncher)",
    "from gpu_profile.launchers.ssh import SshLauncher",
    "from gpu_profile.launchers.kubernetes import job",
)
PROSE = (
    '"""Return the settings with SLURM_IMAGE, as slurm reads it."""',
    'print("docker push")',
    "from gpu_profile.declared.launchers import LAUNCHERS",
    'facts["hostname"]',
)


def test_each_kind_of_name_is_seen_and_prose_is_none() -> None:
    assert [source for source in NAMES if not list(list_names(source))] == []
    assert [source for source in PROSE if list(list_names(source))] == []
