#!/usr/bin/env python3
"""Try with an AWS account what the tests of this repository cannot try, and write a report.

    .venv/bin/python scripts/try_on_aws.py --region us-west-2 --dry-run
    .venv/bin/python scripts/try_on_aws.py --region us-west-2 --only ecr,nvidia
    .venv/bin/python scripts/try_on_aws.py --region us-west-2 --context eks --instance p5.48xlarge

It creates ECR repositories and a Kubernetes namespace with names of its own, and removes them at
the end, also after Ctrl-C. It creates no instance and no cluster. docs/try-on-aws.md has more.
"""

import argparse
import dataclasses
import functools
import platform
import re
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError

sys.path.insert(0, str(Path(__file__).resolve().parent))

from aws_trials import ROOT, Place, Trial, list_trials

from gpu_profile import __version__, process, program_output, redact, signals
from gpu_profile.command import Command
from gpu_profile.errors import GpuProfileError, ToolError
from gpu_profile.printable import printable_lines

_TAIL = 30  # lines of a failed command that the report shows
_FLAGS = (
    *("region", "registry", "image", "context", "instance", "nodes", "gpus"),
    *("chart", "chart_image"),
)
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


def hide(text: str) -> str:
    """Return a text without account numbers, credentials and the clone's place, for others."""
    text = text.replace(str(ROOT), ".")
    return _ACCOUNT.sub("123456789012", redact.redact_text(text))


def render_report(trials: Sequence[Trial], outcomes: Mapping[str, Outcome], place: Place) -> str:
    """Return the report as Markdown, to be attached to an issue."""
    lines = [
        "# gpu-profile on AWS",
        "",
        f"gpu-profile {__version__}, Python {platform.python_version()}, {platform.platform()}, "
        f"{place.region}, {place.nodes} nodes {place.instance or '(no cluster)'}",
        "",
        "| trial | result | seconds | proves |",
        "|---|---|---|---|",
    ]
    done = [(trial, outcomes[trial.name]) for trial in trials if trial.name in outcomes]
    for trial, outcome in done:
        lines.append(f"| {trial.name} | {outcome.state} | {outcome.seconds:.0f} | {trial.proves} |")
    for trial, outcome in done:
        if outcome.state != "passed":
            # A fence in the output would end the fence around it.
            text = "\n".join(outcome.lines).replace("```", "'''")
            lines += ["", f"## {trial.name}: {outcome.state}", "", "```", text, "```"]
    leftovers = [line for _, outcome in done for line in outcome.leftovers]
    lines += ["", "## Cleaned up", "", *(f"- {line}" for line in leftovers or ["nothing is left"])]
    return hide("\n".join(lines)) + "\n"


def make_repository_remover(place: Place) -> Callable[[str], str]:
    """Return a function that removes a repository of ours, and returns why it could not, or ""."""
    client = boto3.client("ecr", region_name=place.region)

    def remove(name: str) -> str:
        # `force` deletes images, too: no repository that was there before may come to this line.
        if not name.startswith(place.name):
            return "it is not ours"
        try:
            client.delete_repository(repositoryName=name, force=True)
        except client.exceptions.RepositoryNotFoundException:
            return ""
        except (BotoCoreError, ClientError) as error:
            return str(error)
        return ""

    return remove


def show_plan(trials: Sequence[Trial]) -> None:
    for trial in trials:
        print(f"\n{trial.name}: {trial.proves}\n  costs {trial.cost}")
        for command in trial.commands if not trial.missing else ():
            print(f"  {hide(str(command))}")
        print(f"  skipped: {trial.missing}" if trial.missing else "  and is cleaned up afterwards")


def parse_words(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--region", required=True, help="such as us-west-2")
    parser.add_argument("--only", default="", help="names of trials, separated by commas")
    parser.add_argument("--registry", default="", help="another address of the account's ECR")
    parser.add_argument("--image", default="", help="local image that ecr pushes; default: a build")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=value",
        help="a setting of the builds, such as BASE_IMAGE of a mirror",
    )
    parser.add_argument("--cluster-image", default="", help="image for eks, instead of efa's")
    parser.add_argument("--chart", default="", help="the injector's chart, a path or a URL")
    parser.add_argument("--chart-image", default="", help="image of NVIDIA's tools, from a mirror")
    parser.add_argument("--context", default="", help="kubectl's context of an EKS cluster")
    parser.add_argument("--instance", default="", help="the nodes' type, such as p5.48xlarge")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--gpus", default="all", help="GPUs of a node for multinode; 0: CPUs only")
    parser.add_argument("--report", type=Path, default=Path("try-on-aws.md"))
    parser.add_argument("--dry-run", action="store_true", help="show the plan and its cost")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    words = parser.parse_args(argv)
    if wrong := [text for text in words.set if "=" not in text]:
        parser.error(f"--set {wrong[0]}: write KEY=value")
    return words


def choose_trials(trials: Sequence[Trial], names: str) -> tuple[Trial, ...]:
    """Return the trials of `--only ecr,efa`. What a chosen one needs must be chosen too."""
    chosen = set(filter(None, names.split(","))) or {trial.name for trial in trials}
    if unknown := chosen - {trial.name for trial in trials}:
        raise SystemExit(
            f"--only {', '.join(sorted(unknown))}: there are "
            f"{', '.join(trial.name for trial in trials)}"
        )
    return tuple(_require_needs(trial, chosen) for trial in trials if trial.name in chosen)


def _require_needs(trial: Trial, chosen: Set[str]) -> Trial:
    """Return the trial; one that needs a trial that is not chosen is missing something."""
    if not trial.needs or trial.needs in chosen:
        return trial
    reason = trial.missing or f"needs {trial.needs} in --only"
    return dataclasses.replace(trial, missing=reason)


def find_account(region: str, *, dry_run: bool) -> str:
    """Return the account's number. Exits with 3 if there are no credentials."""
    if dry_run:
        return "123456789012"
    try:
        return str(boto3.client("sts", region_name=region).get_caller_identity()["Account"])
    except (BotoCoreError, ClientError) as error:
        print(f"error: no AWS account: {error}. Log in, as by `aws sso login`.", file=sys.stderr)
        raise SystemExit(3) from None


def main(argv: Sequence[str]) -> int:
    words = parse_words(argv)
    place = Place(
        account=find_account(words.region, dry_run=words.dry_run),
        # Names of their own, so that two people can try in one account at once.
        suffix=secrets.token_hex(3),
        **{name: getattr(words, name) for name in _FLAGS},
        ready_image=words.cluster_image,
        settings=dict(text.split("=", 1) for text in words.set),
    )
    trials = choose_trials(list_trials(place), words.only)
    show_plan(trials)
    if words.dry_run:
        return 0
    if not words.yes and input("\nRun these? [y/N] ").strip().lower() not in {"y", "yes"}:
        return 2
    signals.install_handlers()
    outcomes = run_all(trials, make_repository_remover(place))
    report = render_report(trials, outcomes, place)
    words.report.write_text(report, encoding="utf-8")
    print(f"\n{report}\n{words.report} is written; attach it to an issue")
    states = {outcome.state for outcome in outcomes.values()}
    left = any(outcome.leftovers for outcome in outcomes.values())
    # The verbs' exit codes (docs/usage.md): 130 after Ctrl-C, 8 where a gate failed.
    return 130 if "interrupted" in states else 8 if "failed" in states or left else 0


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


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
