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

from gpu_profile.analysis.scrub.paths import ROOTS, list_first_folders
from gpu_profile.analysis.scrub.redactor import SECRET, STAND_IN, Literal, Redactor
from gpu_profile.analysis.scrub.users import USER
from gpu_profile.analysis.store.rank_variables import (
    PLACE_VARIABLES,
    RANK_VARIABLES,
    SIZE_VARIABLES,
)
from gpu_profile.redact import CommandLine, is_secret

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
_COMMAND = CommandLine(SECRET)
_LOGIN_PROGRAMS = frozenset(["ssh", "sftp", "mosh", "telnet", "ping"])


@dataclass(frozen=True)
class ScrubOptions:
    """What to remove. `keep`: kinds or environment variables to leave; `also`: further strings to
    remove; `keep_blobs`: leave blobs that no table of ours reads, redacted and searched.
    """

    keep: frozenset[str] = frozenset()
    also: tuple[str, ...] = ()
    keep_blobs: bool = False
    hosts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()

    def drops(self, kind: str) -> bool:
        return kind not in self.keep

    @property
    def variables(self) -> frozenset[str]:
        return RETAINED_VARIABLES | (self.keep - set(KINDS))


@dataclass
class ReportNames:
    """Texts, hosts, users and secrets from one report's description tables.

    `command_lines`: the rows (name, value) that are words of a command line, without secrets.
    """

    texts: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    users: set[str] = field(default_factory=set)
    secrets: set[str] = field(default_factory=set)
    command_lines: dict[tuple[str, str], str] = field(default_factory=dict)


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
    rows = list(_list_named_rows(source))
    for name, value in rows:
        names.texts.append(value)
        names.users.update(_HOME.findall(value))
        kind = kind_of(name)
        if kind == "environment":
            _survey_environment(parse_variables(value), names)
        elif kind == "hosts":
            names.hosts.add(value)
        elif kind == "users":
            names.users.add(value)
    names.secrets.update(_list_secret_arguments(rows))
    names.command_lines.update(_redact_command_lines(rows))
    for words in (names.hosts, names.users, names.secrets):
        words.difference_update([word for word in words if STAND_IN.search(word)])
    return names


def make_redactor(reports: Iterable[ReportNames], options: ScrubOptions) -> Redactor:
    """One redactor for all reports of a run, so that a host has one replacement in all of them."""
    descriptions = list(reports)
    hosts = {host for names in descriptions for host in names.hosts} | set(options.hosts)
    users = {user for names in descriptions for user in names.users} | set(options.users)
    secrets = {secret for names in descriptions for secret in names.secrets}
    literals = [
        Literal(secret, SECRET, word=False)
        for secret in sorted(secrets)
        if len(secret) >= _SHORTEST_SECRET
    ]
    literals += [Literal(text, "<removed>", word=False) for text in options.also]
    stand_ins = _choose_stand_ins(sorted(hosts))
    if options.drops("hosts"):
        literals += [
            _make_literal(host, name) for host, name in stand_ins.items() if _is_telling(host)
        ]
    if options.drops("users"):
        literals += [_make_literal(user, USER) for user in sorted(users) if _is_telling(user)]
    return Redactor(
        tuple(literals),
        stand_ins,
        list_first_folders(text for names in descriptions for text in names.texts) | ROOTS,
        options.drops("paths"),
        options.drops("hosts"),
        options.drops("users"),
        {row: text for names in descriptions for row, text in names.command_lines.items()},
    )


def clean_value(name: str, value: str, options: ScrubOptions, redactor: Redactor) -> str:
    """What may stay of the value in a (name, value) row of a description."""
    kind = kind_of(name)
    if kind == "arguments" and options.drops(kind):
        value = redactor.command_lines.get((name, value), value)
    if not kind or not options.drops(kind) or value in ("", "true", "false") or value.isdigit():
        return redactor.text(value, everywhere=True)
    if kind == "environment":
        return _clean_environment(value, options, redactor)
    if kind == "users":
        return USER
    if kind == "hosts":
        is_replaced = STAND_IN.fullmatch(value)
        return value if is_replaced else redactor.host_names.get(value, "<host>")
    if kind == "paths" and value.strip("./") and name.upper().endswith(("DIR", "DIRECTORY")):
        return "<path>"
    return redactor.text(value, everywhere=True)


def _clean_environment(value: str, options: ScrubOptions, redactor: Redactor) -> str:
    clean_variables = {
        name: text if name in options.keep else text if text.isdigit() else ""
        for name, text in parse_variables(value).items()
        if name in options.variables
    }
    return ";".join(
        f"{name}={redactor.text(text)}" for name, text in clean_variables.items() if text
    )


def _survey_environment(environment: dict[str, str], names: ReportNames) -> None:
    for name, value in environment.items():
        if name in _USER_VARIABLES:
            names.users.add(value)
        elif name in _HOST_VARIABLES:
            names.hosts.add(value)
        elif is_secret(name) and not value.isdigit():
            names.secrets.add(value)


def _list_secret_arguments(rows: list[tuple[str, str]]) -> Iterator[str]:
    """The arguments after flags such as `--token` and `-p`, which are rows of their own."""
    for (name, flag), (_, value) in itertools.pairwise(rows):
        is_flag = kind_of(name) == "arguments" and _SECRET_FLAG.match(flag)
        if is_flag and _COMMAND.redact_argv((flag, value)) != (flag, value):
            yield value.partition(":")[2] if flag in ("-u", "--user") else value


def _redact_command_lines(rows: list[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], str]]:
    """The rows of each command line with what run.json would keep of them, without the host of ssh.

    The words of a process are rows of their own, one after another: PROCESS_1:COMMAND,
    PROCESS_1:ARGUMENT_0, …
    """
    for is_command, group in itertools.groupby(rows, lambda row: kind_of(row[0]) == "arguments"):
        if is_command:
            line = list(group)
            words = _COMMAND.redact_argv(tuple(value for _, value in line))
            yield from zip(line, _hide_login_hosts(words), strict=True)


def _hide_login_hosts(words: tuple[str, ...]) -> Iterator[str]:
    """The words with `<host>` in place of the first word after ssh that is no option."""
    is_awaited = False
    for flag, word in itertools.pairwise(("", *words)):
        is_option = word.startswith("-") or (flag.startswith("-") and len(flag) == 2)
        if is_awaited and not is_option and not STAND_IN.search(word):
            user, at, _ = word.rpartition("@")
            yield f"{user}{at}<host>"
            is_awaited = False
        else:
            yield word
            is_awaited = is_awaited or word.rpartition("/")[2] in _LOGIN_PROGRAMS


def _list_named_rows(source: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    for table in (*NAMED_TABLES, SYSTEM_TABLE):
        columns = {row[1] for row in source.execute(f'PRAGMA table_info("{table}")')}
        if {"name", "value"} <= columns:
            query = f'SELECT name, value FROM "{table}" WHERE value IS NOT NULL ORDER BY rowid'
            yield from ((str(name), str(value)) for name, value in source.execute(query))


def _choose_stand_ins(hosts: Iterable[str]) -> dict[str, str]:
    """The replacements <host0>, <host1>, … by host; "a.example.com" and its first part "a" get the
    same.

    No host can have such a name (RFC 1123, section 2.1), so a stand-in is never taken for one: not
    where a machine is called host0, and not when a copy is scrubbed again.
    """
    names: dict[str, str] = {}
    for index, host in enumerate(filter(None, hosts)):
        name = f"<host{index}>"
        first, dot, _ = host.partition(".")
        if dot and not first.isdigit():
            name = names.setdefault(first, name)
        names[host] = names.get(host, name)
    return names


def _make_literal(word: str, stand_in: str) -> Literal:
    return Literal(word, stand_in, is_short=len(word) < _SHORTEST_ANYWHERE)


def _is_telling(word: str) -> bool:
    return len(word) >= 2 and word.lower() not in _EVERYDAY and not word.startswith("127.")


def list_original_names(reports: Iterable[ReportNames], options: ScrubOptions) -> frozenset[str]:
    """Hosts, users and credentials that no copy may hold; hosts also by the first part of their
    name.
    """
    names: set[str] = set()
    for report_names in reports:
        names |= {secret for secret in report_names.secrets if len(secret) >= _SHORTEST_SECRET}
        if options.drops("hosts"):
            names |= {
                part for host in report_names.hosts for part in (host, host.partition(".")[0])
            }
        if options.drops("users"):
            names |= report_names.users
    return frozenset(name for name in names if _is_telling(name) and not name.isdigit())
