"""Run the trials of try_on_aws.py, and remove what they made."""

import functools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from aws_trials import ROOT, Trial

from gpu_profile import process, program_output, redact, signals
from gpu_profile.command import Command
from gpu_profile.errors import GpuProfileError, ToolError
from gpu_profile.printable import printable_lines

_TAIL = 30  # lines of a failed command that the report shows
_ACCOUNT = re.compile(r"\b\d{12}\b")


@dataclass
class Outcome:
    """What became of a trial: passed, failed or skipped, and the end of its output.

    `begun`: its commands that were started; 0 leaves nothing to remove.
    """

    name: str
    state: str = "skipped"
    begun: int = 0
    seconds: float = 0.0
    lines: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)


def run_trial(trial: Trial, outcomes: Mapping[str, Outcome]) -> Outcome:
    """Run a trial's commands until one fails. Cleaning up is the caller's."""
    outcome = Outcome(trial.name)
    needed = outcomes.get(trial.needs)
    if trial.missing or (needed and needed.state != "passed"):
        outcome.lines = [trial.missing or f"{trial.needs} did not pass"]
        return outcome
    start = time.monotonic()
    outcome.state = "failed"
    try:
        if not any(_run(command, outcome) for command in trial.commands):
            outcome.state = "passed"
    except GpuProfileError as error:
        outcome.lines.append(str(error))
        outcome.begun -= isinstance(error, ToolError)  # its program is not here
    except (KeyboardInterrupt, signals.HungUp):
        outcome.lines.append("interrupted")
        outcome.state = "interrupted"
    outcome.seconds = time.monotonic() - start
    return outcome


def _run(command: Command, outcome: Outcome) -> int:
    """Run one command, show its lines, and keep the last ones. Returns its exit code."""
    outcome.lines = [f"$ {command}"]
    outcome.begun += 1
    print(hide(outcome.lines[0]), flush=True)
    lines = program_output.read_lines(command)
    while True:
        try:
            line = printable_lines(next(lines))
        except StopIteration as stop:
            outcome.lines.append(f"exit code {stop.value}")
            return int(stop.value)
        print(line, flush=True)
        outcome.lines = [outcome.lines[0], *outcome.lines[1:][-_TAIL:], line]


def clean_up(trial: Trial, outcome: Outcome, remove_repository: Callable[[str], str]) -> None:
    """Remove what the trial made. What could not be removed is named in `outcome.leftovers`."""
    if not outcome.begun:
        return
    removals = [functools.partial(_remove_by, command) for command in trial.cleanup]
    if trial.repository:
        removals.append(functools.partial(_remove_repository, trial.repository, remove_repository))
    for remove in removals:
        try:
            problem = remove()
        except (KeyboardInterrupt, signals.HungUp):
            problem = f"{' '.join(map(str, remove.args[:1]))}: removing it was interrupted"
        if problem:
            outcome.leftovers.append(problem)


def _remove_by(command: Command) -> str:
    """Run a command that removes something. Returns why it could not, or ""."""
    try:
        result = process.run(command)
    except GpuProfileError as error:
        return f"`{command}` could not run: {error}"
    # An image that a failed trial never made is nothing that is left.
    if result.returncode and "No such image" not in result.stderr:
        return f"`{command}` failed: {result.last_line[-200:]}"
    return ""


def _remove_repository(name: str, remove: Callable[[str], str]) -> str:
    problem = remove(name)
    return f"the ECR repository {name} is left: {problem}" if problem else ""


def run_all(trials: Sequence[Trial], remove: Callable[[str], str]) -> dict[str, Outcome]:
    """Run the trials, then clean up after all: later ones use what earlier ones have made."""
    outcomes: dict[str, Outcome] = {}
    try:
        for trial in trials:
            print(f"\n== {trial.name}", flush=True)
            outcomes[trial.name] = run_trial(trial, outcomes)
            if outcomes[trial.name].state == "interrupted":
                break
    finally:
        for trial in reversed(trials):
            if trial.name in outcomes:
                clean_up(trial, outcomes[trial.name], remove)
    return outcomes


def hide(text: str) -> str:
    """Return a text without account numbers, credentials and the clone's place, for others."""
    text = text.replace(str(ROOT), ".")
    return _ACCOUNT.sub("123456789012", redact.redact_text(text))
