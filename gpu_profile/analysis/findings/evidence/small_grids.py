"""Finding: long kernels have fewer blocks than the GPU has multiprocessors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.facts.windows import is_in_steady_part, list_windows
from gpu_profile.analysis.findings.finding import Finding
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.replay.edits.kernels.small_grids import (
    FULL_REACH_THREADS,
    MOST_ESTIMATED,
    find_small_grids,
    limit_gains,
)
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.target import count_multiprocessors
from gpu_profile.formats.function_names import shorten_names

FEW_BLOCKS = "few_blocks"
ADVICE = (
    "Give these kernels more blocks: split a row or a sum over several blocks, which join their "
    "parts at the end; do what several launches do in one; or launch kernels that do not need each "
    "other on several streams. A kernel of a library has a block for each row, sample or channel: "
    "use a larger batch, another layout (channels_last) or two stages (the best of each part, then "
    "the best of these)."
)
MOST_NAMES, NAME_WIDTH = 3, 60


@dataclass(frozen=True, eq=False)
class GridTimes:
    """Long kernels of few blocks. `time` and `gain`: ns by window, and the most of it that more
    blocks gain. `kernels`: ns and launches in the steady part, by short name and blocks.
    """

    time: IntArray
    gain: IntArray
    multiprocessors: int = 0
    kernels: Mapping[tuple[str, int], tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class GridFacts:
    """What judge_small_grids() reads of a rank."""

    grids: GridTimes


def measure_small_grids(activity: Activity, database: Database) -> GridTimes:
    """The long kernels of few blocks of one rank."""
    ops, windows = activity.ops, list_windows(activity)
    multiprocessors = count_multiprocessors(database, activity.gpu)
    grids = find_small_grids(ops, ops.length, multiprocessors)
    rows, duration = grids.rows, ops.length[grids.rows].astype(np.int64)
    gain = limit_gains(duration, grids.ratio)
    time, gains = (windows.sum(ops.start[rows], weight) for weight in (duration, gain))
    steady = rows[is_in_steady_part(activity, ops.start[rows])]
    return GridTimes(time, gains, multiprocessors, _sum_kernels(activity, steady))


def _sum_kernels(activity: Activity, rows: IntArray) -> dict[tuple[str, int], tuple[int, int]]:
    ops = activity.ops
    keys = np.stack((ops.full_name[rows].astype(np.int64), ops.blocks[rows].astype(np.int64)))
    distinct, place, count = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    total = np.bincount(place.ravel(), weights=ops.length[rows], minlength=len(count))
    texts = [activity.names[code] for code in distinct[0].tolist()]
    short = shorten_names(texts, NAME_WIDTH)
    return {
        (short[text], blocks): (int(ns), launches)
        for text, blocks, ns, launches in zip(
            texts, distinct[1].tolist(), total, count.tolist(), strict=True
        )
    }


def measure_gain(view: View[GridFacts]) -> float:
    """What more blocks can gain at the most, in ms a step."""
    return _measure_mean(view, view.fact.grids.gain)


def list_gains(view: View[GridFacts]) -> IntArray:
    """That by step, in ns."""
    return view.fact.grids.gain[1:]


def _measure_mean(view: View[GridFacts], windows: IntArray) -> float:
    """ms a step. The parts of a loop may be its steps, and such a kernel in few of them: no step
    is clipped.
    """
    return float(np.mean(view.steady(windows))) / 1e6


def judge_small_grids(views: Sequence[View[GridFacts]]) -> list[Finding]:
    """Find ranks that spend time in long kernels of few blocks."""
    slow = [view for view in views if view.is_costly(measure_gain(view))]
    if not slow:
        return []
    ranks = tuple(sorted({view.rank for view in slow}))
    worst = max(slow, key=measure_gain)
    return [Finding("unused_gpu", ranks, FEW_BLOCKS, _list_evidence(worst), ADVICE)]


def _list_evidence(view: View[GridFacts]) -> tuple[str, ...]:
    fact = view.fact.grids
    ms = _measure_mean(view, fact.time)
    ordered = sorted(fact.kernels, key=lambda key: (-fact.kernels[key][0], key))[:MOST_NAMES]
    names = ", ".join(_describe_kernel(fact, key) for key in ordered)
    at_once = " (several at once)" if ms > view.step_ms else ""
    return (
        f"rank {view.rank}: {ms:.2f}{at_once} of {view.step_ms:.2f} ms a step in kernels of few "
        f"blocks on {fact.multiprocessors} multiprocessors: {names}",
        "each could use its own and those that no other kernel uses beside it: the estimate makes "
        f"it as many times as fast with {FULL_REACH_THREADS} threads a block, half as many times "
        f"with twice the threads, up to {MOST_ESTIMATED:.1f} times as many with fewer; its range "
        "is a fifth, but not over twice, and 3.5 times as many, as threads of one multiprocessor "
        "hide each other's waits",
    )


def _describe_kernel(fact: GridTimes, key: tuple[str, int]) -> str:
    (name, blocks), (ns, launches) = key, fact.kernels[key]
    noun = "block" if blocks == 1 else "blocks"
    return f"{name} ({blocks} {noun}, {ns / launches / 1e3:.0f} us)"
