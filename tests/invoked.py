"""The verbs as users type them: `invoke WORDS`, in a directory of a test's own."""

import sys
from pathlib import Path

from gpu_profile import process
from gpu_profile.command import Command, Result
from gpu_profile.settings.places import ROOT

INVOKE = (sys.executable, "-m", "invoke", "--search-root", str(ROOT))


def argv(*words: str, directory: Path) -> tuple[str, ...]:
    """The command line; its .env is the directory's."""
    return ("env", f"--chdir={directory}", *INVOKE, *words)


def invoke(*words: str, directory: Path, **env: str) -> Result:
    """Run it to its end. Settings of `env` win over those of .env."""
    return process.run(Command(argv=argv(*words, directory=directory), env=env))


def reporting_here(directory: Path) -> Path:
    """A directory whose .env lets reports lie in it."""
    (directory / ".env").write_text(f"REPORT_DIR={directory}\n")
    return directory
