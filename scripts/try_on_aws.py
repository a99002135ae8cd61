#!/usr/bin/env python3
"""Try with an AWS account what the tests of this repository cannot try, and write a report.

    .venv/bin/python scripts/try_on_aws.py --region us-west-2 --dry-run
    .venv/bin/python scripts/try_on_aws.py --region us-west-2 --only ecr,nvidia
    .venv/bin/python scripts/try_on_aws.py --region us-west-2 --context eks --instance p5.48xlarge

It creates ECR repositories and a Kubernetes namespace with names of its own, and removes them at
the end, also after Ctrl-C. It creates no instance and no cluster. docs/ec2.md has more.
"""

import argparse
import dataclasses
import platform
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError

sys.path.insert(0, str(Path(__file__).resolve().parent))

from aws_outcomes import Outcome, hide, run_all
from aws_trials import Place, Trial, list_trials

from gpu_profile import __version__, signals

_FLAGS = (
    *("region", "registry", "image", "context", "instance", "nodes", "gpus"),
    *("chart", "chart_image"),
)


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
    # The verbs' exit codes (README.md): 130 after Ctrl-C, 8 where a gate failed.
    return 130 if "interrupted" in states else 8 if "failed" in states or left else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
