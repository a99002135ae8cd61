"""Tell which of a window's launches its report has no kernels of."""

from collections.abc import Mapping
from pathlib import Path

from gpu_profile.errors import ReportError

_MOST = 0.01
"""As `diagnose` has it: more of the launches is a loss."""
_HINT = "Use --seconds 5: only a program with marked steps waits for its kernels"


def describe_lost_kernels(report: Path, sqlite: Path, events: Mapping[str, int]) -> str:
    """Return a line on launches without kernels, "" for a whole report.

    Raises ReportError where no work of the GPU is left.
    """
    lost, launches = count_launches(sqlite)
    if lost <= _MOST * launches:
        return ""
    what = f"{report.name} lacks the kernels of {lost} of {launches} launches, which were queued"
    what += " or ran when the window ended"
    if not events.get("cuda"):
        raise ReportError(what, _HINT)
    return f"{what}. {_HINT}"


def count_launches(sqlite: Path) -> tuple[int, int]:
    """Return how many launches have no kernel, and how many there are.

    0 of 0 with CUDA graphs, in which a launch need not have a kernel of its own.
    """
    # numpy takes 0.1 s, and `record` asks for a window before it reads one.
    import numpy as np

    from gpu_profile.analysis.activity.health import CAPTURING_NAME, LAUNCH_NAME
    from gpu_profile.analysis.store.database import Database
    from gpu_profile.analysis.store.schema import KERNEL, RUNTIME

    with Database.open(sqlite) as database:
        captures = {"nameId": database.ids(CAPTURING_NAME)}
        if not database.has(RUNTIME) or len(
            database.load(RUNTIME, "nameId", only=captures)["nameId"]
        ):
            return 0, 0
        launches = {"nameId": database.ids(LAUNCH_NAME)}
        calls = database.load(RUNTIME, "globalTid", "correlationId", only=launches)
        kernels = database.load(KERNEL, "globalPid", "correlationId")
    # A correlation id is unique in its process; the lower 24 bits of globalTid are the thread.
    launches_of_calls = (calls["globalTid"] >> 24 << 32) + calls["correlationId"]
    ran = (kernels["globalPid"] >> 24 << 32) + kernels["correlationId"]
    return int(np.count_nonzero(~np.isin(launches_of_calls, ran))), len(launches_of_calls)
