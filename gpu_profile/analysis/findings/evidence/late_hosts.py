"""What the hosts of late ranks did: slow launches, or nothing for a long while."""

from collections.abc import Iterator

import numpy as np

from gpu_profile.analysis.activity.idle.gaps import LAUNCH, STALL
from gpu_profile.analysis.findings.evidence.arrivals import Suspects
from gpu_profile.analysis.findings.finding import format_ranks
from gpu_profile.analysis.findings.idle_time import list_places, waits_for_data
from gpu_profile.analysis.findings.view import RankView

# Idle time of less than a quarter of the delay does not explain it.
SHOWN_PART = 0.25
SLOW_SHARE = 0.10
"""The part of the step by which a host is slower than its GPU's work."""
# Ranks of one program differ by some kernels in a step: for logs, or the first and last stage.
LEAST_MORE_KERNELS = 1.1


def is_late_by_silence(suspects: Suspects) -> bool:
    """Whether the late ranks' hosts issue nothing for longer than the others' by half of the delay.

    Otherwise they are not late by their loader: a rank that launches more kernels, for example.
    Without steps it is not known, and true.
    """
    late = float(np.mean([view.silent_ms for view in suspects.late_ranks]))
    usual = float(np.median([view.silent_ms for view in suspects.others]))
    return late - usual >= suspects.late_ms / 2 or not all(
        view.has_steps for view in suspects.late_ranks
    )


def list_host_work(suspects: Suspects, late_by_silence: bool) -> Iterator[str]:
    """Evidence what the late ranks' hosts did while their GPUs idled, and whether the other hosts
    are slow, too.

    `late_by_silence`: as is_late_by_silence() says.
    """
    for view in suspects.late_ranks:
        yield from _list_slow_launches(view, suspects.late_ms)
        yield from _list_stalls(view, suspects.late_ms, late_by_silence)
    yield from _list_slow_hosts(suspects.others)


def launches_more(suspects: Suspects) -> bool:
    """Whether the late ranks launch so many more kernels that these explain half of the delay.

    A host that is slower than its GPU is late by a larger batch or more layers, too: with the time
    of the others' launches, 85 % more kernels take 85 % longer.
    """
    late, others = count_kernels(suspects)
    if not others or late < LEAST_MORE_KERNELS * others:
        return False
    issuing = float(np.median([view.host_ms - view.silent_ms for view in suspects.others]))
    return issuing * (late / others - 1) >= suspects.late_ms / 2


def count_kernels(suspects: Suspects) -> tuple[float, float]:
    """The kernels in a step of the late ranks, and of the others."""
    late, others = (
        float(np.median([view.mean(view.common.kernel_count) for view in side]))
        for side in (suspects.late_ranks, suspects.others)
    )
    return late, others


def _list_slow_launches(view: RankView, late_ms: float) -> Iterator[str]:
    slow = view.ms("idle_launch")
    if slow >= SHOWN_PART * late_ms:
        yield f"rank {view.rank}: idle {slow:.2f} ms a step while its host issued work too slowly"
        yield from list_places([view], LAUNCH)


def _list_stalls(view: RankView, late_ms: float, late_by_silence: bool) -> Iterator[str]:
    silent = view.whole_ms("idle_stall")
    if silent < SHOWN_PART * late_ms:
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
    # A GPU is busy while a collective waits, but that is no work that its host must launch.
    work -= float(np.median([view.ms("wait") for view in others]))
    if host - work < SLOW_SHARE * float(np.median([view.step_ms for view in others])):
        return ()
    ranks = format_ranks(view.rank for view in others)
    return (
        f"{ranks}: the host, too, takes {host:.2f} ms for the {work:.2f} ms of GPU work a step",
    )
