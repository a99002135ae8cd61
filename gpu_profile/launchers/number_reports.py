"""Number the reports of pods that have no ranks of their own: each of a Deployment is rank 0."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpu_profile.command import Steps, make_command

_FILE = re.compile(r"rank(?P<rank>\d+)\.(?P<host>[^.]+)\.(?P<ending>.+)")


def number_reports(directory: Path) -> Steps[None]:
    """Rename the reports of pods that have one rank's number twice, in the order of their names.

    `rank0.web-a.nsys-rep` and `rank0.web-b.nsys-rep`: the second becomes that of rank 1.
    """
    listed = yield make_command("ls", str(directory))
    for name, new_name in choose_names(listed.stdout.splitlines()).items():
        yield make_command("mv", "--no-clobber", f"{directory}/{name}", f"{directory}/{new_name}")


def choose_names(names: Iterable[str]) -> Mapping[str, str]:
    """Return the new names of files by their names; none where each rank is of one pod."""
    matches = [match for name in names if (match := _FILE.fullmatch(name))]
    hosts_by_rank: dict[str, set[str]] = {}
    for match in matches:
        hosts_by_rank.setdefault(match["rank"], set()).add(match["host"])
    if all(len(hosts) == 1 for hosts in hosts_by_rank.values()):
        return {}
    hosts = sorted({match["host"] for match in matches})
    numbers = {host: number for number, host in enumerate(hosts)}
    return {
        match[0]: f"rank{numbers[match['host']]}.{match['host']}.{match['ending']}"
        for match in matches
        if int(match["rank"]) != numbers[match["host"]]
    }
