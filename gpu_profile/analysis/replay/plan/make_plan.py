"""How a plan is made: changes are tried, the best is taken, and the others are tried after it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.replay.as_others import (
    list_comparable_ranks,
    speed_up_gpu,
    speed_up_host,
)
from gpu_profile.analysis.replay.changes import LEAST_SHARE, Change, combine
from gpu_profile.analysis.replay.edits.calls import LATE_NS
from gpu_profile.analysis.replay.edits.causes import (
    ALLOCATIONS,
    EARLY_COPIES,
    LAUNCHES,
    PAGEABLE_COPIES,
    PAUSES,
    SMALL_GRIDS,
    TINY_LAUNCHES,
    TRANSFERS,
    UNEQUAL_COMPUTE,
    WAITS,
)
from gpu_profile.analysis.replay.edits.contention import remove_contention
from gpu_profile.analysis.replay.edits.graph_captures import CAPTURES, find_captures
from gpu_profile.analysis.replay.edits.iteration_kinds import MISSED_GRAPHS, PROMPTS
from gpu_profile.analysis.replay.edits.iterations import (
    DECODE_GAP,
    FEW_COPIES,
    find_copying_calls,
)
from gpu_profile.analysis.replay.edits.kernels.channels_first import put_channels_last
from gpu_profile.analysis.replay.edits.kernels.double_precision import (
    has_only_doubles,
    use_single_precision,
)
from gpu_profile.analysis.replay.edits.kernels.fused_attention import fuse_attention
from gpu_profile.analysis.replay.edits.kernels.fused_chains import fuse_chains
from gpu_profile.analysis.replay.edits.kernels.recomputation import RECOMPUTATION
from gpu_profile.analysis.replay.edits.kernels.tensor_cores import use_tensor_cores
from gpu_profile.analysis.replay.edits.kernels.unaligned_products import align_products
from gpu_profile.analysis.replay.edits.loops.tiny_kernels import launches_loops
from gpu_profile.analysis.replay.edits.micro_batches import find_early_transfers
from gpu_profile.analysis.replay.edits.waits import awaits_data
from gpu_profile.analysis.replay.plan.plan import Plan, PlanItem
from gpu_profile.analysis.replay.plan.trials import Trial, try_changes
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.shadow.shadow import Shadow
from gpu_profile.analysis.replay.weights import Weights

ALIKE = 0.75
"""Of changes that gain at least this part of the best one, the first of list_changes() is
taken. The others are alternatives where they gain nothing more after it."""
HALF, THIRD = 0.5, 1 / 3
"""A cause is taken before a bound (Change.is_bound) that gains at most twice as much: of a BERT
whose collator takes 14 ms of a step of 48, the replay without any launch gains 24 ms. A loop that a
batch replaces is taken before three times as much: the launches of the rest stay beside it. Fused
kernels have to gain a third, too: the 15 times that an agent imagines need each other, and gain 26
ms as a batch, 13 fused and 52 as a graph. In nine programs whose fix is a batch fused kernels gain
0.87 times as much as a graph or more."""
KERNELS = frozenset(
    (
        *("no_tensor_cores", "unaligned_matmul", "channels_first"),
        *("unfused_attention", "unfused_elementwise", "unused_gpu"),
    )
)
"""Kinds whose changes shorten kernels."""
EQUAL = 0.005
"""Of the step: kernels that gain less than waits by that gain as much."""
MOST_ITEMS = 3
TOKEN_WAITS = 1.5
"""Calls an iteration: fewer are one for the tokens, and some that come in few iterations."""


def list_changes(graph: RunGraph) -> tuple[Change, ...]:
    """The changes that a plan tries, those that are least to do first."""
    waits = () if _waits_for_tokens(graph) else (WAITS,)
    captures = (CAPTURES,) if len(find_captures(graph)) else ()
    products = (use_tensor_cores(), align_products(), put_channels_last())
    doubles = use_single_precision(has_only_doubles(graph))
    kernels = (*products, fuse_attention(), doubles, fuse_chains(), SMALL_GRIDS, RECOMPUTATION)
    copies = (PAGEABLE_COPIES, EARLY_COPIES)
    first = (*captures, *copies, ALLOCATIONS, FEW_COPIES, *waits, *kernels)
    engine = (MISSED_GRAPHS, DECODE_GAP, PROMPTS) if graph.is_engine else ()
    last = (PAUSES, TINY_LAUNCHES, LAUNCHES, TRANSFERS, remove_contention())
    return (*first, *_list_rank_changes(graph), *engine, *last)


def _waits_for_tokens(graph: RunGraph) -> bool:
    """Whether an engine waits once an iteration, as it has to for its tokens, but for the waits of
    small copies, which FEW_COPIES takes away.
    """
    if not graph.is_engine:
        return False
    calls = graph.calls
    waits = calls.waits & (calls.end - calls.start >= LATE_NS)
    waits[find_copying_calls(graph)] = False
    return int(np.sum(waits)) < TOKEN_WAITS * graph.steps * len(graph.ranks)


def _list_rank_changes(graph: RunGraph) -> Iterator[Change]:
    if len(graph.ranks) < 2:
        return
    kinds = ("straggler",)
    for rank in list_comparable_ranks(graph):
        yield Change(f"rank {rank}'s host", speed_up_host(rank), kinds, rank)
        yield make_gpu_change(rank)
    yield UNEQUAL_COMPUTE


def _list_others(graph: RunGraph, left_out: Sequence[Change]) -> tuple[Change, ...]:
    """The changes but for these, by their texts: those of a rank are made anew each time."""
    without = {change.text for change in left_out}
    return tuple(change for change in list_changes(graph) if change.text not in without)


def make_gpu_change(rank: int) -> Change:
    """The change in which one rank computes as the others do."""
    return Change(f"rank {rank}'s compute", speed_up_gpu(rank), ("straggler",), rank)


@once_each
def make_plan(
    replay: Replay,
    shadow: Shadow | None = None,
    most: int = MOST_ITEMS,
    left_out: tuple[Change, ...] = (),
) -> Plan:
    """Take the best change, then the best of what is left with it done, up to `most`, but those
    that are `left_out`.

    With a `shadow` the plan is of the program without the profiler.
    """
    weights, time = Weights.of(replay.graph), replay.graph.time
    now = replay.step_ms
    changes = _list_others(replay.graph, left_out)
    if shadow is not None:
        weights, now = shadow.weights, shadow.step_ms
        time = replay.simulate(weights)
    step_ms = now
    least, items, gains = LEAST_SHARE * now, list[PlanItem](), dict[str, float]()
    # One round more than items: it tells which alternatives of the last item still gain.
    for number in range(most + 1):
        changes = items[-1].alternatives if number == most else changes
        trials = try_changes(replay, weights, time, changes, least)
        useful = [trial for trial in trials if now - trial.step_ms >= least]
        if number:
            items[-1] = _drop_later(items[-1], [trial.change for trial in useful])
        else:
            gains = dict.fromkeys((change.text for change in changes), 0.0)
            gains |= {trial.change.text: now - trial.step_ms for trial in trials}
        if not useful or number == most:
            break
        if _hides_pauses(replay, weights, useful, now, least):
            changes = tuple(change for change in changes if change != PAUSES)
            useful = [trial for trial in useful if trial.change != PAUSES]
        best = _choose_best(replay, weights, useful, now)
        items.append(PlanItem(best.change, now, best.step_ms, _list_alike(useful, best, now)))
        changes = tuple(change for change in changes if change != best.change)
        now, weights, time = best.step_ms, best.change.apply(replay.graph, weights), best.time
    plan = Plan(step_ms, replay.test.error, tuple(items), gains, replay.step_ms)
    return _add_factors(plan, shadow) if shadow else plan


def _add_factors(plan: Plan, shadow: Shadow) -> Plan:
    return replace(
        plan,
        host_factor=shadow.factor,
        factors=shadow.factors,
        pause_factor=shadow.pause_factor,
        callback_ms=shadow.callback_ms,
        timed_in=shadow.timed_in,
    )


def _hides_pauses(
    replay: Replay, weights: Weights, trials: Sequence[Trial], now: float, least_ms: float
) -> bool:
    """Whether the pauses are a part of slow launches: those gain much more, and a host that
    launches faster runs so far ahead of its GPU that its pauses cost nothing.

    Eager PyTorch pauses for 0.4 to 1 ms where autograd and the optimizer begin. Without them a
    ResNet of timm gains 2.1 ms, without launches 3.4, and without both no more.
    """
    by_change = {trial.change: trial for trial in trials}
    if not {PAUSES, LAUNCHES} <= {*by_change}:
        return False
    pauses, launches = by_change[PAUSES], by_change[LAUNCHES]
    if now - pauses.step_ms >= ALIKE * (now - launches.step_ms):
        return False
    both = combine((LAUNCHES.apply, PAUSES.apply))(replay.graph, weights)
    return launches.step_ms - replay.predict_step(both) < least_ms


def _choose_best(replay: Replay, weights: Weights, useful: Sequence[Trial], now: float) -> Trial:
    graph, useful = replay.graph, _leave_trades(replay.graph, useful, now)
    candidates, most = useful, max(now - trial.step_ms for trial in useful)
    causes = [trial for trial in useful if not is_bound(graph, trial.change)]
    if causes:
        first = min(causes, key=lambda trial: trial.step_ms)
        if _is_before_bounds(replay, weights, first, now, most):
            candidates, most = causes, now - first.step_ms
    best = next(trial for trial in candidates if now - trial.step_ms >= ALIKE * most)
    if best.change == WAITS:
        best = _choose_work(graph, useful, candidates, best, now)
    earlier = best.change.list_earlier(graph) if best.change.list_earlier else ()
    return next((trial for trial in useful if trial.change.text in earlier), best)


def _leave_trades(graph: RunGraph, useful: Sequence[Trial], now: float) -> Sequence[Trial]:
    """The trials without trades that have to wait: for each cause, but for small ones that come
    after a bound (HALF), and the last ones for bounds.
    """
    others = [trial for trial in useful if not trial.change.is_trade]
    gains: dict[bool, float] = {True: 0.0, False: 0.0}
    for trial in others:
        of_bound = is_bound(graph, trial.change)
        gains[of_bound] = max(gains[of_bound], now - trial.step_ms)
    if gains[False] and gains[False] >= HALF * gains[True]:
        return others
    return [trial for trial in useful if not trial.change.is_last] or useful


def _is_before_bounds(
    replay: Replay, weights: Weights, trial: Trial, now: float, most: float
) -> bool:
    """Whether a cause gains enough to be taken before the bound that gains `most`."""
    gain = now - trial.step_ms
    if trial.change != TINY_LAUNCHES:
        return gain >= HALF * most
    if gain < ALIKE * most and trial.change.bounds:
        fused = trial.change.bounds[0](replay.graph, weights)
        gain = min(gain, now - replay.predict_step(fused))
    return gain >= THIRD * most


def _choose_work(
    graph: RunGraph, useful: Sequence[Trial], candidates: Sequence[Trial], waits: Trial, now: float
) -> Trial:
    """Slow kernels before the `waits`, or pauses of the host after them, that gain as much without
    them; else the waits. A program needs what it waits for, and its work around that can go. Where
    it waits for data, what it computes of them is the pause: ALIKE is as much.
    """
    most_ms = waits.step_ms + EQUAL * now
    kernels = (trial for trial in useful if KERNELS & {*trial.change.kinds})
    slow = [trial for trial in kernels if trial.step_ms <= most_ms]
    pauses = (trial for trial in candidates if trial.change == PAUSES)
    part = ALIKE if awaits_data(graph) else 1.0
    long = [trial for trial in pauses if now - trial.step_ms >= part * (now - waits.step_ms)]
    return (*slow, *long, waits)[0]


def is_bound(graph: RunGraph, change: Change) -> bool:
    """A batch of loops is a fix that leaves the other launches: of a GPT whose optimizer goes from
    matrix to matrix it takes 30 ms of 57, and all launches take 44. So is one reduction for all
    micro-batches, which leaves the other transfers.
    """
    has_fix = change == TINY_LAUNCHES and launches_loops(graph)
    has_fix = has_fix or (change == TRANSFERS and len(find_early_transfers(graph)) > 0)
    return change.is_bound and not has_fix


def _drop_later(item: PlanItem, useful: Sequence[Change]) -> PlanItem:
    """The item without the alternatives that still gain after it: theirs is another loss."""
    return replace(
        item, alternatives=tuple(change for change in item.alternatives if change not in useful)
    )


def _list_alike(trials: Sequence[Trial], best: Trial, now: float) -> tuple[Change, ...]:
    least = ALIKE * (now - best.step_ms)
    alike = (trial for trial in trials if now - trial.step_ms >= least and trial is not best)
    return tuple(trial.change for trial in alike)
