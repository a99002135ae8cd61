"""A signal while a command still imports its modules: one line and exit code 130."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_profile.settings.places import ROOT
from tests.further import further
from tests.invoked import INVOKE

CONSOLE = (sys.executable, "-c", "from gpu_profile.cli.start import main; main()")
START = (sys.executable, "-m", "gpu_profile.cli.start")
TABLE = "gpu_profile.cli.table"
SITE = """
import os, sys
class Signaller:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Signaller())
"""
"""A sitecustomize.py that sends this process a signal when it imports a module."""


@pytest.mark.parametrize(
    ("command", "module", "number"),
    [
        (CONSOLE, "invoke", signal.SIGINT),
        (START, "invoke", signal.SIGTERM),
        (INVOKE, TABLE, signal.SIGHUP),
        # One function installs all handlers, and each start calls it.
        *(further(CONSOLE, "invoke", number) for number in (signal.SIGTERM, signal.SIGHUP)),
        *(further(START, "invoke", number) for number in (signal.SIGINT, signal.SIGHUP)),
        *(further(INVOKE, TABLE, number) for number in (signal.SIGINT, signal.SIGTERM)),
    ],
)
def test_a_signal_during_the_imports(
    tmp_path: Path, command: tuple[str, ...], module: str, number: signal.Signals
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SITE.format(name=module, number=int(number)))
    done = subprocess.run(
        ["env", "--default-signal", f"PYTHONPATH={tmp_path}", *command, "config"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    line = "the terminal is gone" if number == signal.SIGHUP else "interrupted"
    assert (done.returncode, done.stdout, done.stderr) == (130, "", f"error: {line}.\n")


def test_a_signal_while_inv_installs(tmp_path: Path) -> None:
    """pip is a script here that sends the signal to its parent, which is ./inv."""
    shutil.copy(ROOT / "inv", tmp_path)
    (tmp_path / "requirements.txt").write_text("")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nkill -TERM $PPID\n")
    python.chmod(0o755)
    done = subprocess.run(
        [str(tmp_path / "inv"), "config"], capture_output=True, text=True, check=False
    )
    lines = done.stderr.splitlines()
    assert (done.returncode, lines[1:]) == (130, ["error: interrupted."])


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    code = (
        "import os, signal; from gpu_profile.cli.early_signals import install_early_handlers;"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN); install_early_handlers();"
        "os.kill(os.getpid(), signal.SIGHUP); print('here')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "here\n"
