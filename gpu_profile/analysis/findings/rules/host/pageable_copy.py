"""Finding pageable_copy: copies from or to pageable memory block the host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.idle.gaps import COPYING
from gpu_profile.analysis.findings.facts.blocking import BlockingTime, sum_blocking_calls
from gpu_profile.analysis.findings.facts.copies import (
    DIRECTIONS,
    CopyKey,
    CopyTime,
    sum_copies,
)
from gpu_profile.analysis.findings.finding import SHOWN_MS, Finding, Judgement, format_ranks
from gpu_profile.analysis.findings.places import find_longest_gap
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import LEAST_FREQUENCY, RankView, View
from gpu_profile.analysis.replay.edits.causes import PAGEABLE_COPIES
from gpu_profile.analysis.store.database import Database

PAGEABLE_ADVICE = (
    "Pin the host's memory (DataLoader(pin_memory=True), tensor.pin_memory()) and copy with "
    "non_blocking=True, a step ahead on its own stream."
)


@dataclass(frozen=True, eq=False)
class PageableCopies:
    """All large `copies` of a rank, and the `calls` that blocked its host, by name."""

    copies: Mapping[CopyKey, CopyTime]
    calls: Mapping[str, BlockingTime]


def collect_pageable_copies(activity: Activity, _: Database) -> PageableCopies:
    """The copies of one rank, and its blocking calls."""
    return PageableCopies(sum_copies(activity), sum_blocking_calls(activity))


def judge_pageable_copy(views: Sequence[View[PageableCopies]]) -> Judgement:
    """Find copies from or to pageable host memory, which the driver stages and which block the
    host.
    """
    pageable_views = [view for view in views if _pageable_frequency(view) >= LEAST_FREQUENCY]
    if not pageable_views:
        return Judgement()
    ranks = tuple(sorted({view.rank for view in pageable_views}))
    worst = max(pageable_views, key=_pageable_ms)
    lines = (_copy_line(worst, kind, copy) for kind, copy in _list_pageable(worst))
    evidence = (*lines, *_held_lines(worst), f"seen on {format_ranks(ranks)}")
    return Judgement((Finding("pageable_copy", ranks, "pageable", evidence, PAGEABLE_ADVICE),))


def _list_pageable(view: View[PageableCopies]) -> list[tuple[int, CopyTime]]:
    copies = sorted(view.fact.copies.items())
    return [
        (kind, copy)
        for (kind, pageable), copy in copies
        if pageable and kind in DIRECTIONS and np.any(view.steady(copy.count))
    ]


def _pageable_frequency(view: View[PageableCopies]) -> float:
    counts = [copy.count for _, copy in _list_pageable(view)]
    return view.frequency(np.sum(counts, axis=0)) if counts else 0.0


def _pageable_ms(view: View[PageableCopies]) -> float:
    """The ms in a step of copies that no compute hides, and of the idle time after them."""
    exposed = sum(view.mean(copy.exposed_ns) for _, copy in _list_pageable(view)) / 1e6
    return exposed + view.ms("idle_copy")


def _copy_line(view: RankView, kind: int, copy: CopyTime) -> str:
    count, size = view.mean(copy.count), view.mean(copy.bytes)
    copies = f"{count:.1f} pageable copies a step {DIRECTIONS[kind]}"
    if rare := view.tell_rare(copy.count):
        sizes = view.steady(copy.bytes)
        copies = f"pageable copies {DIRECTIONS[kind]} {rare}"
        size = float(np.mean(sizes[sizes > 0]))
    return f"rank {view.rank}: {copies}, {size / 1e6:.2f} MB at {copy.rate:.1f} GB/s"


def _held_lines(view: View[PageableCopies]) -> list[str]:
    return [
        f"rank {view.rank}: {name} held the host {view.mean(call.held_ns) / 1e6:.2f} ms a step"
        for name, call in sorted(view.fact.calls.items())
        if call.copies and view.mean(call.held_ns) >= SHOWN_MS * 1e6
    ]


RULE = FindingRule(
    kind="pageable_copy",
    title="Pageable copies",
    collect=collect_pageable_copies,
    judge=judge_pageable_copy,
    rows=(
        FindingRow(
            causes=("pageable",),
            when=("copies over 64 KiB from or to pageable memory, in every other step or more"),
        ),
    ),
    time_ms=lambda view, _: _pageable_ms(view),
    edit=lambda _finding: PAGEABLE_COPIES,
    place=find_longest_gap(COPYING),
)
