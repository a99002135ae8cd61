"""Findings: exposed communication, copies from pageable memory, and slow host-device links."""

from collections.abc import Sequence

import numpy as np

from gpu_profile.analysis.activity.activity import COPY_TO_DEVICE, COPY_TO_HOST
from gpu_profile.analysis.findings.finding import Finding, Judgement, View, format_ranks
from gpu_profile.analysis.findings.rank_facts import CopyTime

# Overlap is never perfect: the last bucket's transfer is exposed in every data-parallel step.
EXPOSED_SHARE = 0.10
# A copy that happens in fewer than every other step is not part of the loop.
COPIES_PER_STEP, COPY_SHARE = 0.5, 0.01
# Pinned transfers reach 12 GB/s on PCIe 3 x16, 25 on PCIe 4, 55 on PCIe 5. Below 5 GB/s the link
# or the host's memory is at fault. Small copies are slower anyway: judge 1 MiB and more.
SLOW_GB_PER_S, LARGE_BYTES = 5.0, 1 << 20
# A rank at less than half of the others' rate has a worse path (another socket, fewer lanes).
SLOW_AGAINST_OTHERS = 0.5
DIRECTIONS = {COPY_TO_DEVICE: "host to device", COPY_TO_HOST: "device to host"}

COMM_ADVICE = (
    "Overlap or shrink it: larger or earlier buckets, gradient accumulation, lower precision, "
    "fewer and larger collectives; check that NCCL uses the fast links (invoke test --suite nccl)."
)
PAGEABLE_ADVICE = (
    "Pin the host's memory (DataLoader(pin_memory=True), tensor.pin_memory()) and copy with "
    "non_blocking=True, a step ahead on its own stream."
)
BANDWIDTH_ADVICE = (
    "Check the link (nvidia-smi topo -m; nvidia-smi -q for PCIe generation and width) and bind "
    "the process to the CPUs and memory next to its GPU."
)


def judge_exposed_communication(views: Sequence[View]) -> Judgement:
    """Find communication that moves data without concurrent compute; waiting is not counted."""
    exposed_views = [view for view in views if view.share("transfer") >= EXPOSED_SHARE]
    unsplit = [view for view in views if view.share("unsplit") >= EXPOSED_SHARE]
    notes: tuple[str, ...] = ()
    if unsplit:
        ms = float(np.mean([view.ms("unsplit") for view in unsplit]))
        who = format_ranks(view.rank for view in unsplit)
        notes = (
            f"exposed communication of {who} ({ms:.2f} ms a step): without the other ranks' "
            "reports on one clock, waiting and transfer cannot be told apart",
        )
    return Judgement((_judge_communication(exposed_views),) if exposed_views else (), notes)


def _judge_communication(views: Sequence[View]) -> Finding:
    gain = float(np.mean([view.ms("transfer") for view in views]))
    step = float(np.mean([view.step_ms for view in views]))
    wait = float(np.mean([view.ms("wait") for view in views]))
    worst = max(views, key=lambda view: view.share("transfer"))
    ranks = tuple(sorted({view.rank for view in views}))
    own = worst.facts.states.own
    total = worst.mean(own["communication"])
    hidden = 100 * worst.mean(own["hidden"]) / total if total else 0.0
    evidence = (
        f"{format_ranks(ranks)}: {gain:.2f} of {step:.2f} ms a step move data between ranks with "
        f"no compute beside (waiting for late ranks, {wait:.2f} ms, not counted)",
        f"rank {worst.rank}: compute hides {hidden:.0f} % of its communication",
    )
    return Finding("exposed_communication", ranks, "transfer", gain, evidence, COMM_ADVICE)


def judge_pageable_copy(views: Sequence[View]) -> Judgement:
    """Find copies from or to pageable host memory, which the driver stages and which block the
    host.
    """
    pageable_views = [
        view
        for view in views
        if _pageable_count(view) >= COPIES_PER_STEP
        and _pageable_ms(view) >= COPY_SHARE * view.step_ms
    ]
    if not pageable_views:
        return Judgement()
    gain = float(np.mean([_pageable_ms(view) for view in pageable_views]))
    ranks = tuple(sorted({view.rank for view in pageable_views}))
    worst = max(pageable_views, key=_pageable_ms)
    lines = (_copy_line(worst, kind, copy) for kind, copy in _list_pageable(worst))
    evidence = (*lines, *_held_lines(worst), f"seen on {format_ranks(ranks)}")
    return Judgement(
        (Finding("pageable_copy", ranks, "pageable", gain, evidence, PAGEABLE_ADVICE),)
    )


def _list_pageable(view: View) -> list[tuple[int, CopyTime]]:
    copies = sorted(view.facts.copies.items())
    return [(kind, copy) for (kind, pageable), copy in copies if pageable and kind in DIRECTIONS]


def _pageable_count(view: View) -> float:
    return sum(view.mean(copy.count) for _, copy in _list_pageable(view))


def _pageable_ms(view: View) -> float:
    """The ms in a step of copies that no compute hides, and of the idle time after them."""
    exposed = sum(view.mean(copy.exposed) for _, copy in _list_pageable(view)) / 1e6
    return exposed + view.ms("idle_copy")


def _copy_line(view: View, kind: int, copy: CopyTime) -> str:
    count, size = view.mean(copy.count), view.mean(copy.bytes)
    return (
        f"rank {view.rank}: {count:.1f} pageable copies a step {DIRECTIONS[kind]}, "
        f"{size / 1e6:.2f} MB at {copy.rate:.1f} GB/s"
    )


def _held_lines(view: View) -> list[str]:
    return [
        f"rank {view.rank}: {name} held the host {view.mean(held) / 1e6:.2f} ms a step"
        for name, (_, held, copies) in sorted(view.facts.blockers.items())
        if copies
    ]


def judge_low_bandwidth(views: Sequence[View]) -> Judgement:
    """Find large pinned copies that are slow in absolute terms or against the other ranks."""
    findings = []
    for kind, direction in DIRECTIONS.items():
        rates = {view.rank: _compute_copy_rate(view, kind) for view in views}
        positive_rates = [rate for rate in rates.values() if rate]
        usual = float(np.median(positive_rates)) if len(positive_rates) > 2 else 0.0
        limit = max(SLOW_GB_PER_S, SLOW_AGAINST_OTHERS * usual)
        slow = [view for view in views if 0 < rates[view.rank] < limit]
        if slow:
            findings.append(_judge_bandwidth(slow, kind, direction, usual))
    return Judgement(tuple(findings))


def _compute_copy_rate(view: View, kind: int) -> float:
    """GB/s of the rank's large pinned copies; 0 if their time is too short to judge."""
    copy = view.facts.copies.get((kind, False))
    if copy is None or not copy.count[0] or copy.bytes[0] < LARGE_BYTES * copy.count[0]:
        return 0.0
    return copy.rate if view.mean(copy.time) / 1e6 >= COPY_SHARE * view.step_ms else 0.0


def _judge_bandwidth(views: Sequence[View], kind: int, direction: str, usual: float) -> Finding:
    ranks = tuple(sorted({view.rank for view in views}))
    copies = [view.facts.copies[kind, False] for view in views]
    exposed = [view.mean(c.exposed) / 1e6 for view, c in zip(views, copies, strict=True)]
    rates = ", ".join(
        f"rank {v.rank} {c.rate:.1f} GB/s" for v, c in zip(views, copies, strict=True)
    )
    evidence = [f"pinned copies {direction} of 1 MiB and more: {rates}"]
    evidence += [f"the typical rank has {usual:.1f} GB/s"] if usual else []
    gain = float(np.mean(exposed))
    return Finding("low_bandwidth", ranks, "copy", gain, tuple(evidence), BANDWIDTH_ADVICE)
