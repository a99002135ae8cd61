"""A copy of the project in a directory of a test's own, to which a test adds a file."""

import shutil
from pathlib import Path

from gpu_profile.command import Result
from tests.forked import run_python, start_python

ROOT = Path(__file__).resolve().parents[1]
_LEFT_OUT = shutil.ignore_patterns(
    *(".git", ".venv", ".gpu-profile", ".*_cache", "data", "build", "*.egg-info"),
)
_TOYS = ROOT / "tests/toys"
_PLACES = {
    "component.py": "gpu_profile/components/toy.py",
    "setup": "Container-Root/setup.d/65-toy.sh",
    "table.py": "gpu_profile/analysis/our_tables/toy_sum.py",
    "finding.py": "gpu_profile/analysis/findings/rules/host/toy.py",
    "launcher.py": "gpu_profile/launchers/toy.py",
}
_ROW_END = ")\n\nOBJECT_ROW = "


def copy_project(directory: Path) -> Path:
    """Copy the working tree without its recorded reports (15 MB).

    Bytecode comes along, and holds: it names its source's time. To compile a copy takes 1 s of CPU.
    """
    copy = directory / "project"
    shutil.copytree(ROOT, copy, ignore=_LEFT_OUT, symlinks=True)
    return copy


def copy_with_toys(directory: Path) -> Path:
    """Copy the working tree, and add the toys: a component, a table, a finding and a launcher."""
    copy = copy_project(directory)
    for toy, place in _PLACES.items():
        shutil.copy(_TOYS / toy, copy / place)
    table = copy / "gpu_profile/declared/launchers.py"
    text = table.read_text()
    assert text.count(_ROW_END) == 1
    table.write_text(text.replace(_ROW_END, (_TOYS / "launcher_row").read_text() + _ROW_END))
    return copy


def invoke_copy(project: Path, *words: str, **env: str) -> Result:
    """Run a verb of the copy, whose .env and whose modules it reads.

    All files of the copy's modules must be there at the first call.
    """
    return run_python(("-m", "invoke", *words), project, env, project)


def run_tests_of_copy(project: Path, *words: str, **env: str) -> Result:
    """Run pytest in the copy."""
    # -n0: the outer pytest has a process for each CPU already.
    pytest = ("-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider")
    return start_python((*pytest, *words), project, {"PYTHONPATH": str(project), **env})
