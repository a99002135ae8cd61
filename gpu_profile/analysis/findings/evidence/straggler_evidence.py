"""What tells that a rank comes late to collectives: arrivals, kernels and modules."""

import numpy as np

from gpu_profile.analysis.findings.evidence.arrivals import Suspects
from gpu_profile.analysis.findings.finding import format_ranks


def list_evidence(suspects: Suspects, excess: dict[str, float]) -> tuple[str, ...]:
    """The evidence for the suspects. `excess`: by cause, ms a step above the typical other rank."""
    late = format_ranks(view.rank for view in suspects.late_ranks)
    others = format_ranks(view.rank for view in suspects.others)
    wait = float(np.mean([view.ms("wait") for view in suspects.others]))
    move = float(np.mean([view.ms("transfer") for view in suspects.others]))
    lag, at = suspects.worst
    more = ", ".join(f"{name} {round(value, 2) + 0.0:+.2f} ms" for name, value in excess.items())
    period = (f"how late it comes: {suspects.period}",) if suspects.period else ()
    return (
        f"{late} arrived last in {suspects.last} of {suspects.total} collectives",
        *period,
        f"{others}: exposed collectives are {wait:.2f} ms a step of wait and {move:.2f} ms of "
        "transfer, so not the network",
        f"against the typical other rank, a step of {late} has {more}",
        f"worst at {at / 1e6:.1f} ms: {lag:.2f} ms after all others",
        *_compare_kernels(suspects),
    )


def _compare_kernels(suspects: Suspects) -> tuple[str, ...]:
    """Evidence whether the late ranks run the same kernels slower, or more of them.

    Only kernels without concurrent communication count, because it slows kernels of waiting ranks.
    """
    late, other = suspects.late_ranks[0], suspects.others[0]
    pairs = [
        (time, other.common.kernels[name])
        for name, time in late.common.kernels.items()
        if name in other.common.kernels
    ]
    both = [(a, b) for a, b in pairs if a.alone_count and b.alone_count]
    base = sum(b.alone_total / b.alone_count * a.alone_count for a, b in both)
    if not base:
        return ()
    ratio = sum(a.alone_total for a, _ in both) / base
    counts = [view.mean(view.common.kernel_count) for view in (late, other)]
    return (
        f"rank {late.rank} against rank {other.rank}: the same kernels take {ratio:.2f} times "
        f"as long, {counts[0]:.0f} against {counts[1]:.0f} kernels a step",
    )


def list_module_evidence(suspects: Suspects) -> tuple[str, ...]:
    """The module in which the late rank computes most longer than another one.

    Both times are of kernels without concurrent communication, as _compare_kernels() has it.
    """
    late, other = (
        {name: ns / 1e6 for name, ns in view.fact.items()}
        for view in (suspects.late_ranks[0], suspects.others[0])
    )
    more = {name: ms - other[name] for name, ms in late.items() if name in other}
    name = max(more, key=lambda key: (more[key], key), default="")
    if not name or more[name] <= 0:
        return ()
    of = f"rank {suspects.late_ranks[0].rank} against rank {suspects.others[0].rank}"
    return (f"{of}: most of the difference is in {name}, {more[name]:+.2f} ms a step",)
