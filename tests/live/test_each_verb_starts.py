"""Each verb in a new Python, which has imported none of its modules."""

import dataclasses
import re
import shutil
from pathlib import Path

import pytest

from gpu_profile.cli.table import VERBS, find_verb
from gpu_profile.command import Result
from tests.invoked import invoke, start_invoke

WORDS = {
    "init": ("--output=/dev/null/x",),
    "k8s.injector": ("install",),
    "quickstart": ("--set", "NOPE=1"),  # without it, quickstart installs an engine
    "trace-file": ("json:loads",),
}


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS if verb.name != "check"])
def test_each_verb_starts_in_a_new_python(verb: str, tmp_path: Path) -> None:
    """Without any program on PATH: it shows its commands, or refuses in one line.

    The fork server has imported all modules, so that it hides an import that a verb lacks.
    """
    (tmp_path / "env").symlink_to(shutil.which("env") or "")
    options = find_verb(verb).options
    flags = ["--dry-run"] if any(option.name == "dry-run" for option in options) else []
    words = (verb, *WORDS.get(verb, ()), *flags)
    # A TMPDIR of its own: what other tests killed is removed by the first verb that sees it.
    env = {"PATH": str(tmp_path), "REPORT_DIR": str(tmp_path), "TMPDIR": str(tmp_path)}
    started = start_invoke(*words, directory=tmp_path, **env)
    assert started.returncode in (0, 2, 3), started.stderr
    assert "Traceback" not in started.stderr
    forked = invoke(*words, directory=tmp_path, **env)
    assert hide_time(forked) == hide_time(started)


def hide_time(result: Result) -> Result:
    """The result without the time in the name of a run, such as train-20261124-152153."""
    return dataclasses.replace(result, stdout=re.sub(r"\d{8}-\d{6}", "TIME", result.stdout))
