"""The process from which the workers that read reports are forked.

Without numpy and our other modules, because the server starts before this process imports those.
"""

import signal
from multiprocessing import forkserver, get_all_start_methods, get_context, resource_tracker
from multiprocessing.context import BaseContext

_FORKSERVER = "forkserver"
_PRELOADED = [
    "gpu_profile.analysis.multi_report.survey",
    "gpu_profile.analysis.page",
    "numpy.ma",  # of np.unique: each worker would load it, in 0.05 s
]


def make_worker_context() -> BaseContext:
    """Workers are forked from a server process that has loaded our modules, so they start at once.

    A fork of this process could inherit a lock that another thread holds:
    https://docs.python.org/3/library/multiprocessing.html#contexts-and-start-methods
    Windows has no forkserver, so it uses spawn.
    """
    if _FORKSERVER not in get_all_start_methods():
        return get_context("spawn")
    context = get_context(_FORKSERVER)
    context.set_forkserver_preload(_PRELOADED)
    _start_server()
    return context


def _start_server() -> None:
    """Start the server, if it does not run, with SIGINT blocked: it inherits that.

    Ctrl-C on a terminal reaches it and the workers too, which would print tracebacks.
    """
    resource_tracker.ensure_running()  # the server's first step, which unblocks SIGINT
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def prepare_workers() -> None:
    """Start the server early: it loads our modules while this process loads them too (0.3 s)."""
    make_worker_context()
