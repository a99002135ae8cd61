#!/usr/bin/env python3
"""Send parts of a pod's reports to URLs that another machine has signed.

    upload_parts.py DIR

Standard input has {"ca": PEM, "parts": [{"file", "offset", "size", "url"}]}, standard output gets
{"etags": […]}, in the same order. A URL is a secret: whoever has it may write there for an hour. It
is printed nowhere. Exits with 3 and one line where a part did not arrive. Python 3.8, stdlib only.
"""

from __future__ import annotations

import json
import os
import ssl
import stat
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TRIES, _PAUSE_S, _SILENCE_S = 4, 1.0, 60.0


class RefusedError(Exception):
    """Why a part was not sent, without its URL."""


class Part:
    """A part of an open file, which urllib reads like a file."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._file.read(wanted)
        self._left -= len(data)
        return data


def open_report(directory: str, name: str) -> IO[bytes]:
    """Open a regular file of the directory. Raises RefusedError for a link or another name."""
    path = Path(directory) / Path(name).name
    # O_NONBLOCK: to open a FIFO would wait for a writer.
    file = os.fdopen(os.open(str(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise RefusedError(f"{name} is not a regular file")
    return file


def send(opener: urllib.request.OpenerDirector, directory: str, part: Mapping[str, Any]) -> str:
    """Send one part and return its ETag."""
    with open_report(directory, part["file"]) as file:
        file.seek(part["offset"])
        length = {"Content-Length": str(part["size"]), "Content-Type": "application/octet-stream"}
        body: Any = Part(file, part["size"])
        request = urllib.request.Request(part["url"], data=body, headers=length, method="PUT")
        with opener.open(request, timeout=_SILENCE_S) as answer:
            return str(answer.headers["ETag"])


def send_patiently(
    opener: urllib.request.OpenerDirector, directory: str, part: Mapping[str, Any]
) -> str:
    """Send one part, again where the connection was cut or S3 asks for patience."""
    for tries_left in reversed(range(_TRIES)):
        try:
            return send(opener, directory, part)
        except urllib.error.HTTPError as error:
            # S3 answers 503 (SlowDown) to many parts at once; a 4xx, such as an expired URL, stays.
            why, is_final = f"the bucket answers {error.code} {error.reason}", error.code < 500
        except urllib.error.URLError as error:
            # A certificate that does not fit now will not fit in a second.
            why, is_final = str(error.reason), isinstance(error.reason, ssl.SSLError)
        except OSError as error:
            why, is_final = error.strerror or str(error), False
        if is_final or not tries_left:
            break
        time.sleep(_PAUSE_S)
    raise RefusedError(f"{part['file']}: {why}")


def main(argv: Sequence[str]) -> int:
    request = json.load(sys.stdin)
    context = ssl.create_default_context()
    if request["ca"]:  # an image without certificates of its own
        context.load_verify_locations(cadata=request["ca"])
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))
    try:
        etags = [send_patiently(opener, argv[0], part) for part in request["parts"]]
    except RefusedError as error:
        print(error, file=sys.stderr)
        return 3
    print(json.dumps({"etags": etags}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
