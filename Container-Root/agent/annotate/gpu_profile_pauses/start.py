"""Start the marks of pauses in a process. Python 3.8, stdlib only."""

from __future__ import annotations

import atexit
import os
import sys

from gpu_profile_marks.ending import AT_END
from gpu_profile_marks.import_hook import call_after_import
from gpu_profile_marks.ranges import Ranges

from gpu_profile_pauses.compilations import COMPILER, mark_compilations
from gpu_profile_pauses.garbage import GarbageMarks
from gpu_profile_pauses.pause_marks import PauseMarks
from gpu_profile_pauses.sampler import Sampler

_started: list[Sampler] = []


def start_pauses() -> None:
    """Mark garbage collections, compilations, and where each Python thread is; once a process."""
    if _started or Ranges.domain is None:
        return
    marks = PauseMarks(Ranges.domain)
    sampler = Sampler(marks)
    _started.append(sampler)
    GarbageMarks(marks).register()
    if COMPILER in sys.modules:
        mark_compilations(sys.modules[COMPILER], marks)
    else:
        call_after_import({COMPILER}, lambda module: mark_compilations(module, marks))
    # Without a lock of the interpreter other threads' frames change while they are read.
    if getattr(sys, "_is_gil_enabled", lambda: True)():
        sampler.start()
        AT_END.append(sampler.stop)
        atexit.register(_stop, sampler, os.getpid())
        if sys.version_info >= (3, 12):  # whose fork warns where a process has a second thread
            os.register_at_fork(before=sampler.before_fork, after_in_parent=sampler.after_fork)


def _stop(sampler: Sampler, process: int) -> None:
    if os.getpid() == process:
        sampler.stop()
