"""The line that says that there are no marks. Python 3.8, stdlib only."""

from __future__ import annotations

import sys


def print_failure(error: BaseException) -> None:
    words = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    print(f"gpu-profile: marks are off, the job goes on: {words}", file=sys.stderr)
