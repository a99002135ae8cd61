"""The verbs as users type them: `invoke WORDS`, in a directory of a test's own."""

import sys
from pathlib import Path

from gpu_profile.command import Result
from gpu_profile.settings.places import ROOT
from tests.forked import run_python, start_python

_MODULE = ("-m", "invoke", "--search-root", str(ROOT))
INVOKE = (sys.executable, *_MODULE)


def argv(*words: str, directory: Path) -> tuple[str, ...]:
    """The command line; its .env is the directory's."""
    return ("env", f"--chdir={directory}", *INVOKE, *words)


def start_invoke(*words: str, directory: Path, **env: str) -> Result:
    """Run it to its end in a new Python. Settings of `env` win over those of .env."""
    return start_python((*_MODULE, *words), directory, env)


def invoke(*words: str, directory: Path, **env: str) -> Result:
    """Run it to its end in a child of the fork server, with the result of start_invoke."""
    return run_python((*_MODULE, *words), directory, env)


def reporting_here(directory: Path) -> Path:
    """A directory whose .env lets reports lie in it."""
    (directory / ".env").write_text(f"REPORT_DIR={directory}\n")
    return directory
