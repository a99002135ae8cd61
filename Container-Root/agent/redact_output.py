"""Copy a job's output and replace credentials by `***`. Python 3.8, stdlib only."""

from __future__ import annotations

import os
import re
from typing import IO, TYPE_CHECKING

from recorded_env import SECRET_VALUE, secret_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_HIDDEN = b"***"
_SHORTEST = 6  # a shorter value would occur inside ordinary words
_LONGEST_LINE = 1 << 16  # a longer line is copied in pieces
_SHAPE = re.compile(SECRET_VALUE.pattern.encode())


def credential_remover(environ: Mapping[str, str]) -> Callable[[bytes], bytes]:
    """Return a function that writes `***` for values of variables like HF_TOKEN, and for ghp_…."""
    values = {os.fsencode(environ[name]) for name in secret_names(environ)}
    ordered = sorted((v for v in values if len(v) >= _SHORTEST), key=len, reverse=True)
    pattern = re.compile(b"|".join([*map(re.escape, ordered), _SHAPE.pattern]))
    return lambda text: pattern.sub(_HIDDEN, text)


def copy_output(source: IO[bytes], target: IO[bytes], redact: Callable[[bytes], bytes]) -> None:
    """Copy whole lines until the last writer has closed the pipe.

    A credential that is cut in two at the end of a read would not be recognised.
    """
    unwritten = b""
    while True:
        chunk = os.read(source.fileno(), 1 << 16)
        unwritten += chunk
        # A progress bar ends its lines with a carriage return.
        end = max(unwritten.rfind(b"\n"), unwritten.rfind(b"\r")) + 1
        if not chunk or len(unwritten) - end > _LONGEST_LINE:
            end = len(unwritten)
        if end:
            target.write(redact(unwritten[:end]))
            target.flush()
            unwritten = unwritten[end:]
        if not chunk:
            return
