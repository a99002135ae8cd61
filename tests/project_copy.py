"""A copy of the project in a directory of a test's own, to which a test adds a file."""

import shutil
from pathlib import Path

from gpu_profile.command import Result
from tests.forked import run_python, start_python

ROOT = Path(__file__).resolve().parents[1]
_LEFT_OUT = shutil.ignore_patterns(
    *(".git", ".venv", ".gpu-profile", "__pycache__", ".*_cache", "data", "build", "*.egg-info"),
)


def copy_project(directory: Path) -> Path:
    """Copy the working tree without its recorded reports (15 MB)."""
    copy = directory / "project"
    shutil.copytree(ROOT, copy, ignore=_LEFT_OUT, symlinks=True)
    return copy


def invoke_copy(project: Path, *words: str, **env: str) -> Result:
    """Run a verb of the copy, whose .env and whose modules it reads.

    All files of the copy's modules must be there at the first call.
    """
    return run_python(("-m", "invoke", *words), project, env, project)


def run_tests_of_copy(project: Path, *words: str, **env: str) -> Result:
    """Run pytest in the copy."""
    pytest = ("-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider")
    return start_python((*pytest, *words), project, {"PYTHONPATH": str(project), **env})
