"""The number of threads that read a report: all cores (at most 8), divided by the worker
processes.
"""

import os

COUNT = min(8, os.cpu_count() or 1)


def restrict_to_share(processes: int) -> None:
    """Set COUNT for one of `processes` worker processes: 8 cores and 4 processes give 2 threads
    each.
    """
    global COUNT
    COUNT = max(1, min(8, (os.cpu_count() or 1) // processes))
