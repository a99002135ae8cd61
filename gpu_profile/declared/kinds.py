"""The kinds of settings and flags, and which text is valid: `1g` is a size, `banana` is not."""

import json
import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

KeyKind = Literal[
    "str", "bool", "choice", "words", "size", "seconds", "count", "number", "percent", "ports",
    "volumes", "mount", "variable", "registry", "image", "address", "tag", "version", "url",
    "proxy", "path", "json", "commit", "sha256", "packages", "fingerprint", "name", "names", "label", "report-place", "injected-name",
    "login", "user", "slurm-time", "archs", "region", "instance", "ranks", "scheduler", "colour",
    "bytes", "interval", "run-name", "directory", "absolute-path", "hosts", "selector", "tolerations",
]  # fmt: skip

MOST_RANKS = 1_000_000
"""An upper limit of ranks, above any job's: `0-99999999999` would fill the memory."""


@dataclass(frozen=True)
class Kind:
    """A kind of value. `fits` returns whether a text is valid; `example` is shown if it is not."""

    fits: Callable[[str], bool]
    example: str


def fault(kind: str, text: str) -> str:
    """Return what to write instead, such as `Use a size: 512m, 1g`; empty for a valid text."""
    return "" if KINDS[kind].fits(text) else f"Use {KINDS[kind].example}"


def _matches(pattern: str) -> Callable[[str], bool]:
    # ASCII: \d would take the digits of all scripts, and \w their letters, which no tool below
    # reads.
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and float(text) >= 0
    except ValueError:
        return False


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _is_url(text: str) -> bool:
    """Return whether it is `auto`, a URL, a local directory, or `git@host:path.git`."""
    if (
        text == "auto"
        or re.match(r"~?/|\.{1,2}/|[A-Za-z]:\\", text)
        or re.fullmatch(r"(?:[\w.-]+@)?[\w.-]+:[\w./~-]+\.git", text, re.ASCII)
    ):
        return True
    try:
        parts = urlsplit(text)
        # urlsplit() looks at the port only when it is asked for.
        _ = parts.port
    except ValueError:
        return False
    plain = not re.search(r"[\s'\"`;|<>\\^{}]|\$\(", text)
    has_scheme = parts.scheme in {"http", "https", "ssh", "git", "file", "s3", "ftp"}
    return plain and has_scheme and bool(parts.hostname or parts.scheme == "file")


def _is_path(text: str) -> bool:
    try:
        return bool(text.strip()) and bool(Path(text).expanduser())
    except RuntimeError:  # `~name/x` without a user of that name
        return False


def _is_words(text: str) -> bool:
    try:
        shlex.split(text)
    except ValueError:
        return False
    return True


def _find_values(text: str, flags: Iterable[str], bare: Iterable[str] = ()) -> list[str] | None:
    """Return the values of flags: `-p 1:1`, `-p1:1` or `--publish=1:1`; None for other words."""
    short, *long = flags
    kind_values = []
    words = iter(shlex.split(text)) if _is_words(text) else iter(("?",))
    for word in words:
        name, equals, value = word.partition("=")
        if word == short or word in long:
            kind_values.append(next(words, ""))
        elif equals and name in long:
            kind_values.append(value)
        elif word.startswith(short) and not word.startswith("--") and len(word) > len(short):
            kind_values.append(word[len(short) :].removeprefix("="))
        elif word not in bare:
            return None
    return kind_values


_PORT = r"\d{1,5}(?:-\d{1,5})?"
_PORTS = re.compile(
    rf"(?:(?:[\d.]+|\[[\da-fA-F:]+\]):)?(?:(?:{_PORT})?:)?{_PORT}(?:/(?:tcp|udp|sctp))?"
)


def _is_ports(text: str) -> bool:
    values = _find_values(text, ("-p", "--publish"), ("-P", "--publish-all"))
    return values is not None and all(
        _PORTS.fullmatch(value) and max(map(int, re.findall(r"\d{4,}", value) or ["0"])) < 65536
        for value in values
    )


def _is_volumes(text: str) -> bool:
    mounts = _find_values(text, ("-v", "--volume", "--mount"))
    return mounts is not None and all("=" in value or _is_volume(value) for value in mounts)


def _is_volume(text: str) -> bool:
    """Return whether it is `SOURCE:/TARGET[:options]`, or `/TARGET` alone."""
    source, colon, target = re.sub(r"^[A-Za-z]:\\", r"/\\", text).partition(":")
    return target.startswith("/") and bool(source) if colon else source.startswith("/")


def _is_mount(text: str) -> bool:
    """Return whether it is a directory, such as `.`, or SOURCE:/TARGET[:ro]."""
    if ":" not in text:
        return bool(text.strip()) and "\0" not in text
    return bool(re.fullmatch(r"(?:[A-Za-z]:)?[^:]+:/[^:]*(?::(?:ro|rw))?", text, re.DOTALL))


_PACKAGE = r"[A-Za-z0-9][\w.-]*==[\w.+!-]+(?: --hash=sha256:[0-9a-f]{64})+"
_is_packages = _matches(rf"{_PACKAGE}(?: {_PACKAGE})*")


def _is_ranks(text: str) -> bool:
    """Return whether it is `all`, or ranks and rising ranges: `0,3`, `0-3`."""
    parts = [re.fullmatch(r"\s*(\d{1,7})(?:-(\d{1,7}))?\s*", part) for part in text.split(",")]
    return text == "all" or all(
        part and int(part[1]) <= int(part[2] or part[1]) < MOST_RANKS for part in parts
    )


def _is_scheduler(text: str) -> bool:
    match = re.fullmatch(r"(?:(?:tcp|tls|ucx|ws|wss)://)?(?:[\w.-]+|\[[\da-fA-F:]+\]):(\d+)", text)
    return bool(match) and 0 < int(match[1]) < 65536 if match else False


_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[\da-fA-F:]+\])(?::\d{1,5})?"
_REPOSITORY = (
    r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*"
)
_TAG = r"[A-Za-z0-9_][\w.-]{0,127}"
_DNS = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
_PRINTED = r"[^\x00-\x1f\x7f]"
_HOST_PATTERN = r"(?!\S*://)[A-Za-z0-9.*\[:_-][\w.*\[\]:/-]*"
_LABEL_KEY = r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?"
_LABEL_VALUE = r"(?:[A-Za-z0-9][\w.-]*)?"
_PAIR = rf"\s*{_LABEL_KEY}\s*=\s*{_LABEL_VALUE}\s*"
_TOLERATION = (
    rf"\s*{_LABEL_KEY}(?:={_LABEL_VALUE})?(?::(?:NoSchedule|PreferNoSchedule|NoExecute))?\s*"
)
"""Labels as in kubernetes.io/docs, "Labels and Selectors": PREFIX/NAME, and a value or none."""

KINDS: Mapping[str, Kind] = {
    "str": Kind(lambda text: True, "any text"),
    "bool": Kind(lambda text: text.lower() in {"true", "false"}, "true or false"),
    "choice": Kind(lambda text: True, "one of the listed"),
    "words": Kind(_is_words, "words as in a shell, and close the quote"),
    "size": Kind(_matches(r"(?=.*[1-9])\d+(?:\.\d+)? ?(?:[bkmgtBKMGT]|[kmgtKMGT]i?[bB])?"), "a size: 512m, 1g"),
    "seconds": Kind(_matches(r"\d{1,9}"), "a number of seconds: 600"),
    "count": Kind(_matches(r"\d{1,9}"), "a number: 0, 1, 2, …"),
    "number": Kind(_is_number, "a number: 0, 2.5"),
    "percent": Kind(lambda text: _is_number(text.removesuffix("%")), "a percentage: 5%"),
    "ports": Kind(_is_ports, "ports as in -p 8080:8080"),
    "volumes": Kind(_is_volumes, "volumes as in -v /data:/data"),
    "mount": Kind(_is_mount, "SOURCE:/TARGET[:ro], or a directory"),
    "variable": Kind(_matches(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*(?:=(?s:.*))?"), "NAME or NAME=value, with a NAME of letters, digits, _ . -"),
    "registry": Kind(_matches(rf"\s*{_HOST}(?:/{_REPOSITORY})?/?\s*"), "HOST[:PORT][/PATH] without https://"),
    "image": Kind(_matches(_REPOSITORY), "a name in small letters: gpu-profile, team/gpu-profile"),
    "address": Kind(_matches(r"[A-Za-z0-9./\[][^\s'\"`;|<>$\\]*"), "an image's address: debian:13, nvidia/cuda@sha256:…"),
    "tag": Kind(_matches(_TAG), "a tag: latest, 1.2"),
    "version": Kind(_matches(r"[A-Za-z0-9][\w.+~/:-]*"), "a version: 2026.4.1, v2.6"),
    "url": Kind(_is_url, "a URL or directory: https://host/path, /src/nccl"),
    "proxy": Kind(lambda text: _is_url(text) or bool(re.fullmatch(rf"(?:[^\s@/]+@)?{_HOST}/?", text)), "http://host:3128"),
    "path": Kind(_is_path, "a path: /data/runs, ~/runs"),
    "json": Kind(_is_json_object, 'a JSON object: {"nodeAffinity": {…}}'),
    "commit": Kind(_matches(r"[0-9a-fA-F]{40}(?:[0-9a-fA-F]{24})?"), "a commit's 40 hexadecimal digits"),
    "sha256": Kind(_matches(r"[0-9a-fA-F]{64}"), "a checksum's 64 hexadecimal digits"),
    "packages": Kind(_is_packages, "NAME==VERSION --hash=sha256:…, as `invoke lock` writes them"),
    "fingerprint": Kind(_matches(r"(?:[0-9a-fA-F]{4} *){10}"), "a fingerprint's 40 hexadecimal digits"),
    "name": Kind(_matches(r"[A-Za-z0-9][\w.:-]*"), "a name: letters, digits, . _ -"),
    "names": Kind(_matches(r"[A-Za-z0-9][\w.,:/@+ -]*"), "names: letters, digits, . _ - / +"),
    "label": Kind(_matches(_DNS), "a DNS label: small letters, digits and -"),
    "injected-name": Kind(
        # A dot after the rank's would end the host's part: what follows is the window's number.
        _matches(r"rank%q\{RANK\}\.(?:[\w-]|%h|%q\{\w+\}|\{(?:PROCESS_NAME|TIMESTAMP|UID)\}|%\{(?:POD_FULLNAME|CONTAINER_NAME)\})+"),
        "a name of NVIDIA's and nsys' placeholders, joined by _: rank%q{RANK}.%{POD_FULLNAME}_{UID}",
    ),
    "report-place": Kind(
        _matches(rf"pvc:{_DNS}:/.*|hostpath:/.+|s3://[a-z0-9].*"),
        "pvc:NAME:/path, hostpath:/tmp or s3://bucket/prefix",
    ),
    "login": Kind(_matches(r"(?:[^\s@'\"`;|$-][^\s@'\"`;|$]*@)?[^\s@'\"`;|$-][^\s@'\"`;|$]*"), "user@address"),
    "user": Kind(_matches(r"auto|\d{1,9}"), "a user id: 0, 1000, or auto"),
    "slurm-time": Kind(_matches(r"(?:\d+-)?\d+(?::\d+){0,2}|(?i:unlimited|infinite)"), "minutes, HH:MM:SS or D-HH:MM:SS"),
    "archs": Kind(_matches(r"\d{2,3}[af]?(?:[, ;]+\d{2,3}[af]?)*"), "numbers of architectures: 80,90,100"),
    "region": Kind(_matches(r"[a-z]{2,}(?:-[a-z0-9]+)+"), "a region: us-west-2"),
    "instance": Kind(_matches(r"[a-z0-9-]+\.[a-z0-9-]+"), "an instance type: p5.48xlarge"),
    "ranks": Kind(_is_ranks, f"all, 0,3 or 0-3, below {MOST_RANKS}"),
    "scheduler": Kind(_is_scheduler, "an address with its port: tcp://host:8786"),
    "bytes": Kind(_matches(r"0*[1-9]\d{0,15}(?:[KMGTkmgt](?:[iI]?[bB])?)?"), "a size: 64K, 32M, 1G"),
    "interval": Kind(_matches(r"\d+(?:\.\d+)?(?:ns|us|ms|s)?:\d+(?:\.\d+)?(?:ns|us|ms|s)?"), "START:END, in ns or with a unit: 1.5s:1510ms"),
    "run-name": Kind(_matches(rf"{_PRINTED}*[A-Za-z0-9]{_PRINTED}*"), "letters and digits: train-2"),
    "directory": Kind(_matches(rf"(?!-)(?=.*\S){_PRINTED}+"), "a directory: /data/run, ~/run, run"),
    "absolute-path": Kind(_matches(rf"/{_PRINTED}*"), "an absolute path: /shared/runs"),
    "hosts": Kind(_matches(rf"\s*{_HOST_PATTERN}(?:[, ]+{_HOST_PATTERN})*[, ]*"), "hosts, domains or networks: localhost,.example.org,10.0.0.0/8"),
    "selector": Kind(_matches(rf"{_PAIR}(?:,{_PAIR})*,?"), "key=value,…: zone=a,pool=gpu"),
    "tolerations": Kind(_matches(rf"{_TOLERATION}(?:,{_TOLERATION})*,?"), "key[=value][:effect],… with an effect of NoSchedule, PreferNoSchedule, NoExecute"),
    "colour": Kind(_matches(r"(?:0x|#)[0-9A-Fa-f]{6}"), "0xRRGGBB, as in 0x76B900"),
}  # fmt: skip
