"""What the hosts of late ranks did: slow launches, or nothing for a long while."""

from collections.abc import Iterator

import numpy as np

from gpu_profile.analysis.activity.idle import LAUNCH, STALL
from gpu_profile.analysis.findings.arrivals import Suspects
from gpu_profile.analysis.findings.finding import Share, format_ranks
from gpu_profile.analysis.findings.idle_time import (
    IDLE_SHARE,
    PARTIAL_SHARE,
    list_places,
    waits_for_data,
)
from gpu_profile.analysis.findings.view import RankView

# Idle time of less than a quarter of the delay does not explain it.
SHOWN_PART = 0.25
# Ranks of one program differ by some kernels in a step: for logs, or the first and last stage.
LEAST_MORE_KERNELS = 1.1


def is_late_by_silence(suspects: Suspects, gain: float) -> bool:
    """Whether the late ranks' hosts issue nothing for longer than the others' by half of the delay.

    Otherwise they are not late by their loader: a rank that launches more kernels, for example.
    Without steps it is not known, and true.
    """
    late = float(np.mean([view.silent_ms for view in suspects.late]))
    usual = float(np.median([view.silent_ms for view in suspects.others]))
    return late - usual >= gain / 2 or not all(view.has_steps for view in suspects.late)


def list_shares(suspects: Suspects, gain: float) -> tuple[Share, ...]:
    """Which parts of the late ranks' idle time are the delay that others wait for.

    It is what their hosts need longer than the others': for launches, and without any. The rest is
    idle time that faster launches on all ranks would save, for example.
    """
    late, others = suspects.late, suspects.others
    silent = _measure_more([v.silent_ms for v in late], [v.silent_ms for v in others], gain)
    issuing = _measure_more(
        [v.host_ms - v.silent_ms for v in late], [v.host_ms - v.silent_ms for v in others], gain
    )
    if not all(view.has_steps for view in (*late, *others)):
        silent = issuing = gain
    least = PARTIAL_SHARE * float(np.mean([view.step_ms for view in late]))
    return (
        Share("host_bound", "launch", issuing, least),
        *(Share("idle", cause, silent, least) for cause in ("data", "host")),
    )


def _measure_more(late: list[float], others: list[float], most: float) -> float:
    """By how much the late ranks' mean exceeds the others' median, from 0 to `most`."""
    return min(max(float(np.mean(late)) - float(np.median(others)), 0.0), most)


def list_host_work(suspects: Suspects, gain: float, late_by_silence: bool) -> Iterator[str]:
    """Evidence what the late ranks' hosts did while their GPUs idled, and whether the other hosts
    are slow, too.

    `gain` is the delay in ms a step; `late_by_silence` as is_late_by_silence() says.
    """
    for view in suspects.late:
        yield from _list_slow_launches(view, gain)
        yield from _list_stalls(view, gain, late_by_silence)
    yield from _list_slow_hosts(suspects.others)


def launches_more(suspects: Suspects, gain: float) -> bool:
    """Whether the late ranks launch so many more kernels that these explain half of the delay.

    A host that is slower than its GPU is late by a larger batch or more layers, too: with the time
    of the others' launches, 85 % more kernels take 85 % longer.
    """
    late, others = (
        float(np.median([view.mean(view.common.kernel_count) for view in side]))
        for side in (suspects.late, suspects.others)
    )
    if not others or late < LEAST_MORE_KERNELS * others:
        return False
    issuing = float(np.median([view.host_ms - view.silent_ms for view in suspects.others]))
    return issuing * (late / others - 1) >= gain / 2


def _list_slow_launches(view: RankView, gain: float) -> Iterator[str]:
    slow = view.ms("idle_launch")
    if slow >= SHOWN_PART * gain:
        yield f"rank {view.rank}: idle {slow:.2f} ms a step while its host issued work too slowly"
        yield from list_places([view], LAUNCH)


def _list_stalls(view: RankView, gain: float, late_by_silence: bool) -> Iterator[str]:
    silent = view.whole_ms("idle_stall")
    if silent < SHOWN_PART * gain:
        return
    loads = late_by_silence and (waits_for_data(view) or ends_with_input(view))
    like = ", as a rank that waits for its data loader" if loads else ""
    yield f"rank {view.rank}: idle {silent:.2f} ms a step while its host issued nothing{like}"
    yield from list_places([view], STALL)


def ends_with_input(view: RankView) -> bool:
    """Whether most of the rank's longer idle gaps end with a copy to the GPU, as of a new batch."""
    work = view.common.idle.host_work.get(STALL)
    return bool(work and work.before_input)


def _list_slow_hosts(others: tuple[RankView, ...]) -> tuple[str, ...]:
    """Evidence that the other ranks' hosts would be late, too, if no rank came late."""
    host = float(np.median([view.host_ms for view in others]))
    work = float(np.median([view.mean(view.states.times["busy"]) / 1e6 for view in others]))
    work -= float(np.median([view.ms("wait") for view in others]))
    if host - work < IDLE_SHARE * float(np.median([view.step_ms for view in others])):
        return ()
    ranks = format_ranks(view.rank for view in others)
    return (
        f"{ranks}: the host, too, takes {host:.2f} ms for the {work:.2f} ms of GPU work a step",
    )
