"""How many threads read a report: a process alone uses the cores there are, of many each one."""

import os

COUNT = min(8, os.cpu_count() or 1)


def restrict_to_share(processes: int) -> None:
    """Take this process's part of the cores."""
    global COUNT
    COUNT = max(1, min(8, (os.cpu_count() or 1) // processes))
