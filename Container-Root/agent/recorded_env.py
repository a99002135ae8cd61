"""Mask environment variables in what nsys recorded. Python 3.8, stdlib only.

An nsys without --discard-environment (2023.4) reads /proc/PID/environ of every process of the
machine that it may read, before and during the recording, and keeps the text: of the program and
its children, of our own parents, and of programs that have nothing to do with the job. A program
that is started with a clean environment and gets the rest later is read again as soon as it
forks. So the program gets its whole environment, and the recording (.qdstrm) is masked: each
value is overwritten by as many asterisks before QdstrmImporter makes the report of it.
"""

from __future__ import annotations

import mmap
import os
import re
from typing import IO, TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

DISCARDING = "--discard-environment=true"
# Without this, nsys compresses its stream with LZ4, and no text can be overwritten in place.
_DIRECTIVES, _PLAIN_STREAM = "NSYS_CONFIG_DIRECTIVES", "UseLZ4=false"
_NODES, _NO_FLUSH = "--cuda-graph-trace=node", "--flush-on-cudaprofilerstop=false"
_NO_CALLBACKS = tuple(
    f"CUPTIDisable{what}Callbacks=true"
    for what in ("Graph", "ProfilerControl", "DeviceReset", "ThreadExit")
)
_EDGE_BYTES = 8 << 20  # the environments lie within 8 MiB of either end, the events between
_SHORTEST_SECRET = 8  # a shorter value would also match unrelated bytes
_LONGEST = 1 << 20  # Linux refuses a variable of more than 128 KiB
_RANK = re.compile(
    rb"(?:OMPI_COMM_WORLD_|PMI_|PMIX_|LOCAL_|GROUP_|NODE_)?RANK|SLURM_(?:PROCID|LOCALID|NODEID"
    rb"|NTASKS)|(?:OMPI_COMM_WORLD_|PMI_|LOCAL_WORLD_|WORLD_)SIZE|OMPI_COMM_WORLD_LOCAL_(?:RANK|SIZE)"
)
"""Kept where they are numbers: a report's rank is read from them."""
_SECRET_NAME = re.compile(
    r"TOKEN(?!IZ)|SECRET|PASSW|PASSPHRASE|CREDENTIAL|(?:API|ACCESS|PRIVATE)_?KEY|WEBHOOK|COOKIE"
    r"|(?:^|_)(?:PASS|PW|AUTH|AUTHORIZATION|CREDS|JWT|PAT|DSN|KEY)(?:_|$)",
    re.IGNORECASE,
)
"""The names that gpu_profile.redact takes for secrets; a test holds both equal."""
SECRET_VALUE = re.compile(
    r"\b(?:AKIA|ASIA|gh[opusr]_|hf_|sk-|glpat-|xox|eyJ)[\w-]{8,}|://[^/\s]*:[^/\s]*@"
)
_LENGTH = rb"([\x80-\xff]{0,3}[\x00-\x7f])"
_NAME = rb"[^\x00-\x20=\x7f-\xff]{1,256}"
_PROCESS_ENTRY = re.compile(rb"J" + _LENGTH + rb"(" + _NAME + rb")=")
"""`NAME=value` after its length, field 9 of what nsys keeps of a process."""
_LAUNCH_ENTRY = re.compile(rb"\n([\x01-\x7f])(" + _NAME + rb")\x12" + _LENGTH)
"""Name and value of the launched program's variable, each after its length."""


class Value(NamedTuple):
    """The position of a variable's value in a stream, in bytes."""

    name: bytes
    start: int
    end: int


def plain_stream(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that makes nsys write its stream uncompressed."""
    return _add_directives(environ, _PLAIN_STREAM)


def without_callbacks(environ: Mapping[str, str], options: Sequence[str]) -> dict[str, str]:
    """Return the environment of an armed nsys that no call of the program calls back.

    The launcher asks for it by --flush-on-cudaprofilerstop=false, beside the nodes of graphs. A
    callback that is enabled, even of a call that never comes, makes each launch of a kernel slower
    (docs/existing-jobs.md).
    """
    is_by_nodes = any(option.startswith(_NODES) for option in options)
    texts = _NO_CALLBACKS if is_by_nodes and _NO_FLUSH in options else ()
    return _add_directives(environ, *texts)


def _add_directives(environ: Mapping[str, str], *texts: str) -> dict[str, str]:
    if not texts:
        return dict(environ)
    return {**environ, _DIRECTIVES: ";".join(filter(None, (environ.get(_DIRECTIVES, ""), *texts)))}


def secret_names(environ: Mapping[str, str]) -> list[str]:
    """Return the variables that look like credentials by name or value: `HF_TOKEN`, `DB_PASS`."""
    return sorted(
        name
        for name, value in environ.items()
        if value and (_SECRET_NAME.search(name) or SECRET_VALUE.search(value))
    )


def mask_stream(file: IO[bytes], environ: Mapping[str, str]) -> int:
    """Overwrite the values of environment variables in a recording; return how many there were.

    `environ` is the environment of this process. Its credentials are masked everywhere in the
    stream, also in the arguments of a child process.
    """
    if not os.fstat(file.fileno()).st_size:
        return 0
    with mmap.mmap(file.fileno(), 0) as data:
        values = list(_find_values(data, environ))
        for value in values:
            data[value.start : value.end] = b"*" * (value.end - value.start)
    return len(values)


def _find_values(data: mmap.mmap, environ: Mapping[str, str]) -> Iterator[Value]:
    variables = {os.fsencode(name): os.fsencode(value) for name, value in environ.items()}
    of_processes = list(_process_values(data, variables))
    names = {*variables, *(value.name for value in of_processes)}
    for value in (*of_processes, *_launch_values(data, names), *_own_values(data, variables)):
        text = data[value.start : value.end]
        if not (_RANK.fullmatch(value.name) and text.isdigit()):
            yield value
    for name in secret_names(environ):
        secret = os.fsencode(environ[name])
        if len(secret) >= _SHORTEST_SECRET:
            yield from _occurrences(data, os.fsencode(name), secret, len(data))


def _process_values(data: mmap.mmap, variables: Mapping[bytes, bytes]) -> Iterator[Value]:
    """Yield the values in runs of `NAME=value` entries, one run for each process that nsys saw.

    A single entry whose length fits is skipped unless we have such a variable: it may be part of
    an event.
    """
    at = 0
    while True:
        first = _PROCESS_ENTRY.search(data, at)
        if first is None:
            return
        run = list(_entries(data, first.start()))
        if len(run) > 1 or any(value.name in variables for value in run):
            yield from run
        at = run[-1].end if run else first.start() + 1


def _entries(data: mmap.mmap, at: int) -> Iterator[Value]:
    entry = _PROCESS_ENTRY.match(data, at)
    while entry:
        end = entry.start(2) + _number(entry[1])
        if not entry.end() <= end <= len(data):
            return
        yield Value(entry[2], entry.end(), end)
        entry = _PROCESS_ENTRY.match(data, end)


def _launch_values(data: mmap.mmap, names: set[bytes]) -> Iterator[Value]:
    """Yield the launched program's variables: pairs of name and value whose lengths all agree.

    They lie in the first or last 8 MiB of the stream, before and after the events.
    """
    for at in {0, max(0, len(data) - _EDGE_BYTES)}:
        for entry in _LAUNCH_ENTRY.finditer(data, at, at + _EDGE_BYTES):
            length = _number(entry[3])
            if entry[2] not in names or entry[1][0] != len(entry[2]) or length >= _LONGEST:
                continue
            head = _varint(2 + len(entry[2]) + 1 + len(entry[3]) + length)
            if data[max(0, entry.start() - len(head)) : entry.start()] == head:
                yield Value(entry[2], entry.end(), entry.end() + length)


def _own_values(data: mmap.mmap, variables: Mapping[bytes, bytes]) -> Iterator[Value]:
    """Yield the values of nsys' own environment, which is text: `NAME=value` up to a zero byte."""
    end = min(len(data), _EDGE_BYTES)
    for name, text in variables.items():
        if text:
            for value in _occurrences(data, name, name + b"=" + text, end):
                yield value._replace(start=value.end - len(text))


def _occurrences(data: mmap.mmap, name: bytes, text: bytes, end: int) -> Iterator[Value]:
    at = data.find(text, 0, end)
    while at >= 0:
        yield Value(name, at, at + len(text))
        at = data.find(text, at + len(text), end)


def _number(varint: bytes) -> int:
    """Return the integer of a protobuf varint: seven bits a byte, the lowest first."""
    return sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(varint))


def _varint(number: int) -> bytes:
    """Return a number below 2,097,152 as a protobuf varint: 300 is AC 02."""
    places = [number & 0x7F, number >> 7 & 0x7F, number >> 14]
    while len(places) > 1 and not places[-1]:
        places.pop()
    return bytes([*(place | 0x80 for place in places[:-1]), places[-1]])
