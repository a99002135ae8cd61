"""Run several commands at once, as one command of this machine's shell."""

import re
import shlex
from collections.abc import Mapping

from gpu_profile.command import Command, Result, Steps, make_command

# A launcher yields one command after the other: what has to run at once is one command of a shell.
# /dev/null: `kubectl exec` would read what is meant for the shell.
_SCRIPT = """ask() {
  place=$1
  shift
  { "$@" 2>&1 </dev/null; printf '\\nexit %s\\n' "$?"; } | sed "s|^|$place |"
}
"""
_EXIT = re.compile(r"exit (\d+)")


def run_at_once(commands: Mapping[str, Command]) -> Steps[Mapping[str, Result]]:
    """Run commands beside each other, and return their results by their keys.

    A key has no space, such as a pod's name. Output of a command on either stream is its stdout if
    it ended with 0, otherwise its stderr.
    """
    calls = [f"ask {shlex.join((key, *each.argv))} &" for key, each in commands.items()]
    done = yield make_command("sh", "-c", "\n".join([_SCRIPT, *calls, "wait"]))
    lines = [line.partition(" ") for line in done.stdout.splitlines()]
    return {key: _read([text for place, _, text in lines if place == key]) for key in commands}


def _read(lines: list[str]) -> Result:
    """Return the result of one command, from its own lines."""
    match = _EXIT.fullmatch(lines[-1]) if lines else None
    if match is None:
        return Result(returncode=1, stderr="it did not end")
    text = "\n".join(lines[:-1]).strip("\n")
    code = int(match[1])
    return Result(returncode=code, stderr=text) if code else Result(returncode=0, stdout=text)
