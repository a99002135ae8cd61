"""The process from which the workers that read reports are forked.

Without numpy and our other modules, because a verb starts the server before it imports those.
"""

from multiprocessing import forkserver, get_all_start_methods, get_context
from multiprocessing.context import BaseContext

_FORKSERVER = "forkserver"
_PRELOADED = ["gpu_profile.analysis.multi_report.survey", "gpu_profile.analysis.page"]


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
    return context


def prepare_workers() -> None:
    """Start the server early: it loads our modules while this process loads them too (0.3 s)."""
    if make_worker_context().get_start_method() == _FORKSERVER:
        forkserver.ensure_running()
