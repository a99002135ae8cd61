"""Have a pod send its reports to a bucket, by URLs that this machine signs when they exist."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from gpu_profile.carrier import CARRIED_TO
from gpu_profile.command import Command, Steps, make_command
from gpu_profile.errors import GpuProfileError
from gpu_profile.s3 import bucket
from gpu_profile.s3.parts import Part, split_parts
from gpu_profile.signals import HungUp

_AT_ONCE = 100
"""Parts that are signed together: 6.4 GB, which a slow pod sends before their hour is over."""
# The carried Python speaks no TLS; the image's own may.
_SEND = f"""for python in python3 {CARRIED_TO}/carrier/bin/python3; do
  "$python" -E -c 'import ssl' 2>/dev/null &&
    exec "$python" -E {CARRIED_TO}/agent/upload_parts.py "$1"
done
echo 'no Python with TLS is in this pod' >&2
exit 3"""
Execute: TypeAlias = Callable[..., Command]
"""`execute("ls", stdin="")` is the command that runs a program in a pod."""


def call_bucket(verb: str, address: str, *words: str, request: object = None) -> Command:
    """Return the call of s3/bucket.py. What is secret in `request` goes by standard input."""
    stdin = "" if request is None else json.dumps(request)
    return make_command(
        sys.executable, str(Path(bucket.__file__)), verb, address, *words, stdin=stdin
    )


def send_files(
    execute: Execute, directory: str, sizes: Mapping[str, int], address: str
) -> Steps[Mapping[str, str]]:
    """Have a pod send files of its directory to a bucket. Returns why some did not, by name."""
    problems = {}
    for name, size in sizes.items():
        problem = yield from _send_file(execute, directory, name, size, f"{address}/{name}")
        if problem:
            problems[name] = problem
    return problems


def _send_file(execute: Execute, directory: str, name: str, size: int, address: str) -> Steps[str]:
    """Return why a file did not arrive, or "". What S3 has of an incomplete one is given up."""
    upload = _Upload(execute, directory, name, address)
    try:
        problem = yield from upload.send(split_parts(size))
    except (GpuProfileError, KeyboardInterrupt, HungUp):
        yield from upload.abort()
        raise
    if problem:
        yield from upload.abort()
    return problem


class _Upload:
    """One file on its way. `id` is empty while no upload of several parts has begun."""

    def __init__(self, execute: Execute, directory: str, name: str, address: str) -> None:
        self.execute, self.directory, self.name = execute, directory, name
        self.address = address
        self.id = ""
        self.etags: list[str] = []

    def send(self, parts: Sequence[Part]) -> Steps[str]:
        for batch in _split(parts):
            request = {
                "numbers": [part.number for part in batch],
                "several": len(parts) > 1,
                "upload": self.id,
            }
            signed = yield call_bucket("sign", self.address, request=request)
            if signed.returncode:
                return signed.last_line
            answer = json.loads(signed.stdout)
            self.id = answer["upload"]
            problem = yield from self._send_batch(batch, answer["urls"], answer["ca"])
            if problem:
                return problem
        if not self.id:
            return ""
        request = {"upload": self.id, "etags": self.etags}
        completed = yield call_bucket("complete", self.address, request=request)
        return completed.last_line if completed.returncode else ""

    def _send_batch(self, batch: Sequence[Part], urls: Sequence[str], ca: str) -> Steps[str]:
        parts = [
            {"file": self.name, "offset": part.offset, "size": part.size, "url": url}
            for part, url in zip(batch, urls, strict=True)
        ]
        stdin = json.dumps({"ca": ca, "parts": parts})
        words = ("sh", "-c", _SEND, "gpu-profile", self.directory)
        sent = yield self.execute(*words, stdin=stdin)
        if sent.returncode:
            return sent.last_line
        self.etags += _read_etags(sent.stdout)
        if len(self.etags) < batch[-1].number:
            return "the pod's answer is damaged"
        return ""

    def abort(self) -> Steps[None]:
        if self.id:
            yield call_bucket("abort", self.address, request={"upload": self.id})


def _split(parts: Sequence[Part]) -> Iterator[Sequence[Part]]:
    for first in range(0, len(parts), _AT_ONCE):
        yield parts[first : first + _AT_ONCE]


def _read_etags(text: str) -> list[str]:
    """Return the ETags of the pod's answer, beside which kubectl may print a warning."""
    for line in text.splitlines():
        try:
            return [str(tag) for tag in json.loads(line)["etags"]]
        except (ValueError, KeyError, TypeError):
            continue
    return []


def put_files(folder: Path, names: Sequence[str], address: str) -> Steps[Mapping[str, str]]:
    """Send files of this machine to a bucket. Returns why some did not arrive, by name."""
    problems = {}
    for name in names:
        sent = yield call_bucket("put", f"{address}/{name}", f"{folder}/{name}")
        if sent.returncode:
            problems[name] = sent.last_line
    return problems
