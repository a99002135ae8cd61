"""Tell from a window where being armed with nsys costs a program more than 2 %."""

from pathlib import Path

_CALL_S = 2.3e-6
"""What an armed nsys 2025.3.1 adds to a launch on an H200 after a window, where CUPTI stays: 2.2
to 2.5 us (docs/existing-jobs.md)."""
_MOST = 0.02
_BUSY = 0.9
"""A GPU that works for more of the time is waited for: the host's time is no step's."""


def describe_armed_cost(report: Path, sqlite: Path) -> str:
    """Return a line on a host that launches often while the GPU has time, "" for others."""
    each_s, busy = measure_launches(sqlite)
    if not each_s or busy > _BUSY or _MOST * each_s > _CALL_S:
        return ""
    return (
        f"{report.name}: a thread launches each {1e6 * each_s:.0f} us, so that the armed nsys costs"
        f" about {_CALL_S / each_s:.0%}; for PyTorch, `profile --with torch` costs less"
    )


def measure_launches(sqlite: Path) -> tuple[float, float]:
    """Return the seconds from launch to launch of the thread with most, and the GPU's busy share.

    0 and 0 without launches.
    """
    # numpy takes 0.1 s, and `record` asks for a window before it reads one.
    import numpy as np

    from gpu_profile.analysis.activity.health import LAUNCH_NAME
    from gpu_profile.analysis.store.database import Database
    from gpu_profile.analysis.store.schema import KERNEL, RUNTIME

    with Database.open(sqlite) as database:
        if not database.has(RUNTIME) or not database.has(KERNEL):
            return 0.0, 0.0
        calls = database.load(
            RUNTIME, "globalTid", "start", only={"nameId": database.ids(LAUNCH_NAME)}
        )
        kernels = database.load(KERNEL, "start", "end")
    if len(calls["start"]) < 2 or not len(kernels["start"]):
        return 0.0, 0.0
    span = int(calls["start"].max() - calls["start"].min())
    launches = int(np.unique(calls["globalTid"], return_counts=True)[1].max())
    busy = int((kernels["end"] - kernels["start"]).sum())
    return span / launches / 1e9, busy / span if span else 1.0
