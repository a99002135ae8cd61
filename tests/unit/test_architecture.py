"""Which folder may import which, who may use which library, and how large things may grow."""

import ast
import functools
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpu_profile.declared.launchers import LAUNCHERS
from tests.unit.sources import PACKAGE, list_nodes

ROOT = PACKAGE.parent
MODULES = sorted(PACKAGE.rglob("*.py"))
CONTAINER_ROOT = ROOT / "Container-Root"
SCRIPTS = sorted(CONTAINER_ROOT.rglob("*.py"))
SOURCES = [*MODULES, ROOT / "tasks.py", *SCRIPTS]
BASH = (b"#!/usr/bin/env bash", b"#!/bin/bash")
MOST_FILES, MOST_LINES, MOST_FUNCTION_LINES, MEDIAN_FUNCTION_LINES = 16, 300, 40, 10

LIBRARY_USERS = {
    "subprocess": {"process.py"},
    "docker": {"engine/api.py"},
    "boto3": {"registry/ecr.py", "s3/bucket.py"},
    "invoke": {"cli/tasks.py"},
}

FLOORS = """
carrier job_status printable signals
analysis/arrays command errors progress redact table
declared files remote_host s3
pins
components
analysis/step_search analysis/store formats kubernetes process schemas
analysis/kineto analysis/tables job program_output
analysis/activity analysis/nsys_tables analysis/multi_report nccl nsys settings
analysis/counters analysis/host analysis/modules launcher
analysis/replay analysis/scrub manifest
launchers/agent
drill analysis/compare analysis/findings analysis/our_tables analysis/timeline engine launchers/kubernetes runs
analysis/page analysis/pull_request doctor image registry
launchers launchers/slurm lock
cli
verbs/assistant verbs/image verbs/machine verbs/reading
api verbs/jobs
verbs/pull_request
__init__ __main__
"""  # noqa: E501 - a floor a line
"""From the ground up: a folder (or a file at the root) imports only from floors below its own."""
FLOOR = {name: floor for floor, line in enumerate(FLOORS.split("\n")) for name in line.split()}
SCRIPT_FLOORS = """
agent/annotate/gpu_profile_marks lib/stage
agent/annotate/gpu_profile_pauses
agent agent/annotate lib/final samples .
"""
SCRIPT_FLOOR = {
    name: floor for floor, line in enumerate(SCRIPT_FLOORS.split("\n")) for name in line.split()
}
"""The folders of Container-Root. A script imports siblings, and packages beside it."""
ANALYSIS_NEEDS = {
    *("analysis", "errors", "files", "formats", "printable", "redact", "s3", "table"),
}


def unit(module: str) -> str:
    """`gpu_profile.analysis.store.sqlite` is of `analysis/store`."""
    names = module.split(".")[1:] or ["__init__"]
    for depth in (3, 2, 1):
        if "/".join(names[:depth]) in FLOOR:
            return "/".join(names[:depth])
    raise AssertionError(f"{module} is on no floor: give its folder a line of FLOORS")


def test_a_floor_is_a_folder_or_a_file_at_the_root() -> None:
    files = {name for name in FLOOR if not (PACKAGE / name).is_dir()}
    assert files == {path.stem for path in PACKAGE.glob("*.py")}


@functools.cache
def _imports(path: Path) -> frozenset[str]:
    """Each imported module or name, dotted: `gpu_profile.errors.GpuProfileError`."""
    names: set[str] = set()
    for node in list_nodes(path):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)


def _our_imports(path: Path) -> set[str]:
    names = {name for name in _imports(path) if name.startswith("gpu_profile.")}
    return names - {"gpu_profile.__version__"}


def _module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _id(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def _imports_up(path: Path) -> set[str]:
    if path.name == "__init__.py" and not _our_imports(path):
        return set()
    folder = unit(_module_of(path))
    return {
        name
        for name in _our_imports(path)
        if unit(name) != folder and FLOOR[unit(name)] >= FLOOR[folder]
    }


def test_imports_point_down() -> None:
    assert {_id(path): names for path in MODULES if (names := _imports_up(path))} == {}


def _import_graph(modules: Mapping[str, Path]) -> dict[str, set[str]]:
    """Return the modules that each one imports, of those given."""
    return {
        module: {
            target
            for name in _imports(path)
            for target in (name, name.rpartition(".")[0])
            if target in modules and target != module
        }
        for module, path in modules.items()
    }


def _remove_leaves(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return what is left of a graph without its leaves, again and again: its circles."""
    while leaves := {name for name, needs in graph.items() if not needs & graph.keys()}:
        graph = {name: needs for name, needs in graph.items() if name not in leaves}
    return dict(graph)


def test_no_modules_import_each_other() -> None:
    assert _remove_leaves(_import_graph({_module_of(path): path for path in MODULES})) == {}


def _script_folder(path: Path) -> str:
    return str(path.parent.relative_to(CONTAINER_ROOT))


def _script_module(path: Path) -> str:
    """A script's folder is on sys.path; gpu_profile_marks is a package in such a folder."""
    is_package = (path.parent / "__init__.py").exists()
    name = f"{path.parent.name}.{path.stem}" if is_package else path.stem
    return name.removesuffix(".__init__")


def test_scripts_import_down_and_not_each_other() -> None:
    modules = {_script_module(path): path for path in SCRIPTS}
    graph = _import_graph(modules)
    floors = {name: SCRIPT_FLOOR[_script_folder(path)] for name, path in modules.items()}
    ups = {
        (name, target)
        for name, targets in graph.items()
        for target in targets
        if _script_folder(modules[target]) != _script_folder(modules[name])
        and floors[target] >= floors[name]
    }
    assert ups == set()
    assert len(modules) == len(SCRIPTS)
    assert _remove_leaves(graph) == {}


def test_scripts_run_where_the_package_is_not() -> None:
    assert {path: imports for path in SCRIPTS if (imports := _our_imports(path))} == {}


def test_analysis_knows_no_launcher() -> None:
    paths = (PACKAGE / "analysis").rglob("*.py")
    units = {_id(path): {name.split(".")[1] for name in _our_imports(path)} for path in paths}
    assert {path: names for path, names in units.items() if names - ANALYSIS_NEEDS} == {}


def test_each_foreign_library_has_one_user() -> None:
    users = {
        (library, _id(path))
        for path in MODULES
        for library in {name.split(".")[0] for name in _imports(path)} & LIBRARY_USERS.keys()
    }
    assert {use for use in users if use[1] not in LIBRARY_USERS[use[0]]} == set()


def _imported_launchers(name: str) -> set[str]:
    (path,) = [
        path
        for path in (PACKAGE / "launchers").rglob("*.py")
        if path.stem == name or (path.stem == "launcher" and path.parent.name == name)
    ]
    launchers = [name for name in _imports(path) if name.startswith("gpu_profile.launchers.")]
    words = {word for imported in launchers for word in imported.split(".")[2:]}
    return words & set(LAUNCHERS) - {name}


def test_no_launcher_imports_another() -> None:
    assert {name: others for name in LAUNCHERS if (others := _imported_launchers(name))} == {}


def test_no_folder_is_crowded() -> None:
    counts = {_id(folder): len(list(folder.glob("*.py"))) for folder in {p.parent for p in MODULES}}
    assert {folder: count for folder, count in counts.items() if count > MOST_FILES} == {}


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in list_nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{path}:{node.lineno} {node.name}", (node.end_lineno or 0) - node.lineno + 1


def test_no_file_grows_too_long() -> None:
    scripts = [
        p for p in (ROOT / "Container-Root").rglob("*.sh") if p.read_bytes().startswith(BASH)
    ]
    lengths = {str(path): path.read_text().count("\n") for path in [*SOURCES, *scripts]}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def test_no_function_grows_too_long() -> None:
    lengths = dict(function for path in SOURCES for function in _functions(path))
    assert {name: lines for name, lines in lengths.items() if lines > MOST_FUNCTION_LINES} == {}
    assert statistics.median(lengths.values()) <= MEDIAN_FUNCTION_LINES
