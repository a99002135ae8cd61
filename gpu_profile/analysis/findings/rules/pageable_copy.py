"""Finding pageable_copy: copies from or to pageable memory block the host."""

from collections.abc import Sequence

import numpy as np

from gpu_profile.analysis.findings.copies import COPY_SHARE, DIRECTIONS
from gpu_profile.analysis.findings.finding import (
    LEAST_FREQUENCY,
    Finding,
    FindingRow,
    FindingRule,
    Judgement,
    View,
    format_ranks,
)
from gpu_profile.analysis.findings.rank_facts import CopyTime

PAGEABLE_ADVICE = (
    "Pin the host's memory (DataLoader(pin_memory=True), tensor.pin_memory()) and copy with "
    "non_blocking=True, a step ahead on its own stream."
)


def judge_pageable_copy(views: Sequence[View]) -> Judgement:
    """Find copies from or to pageable host memory, which the driver stages and which block the
    host.
    """
    pageable_views = [
        view
        for view in views
        if _pageable_frequency(view) >= LEAST_FREQUENCY
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


def _pageable_frequency(view: View) -> float:
    counts = [copy.count for _, copy in _list_pageable(view)]
    return view.frequency(np.sum(counts, axis=0)) if counts else 0.0


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


RULE = FindingRule(
    kind="pageable_copy",
    title="Pageable copies",
    judge=judge_pageable_copy,
    rows=(
        FindingRow(
            causes=("pageable",),
            when=(
                "copies over 64 KiB from or to pageable memory, in every other step or more, cost "
                "1 % of the step"
            ),
        ),
    ),
)
