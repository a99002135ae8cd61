"""Names of source files without a user's folders. Python 3.8, stdlib only."""

from __future__ import annotations

import os
import re

_LIBRARY = re.compile(r".*/((?:site|dist)-packages/.+)|.*/lib(?:64)?/python3[^/]*/(.+)")
_START = os.getcwd() if os.path.isdir(os.curdir) else ""  # noqa: PTH109, PTH112 - once a process


def short_place(file: str) -> str:
    """Return `/lib/python3/site-packages/torch/nn/functional.py` for a library's file,
    `/lib/python3/gc.py` for Python's own, and for others the path below the working directory, or
    the name alone.
    """
    library = _LIBRARY.match(file)
    if library is not None:
        file = f"/lib/python3/{library[1] or library[2]}"
    elif _START and file.startswith(_START + os.sep):
        file = file[len(_START) + 1 :]
    elif not file.startswith("<"):
        parts = file.split("/")
        file = "/".join(parts[-2:] if parts[-1] == "__init__.py" else parts[-1:])
    return file.replace('"', "'").replace("|", "/")


def is_library(place: str) -> bool:
    return place.startswith(("/", "<frozen"))
