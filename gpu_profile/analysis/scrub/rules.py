"""Which rows of an nsys export hold secrets, users, hosts, paths and output, and how to clean
them.

Facts about the tables: NVIDIA's "SQLite Schema Reference". META_DATA_CAPTURE holds the command
line and the environment, TARGET_INFO_SYSTEM_ENV the host, ProcessStreams what programs printed.
"""

import itertools
import re
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gpu_profile.analysis.scrub.redactor import (
    ROOTS,
    SECRET,
    Literal,
    Redactor,
    first_folders,
)
from gpu_profile.analysis.store.rank_variables import (
    PLACE_VARIABLES,
    RANK_VARIABLES,
    SIZE_VARIABLES,
)
from gpu_profile.redact import is_secret, redact_argv

KINDS = ("environment", "arguments", "output", "paths", "users", "hosts", "processes")
NAMED_TABLES = ("META_DATA_CAPTURE", "META_DATA_EXPORT", "EXPORT_META_DATA")
SYSTEM_TABLE = "TARGET_INFO_SYSTEM_ENV"
OUTPUT_TABLES = ("ProcessStreams", "ANALYSIS_FILE")

# A report's rank is read from these variables; they are kept if they are numbers.
RETAINED_VARIABLES = frozenset((*RANK_VARIABLES, *SIZE_VARIABLES, *PLACE_VARIABLES))

_NAMED_RULES = (
    ("environment", re.compile(r"ENVIRON|ENV_VAR|^DeviceEnvironment$", re.IGNORECASE)),
    ("arguments", re.compile(r"ARGUMENT|COMMAND|CMDLINE", re.IGNORECASE)),
    ("users", re.compile(r"USER(_?NAME|_?ID)?$|LOGIN", re.IGNORECASE)),
    ("hosts", re.compile(r"HOST(_?NAME)?$|DEVICE_DISPLAY_NAME|ADDRESS$|MACHINE", re.IGNORECASE)),
    ("paths", re.compile(r"PATH|_DIR$|DIR(ECTORY)?$|_FILE$", re.IGNORECASE)),
)
_USER_VARIABLES = ("USER", "LOGNAME", "USERNAME", "SUDO_USER", "SLURM_JOB_USER", "MAIL")
_HOST_WORDS = (
    "HOSTNAME HOST SLURMD_NODENAME SLURM_SUBMIT_HOST SLURM_LAUNCH_NODE_IPADDR MASTER_ADDR "
    "POD_NAME NODE_NAME KUBERNETES_SERVICE_HOST HYDRA_LAUNCHER_HOST"
)
_HOST_VARIABLES = frozenset(_HOST_WORDS.split())
# These words identify nobody and are parts of other words, so they are not searched for; the
# fields that hold them are emptied.
_EVERYDAY_WORDS = "localhost root user node host gpu admin ubuntu default none true false"
_EVERYDAY = frozenset(_EVERYDAY_WORDS.split())
# nsys writes the environment as NAME="value" in rows, NAME=value;NAME=value in one cell, or JSON,
# depending on its version.
_BETWEEN = re.compile(r"[;\n\0]|[\"']\s*,\s*[\"']")
_PAIR = re.compile(r"\W*([A-Za-z_]\w*)[\"']?\s*[=:]\s*[\"']?(.*?)[\"']?\s*\}?\s*$", re.DOTALL)
_SHORTEST_ANYWHERE, _SHORTEST_SECRET = 4, 6
_HOME = re.compile(r"/(?:home|Users)/([\w.-]+)")
_SECRET_FLAG = re.compile(r"--?[\w-]+$")


@dataclass(frozen=True)
class Wish:
    """What to remove. `keep`: kinds or environment variables to leave; `also`: further strings to
    remove.
    """

    keep: frozenset[str] = frozenset()
    also: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()

    def drops(self, kind: str) -> bool:
        return kind not in self.keep

    @property
    def variables(self) -> frozenset[str]:
        return RETAINED_VARIABLES | (self.keep - set(KINDS))


@dataclass
class ReportNames:
    """Texts, hosts, users and secrets from one report's description tables."""

    texts: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    users: set[str] = field(default_factory=set)
    secrets: set[str] = field(default_factory=set)


def kind_of(name: str) -> str:
    """The kind (of KINDS) of a (name, value) row of a description; "" for a harmless one."""
    return next((kind for kind, pattern in _NAMED_RULES if pattern.search(name)), "")


def parse_variables(value: str) -> dict[str, str]:
    """The environment variables in a value, in any of nsys' formats."""
    matches = (_PAIR.match(piece) for piece in _BETWEEN.split(value))
    return {pair[1]: pair[2].strip() for pair in matches if pair}


def collect_names(source: sqlite3.Connection) -> ReportNames:
    """The hosts, users, secrets and paths in the report's description tables."""
    names = ReportNames()
    for name, value in _named_rows(source):
        names.texts.append(value)
        names.users.update(_HOME.findall(value))
        kind = kind_of(name)
        if kind == "environment":
            _survey_environment(parse_variables(value), names)
        elif kind == "hosts":
            names.hosts.add(value)
        elif kind == "users":
            names.users.add(value)
    names.secrets.update(_secret_arguments(list(_named_rows(source))))
    return names


def make_redactor(founds: Iterable[ReportNames], wish: Wish) -> Redactor:
    """One redactor for all reports of a run, so that a host has one replacement in all of them."""
    everything = list(founds)
    hosts = sorted(
        {host for report_names in everything for host in report_names.hosts} | set(wish.hosts)
    )
    users = sorted(
        {user for report_names in everything for user in report_names.users} | set(wish.users)
    )
    secrets = sorted({secret for report_names in everything for secret in report_names.secrets})
    literals = [
        Literal(secret, SECRET, word=False) for secret in secrets if len(secret) >= _SHORTEST_SECRET
    ]
    literals += [Literal(text, "<removed>", word=False) for text in wish.also]
    names = _stand_ins(hosts)
    if wish.drops("hosts"):
        literals += [_literal(host, name) for host, name in names.items() if _is_telling(host)]
    if wish.drops("users"):
        literals += [_literal(user, "<user>") for user in users if _is_telling(user)]
    roots = first_folders(text for report_names in everything for text in report_names.texts)
    return Redactor(tuple(literals), names, roots | ROOTS, wish.drops("paths"), wish.drops("hosts"))


def clean_value(name: str, value: str, wish: Wish, clean: Redactor) -> str:
    """What may stay of the value in a (name, value) row of a description."""
    kind = kind_of(name)
    if not kind or not wish.drops(kind) or value in ("", "true", "false") or value.isdigit():
        return clean.text(value, everywhere=True)
    if kind == "environment":
        return _clean_environment(value, wish, clean)
    if kind == "users":
        return "<user>"
    if kind == "hosts":
        return clean.host_names.get(value, "<host>")
    if kind == "paths" and value.strip("./") and name.upper().endswith(("DIR", "DIRECTORY")):
        return "<path>"
    return clean.text(value, everywhere=True)


def _clean_environment(value: str, wish: Wish, clean: Redactor) -> str:
    clean_variables = {
        name: text if name in wish.keep else text if text.isdigit() else ""
        for name, text in parse_variables(value).items()
        if name in wish.variables
    }
    return ";".join(f"{name}={clean.text(text)}" for name, text in clean_variables.items() if text)


def _survey_environment(environment: dict[str, str], names: ReportNames) -> None:
    for name, value in environment.items():
        if name in _USER_VARIABLES:
            names.users.add(value)
        elif name in _HOST_VARIABLES:
            names.hosts.add(value)
        elif is_secret(name) and not value.isdigit():
            names.secrets.add(value)


def _secret_arguments(rows: list[tuple[str, str]]) -> Iterator[str]:
    """The arguments after flags such as `--token` and `-p`, which are rows of their own."""
    for (name, flag), (_, value) in itertools.pairwise(rows):
        is_flag = kind_of(name) == "arguments" and _SECRET_FLAG.match(flag)
        if is_flag and redact_argv((flag, value)) != (flag, value):
            yield value.partition(":")[2] if flag in ("-u", "--user") else value


def _named_rows(source: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    for table in (*NAMED_TABLES, SYSTEM_TABLE):
        columns = {row[1] for row in source.execute(f'PRAGMA table_info("{table}")')}
        if {"name", "value"} <= columns:
            query = f'SELECT name, value FROM "{table}" WHERE value IS NOT NULL ORDER BY rowid'
            yield from ((str(name), str(value)) for name, value in source.execute(query))


def _stand_ins(hosts: Iterable[str]) -> dict[str, str]:
    """The replacements host0, host1, … by host; "a.example.com" and its first part "a" get the
    same.
    """
    names: dict[str, str] = {}
    for index, host in enumerate(filter(None, hosts)):
        name = f"host{index}"
        first, dot, _ = host.partition(".")
        if dot and not first.isdigit():
            name = names.setdefault(first, name)
        names[host] = names.get(host, name)
    return names


def _literal(word: str, stand_in: str) -> Literal:
    return Literal(word, stand_in, short=len(word) < _SHORTEST_ANYWHERE)


def _is_telling(word: str) -> bool:
    return len(word) >= 2 and word.lower() not in _EVERYDAY and not word.startswith("127.")


def original_names(founds: Iterable[ReportNames], wish: Wish) -> frozenset[str]:
    """Hosts, users and credentials that no copy may hold; hosts also by the first part of their
    name.
    """
    names: set[str] = set()
    for report_names in founds:
        names |= {secret for secret in report_names.secrets if len(secret) >= _SHORTEST_SECRET}
        if wish.drops("hosts"):
            names |= {
                part for host in report_names.hosts for part in (host, host.partition(".")[0])
            }
        if wish.drops("users"):
            names |= report_names.users
    return frozenset(name for name in names if _is_telling(name) and not name.isdigit())
