"""A copy of the project in a directory of a test's own, to which a test adds a file."""

import shutil
import sys
from pathlib import Path

from gpu_profile import process
from gpu_profile.command import Command, Result

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
    """Run a verb of the copy, whose .env and whose modules it reads."""
    return _run(project, "invoke", *words, **env)


def run_tests_of_copy(project: Path, *words: str, **env: str) -> Result:
    """Run pytest in the copy."""
    return _run(project, "pytest", "-q", "-n0", "-p", "no:cacheprovider", *words, **env)


def _run(project: Path, module: str, *words: str, **env: str) -> Result:
    argv = ("env", f"--chdir={project}", sys.executable, "-m", module, *words)
    return process.run(Command(argv=argv, env={"PYTHONPATH": str(project), **env}))
