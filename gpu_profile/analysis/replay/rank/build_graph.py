"""Build the graph of one rank's window from its activity and its report."""

import re
from collections.abc import Mapping

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION, Activity
from gpu_profile.analysis.activity.nvtx_ranges import NO_RANGE, find_innermost
from gpu_profile.analysis.activity.serving.marks import PREFILL, UNKNOWN
from gpu_profile.analysis.activity.serving.pauses import find_awaited
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.arrays.intervals import NEVER
from gpu_profile.analysis.arrays.types import Flags, IntArray, Places
from gpu_profile.analysis.modules.marks import fold_module
from gpu_profile.analysis.modules.owners import Owner, find_owners_at
from gpu_profile.analysis.replay.rank.host_chain import (
    HostChain,
    chain_calls,
    choose_calls,
    sum_silences,
)
from gpu_profile.analysis.replay.rank.links import RawLinks, find_links
from gpu_profile.analysis.replay.rank.markers import EVENT_NAME, STREAM_NAME, WAIT_NAME
from gpu_profile.analysis.replay.rank.rank_graph import (
    BEFORE,
    NONE,
    Codes,
    GpuOps,
    HostCalls,
    Links,
    NoGraph,
    RankGraph,
    renumber,
)
from gpu_profile.analysis.replay.rank.window import Window, choose_window
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import CUDA_EVENT, SYNCHRONIZATION
from gpu_profile.analysis.store.target import count_multiprocessors


def build_rank_graph(
    activity: Activity, database: Database, offset_ns: int, ranks: int = 1
) -> RankGraph | NoGraph:
    """The graph of a window of the rank's steps, on the run's clock; NoGraph where the recording
    does not hold what the replay needs. `ranks`: of the run.
    """
    window = choose_window(activity, ranks)
    if isinstance(window, str):
        return NoGraph(activity.rank, activity.device, window)
    rows = _choose_ops(activity, window)
    if why := _find_missing_waits(activity, database, rows):
        return NoGraph(activity.rank, activity.device, why)
    chain = chain_calls(activity, window)
    if not len(chain.rows):
        why = "the report holds no launches in its steps"
        return NoGraph(activity.rank, activity.device, why)
    raw = find_links(activity, database, window, rows, chain)
    keep = choose_calls(activity, chain, raw.linked_calls)
    return _Builder(activity, window, offset_ns, chain, keep, rows).build(database, raw)


def _choose_ops(activity: Activity, window: Window) -> IntArray:
    """The operations launched in the window, and those launched before that ran in it."""
    inside = activity.find_launched(window.begin, window.end)
    before = activity.find_launched(NEVER, window.begin)
    return np.union1d(inside, before[activity.ops.end[before] > window.begin])


def _find_missing_waits(activity: Activity, database: Database, rows: IntArray) -> str:
    """Why the waits between streams are not known; "" if they are.

    nsys writes neither table for a program that calls nothing which waits for a stream or an event,
    such as one of several streams that waits for the device alone.
    """
    if len(np.unique(activity.ops.stream[rows])) < 2:
        return ""
    of_events = _has_call(activity, WAIT_NAME) or _has_call(activity, EVENT_NAME)
    has_waits = of_events or _has_call(activity, STREAM_NAME)
    if has_waits and not database.has(SYNCHRONIZATION, "eventSyncId"):
        return "the report holds no waits between its streams"
    if of_events and not database.has(CUDA_EVENT, "eventSyncId"):
        return "the report holds no recorded events of its streams"
    return ""


def _has_call(activity: Activity, name: re.Pattern[str]) -> bool:
    return bool(np.any(activity.calls.match_names(activity.names, name)))


class _Builder:
    """Numbers rows, names, threads, streams and places anew for the window."""

    def __init__(
        self,
        activity: Activity,
        window: Window,
        offset_ns: int,
        chain: HostChain,
        keep: Flags,
        rows: IntArray,
    ) -> None:
        self._activity, self._window, self._offset = activity, window, offset_ns
        self._chain, self._keep = chain, keep
        self._kept, self._rows = chain.rows[keep], rows
        self._names, self._places = _Texts(), _Texts()
        calls, ops = len(activity.calls.start), len(activity.ops.start)
        self._call_number = _number(self._kept, calls)
        # What a nested call launched is launched by the call that holds it.
        self._call_number[chain.nested_calls] = self._call_number[chain.holders]
        self._op_number = _number(rows, ops)

    def build(self, database: Database, raw: RawLinks) -> RankGraph:
        calls, ops = self._make_calls(raw), self._make_ops(database)
        return RankGraph(
            self._activity.rank,
            self._activity.device,
            self._window.first,
            self._window.count,
            calls,
            ops,
            self._number_links(raw.links),
            self._names.texts,
            self._places.texts,
            threads=tuple(np.unique(self._activity.calls.thread_of(self._kept)).tolist()),
            streams=tuple(np.unique(self._activity.ops.stream[self._rows]).tolist()),
            contradictions=raw.contradictions,
            begin=self._window.begin + self._offset,
            gpu=self._activity.gpu,
            multiprocessors=count_multiprocessors(database, self._activity.gpu),
            profiler=database.export_facts.get("EXPORT_PRODUCT_NAME", ""),
            kinds=self._list_kinds(),
        )

    def _list_kinds(self) -> Codes:
        """The kinds of iterations; UNKNOWN for prompts that no other request waits for."""
        first, steps = self._window.first, find_steps(self._activity)
        alone = (steps.kind == PREFILL) & ~find_awaited(steps.kind, steps.ends_empty)
        kind = np.where(alone, UNKNOWN, steps.kind)
        return kind[first : first + self._window.count].astype(np.int32)

    def _make_calls(self, raw: RawLinks) -> HostCalls:
        calls, rows = self._activity.calls, self._kept
        # At least 1 ns: edges point forward in time (run_graph.py), also from a start to its end.
        start, end = calls.start[rows], np.maximum(calls.end[rows], calls.start[rows] + 1)
        waits = np.zeros(len(rows), bool)
        held = self._call_number[raw.waiting_calls]
        waits[held[held >= 0]] = True
        before = np.r_[0, end[:-1]][: len(rows)]
        # `place` is where the program was between the calls. At `start` a range may just have
        # begun.
        middle = np.where(before < start, (before + start) // 2, start)
        thread = calls.thread_of(rows)
        first = np.r_[True, thread[1:] != thread[:-1]][: len(rows)]
        middle = np.where(first, start, middle)
        return HostCalls(
            start=start + self._offset,
            end=end + self._offset,
            silent=sum_silences(self._activity, self._window, self._chain, self._keep),
            thread=np.unique(thread, return_inverse=True)[1].astype(np.int32),
            name=self._names.add(calls.name[rows], self._activity.names),
            step=self._window.steps_of(start).astype(np.int32),
            place=self._places.add(*find_places(self._activity, thread, middle)),
            waits=waits,
        )

    def _make_ops(self, database: Database) -> GpuOps:
        activity, rows = self._activity, self._rows
        ops, launched = activity.ops, activity.launch_starts[rows]
        step = self._window.steps_of(launched)
        comm = np.cumsum(ops.kind == COMMUNICATION, dtype=np.int32) - 1
        is_comm = ops.kind[rows] == COMMUNICATION
        places = find_places(activity, activity.launcher_of(rows), launched)
        return GpuOps(
            start=ops.start[rows] + self._offset,
            end=np.maximum(ops.end[rows], ops.start[rows] + 1) + self._offset,
            bytes=ops.bytes[rows].astype(np.int64),
            grid=ops.grid[rows].astype(np.int64),
            blocks=ops.blocks[rows].astype(np.int64),
            threads=ops.threads[rows].astype(np.int64),
            call=np.where(step >= 0, self._call_number[ops.call[rows]], np.int32(NONE)),
            comm=np.where(is_comm, comm[rows], NONE).astype(np.int32),
            kind=ops.kind[rows],
            stream=np.unique(ops.stream[rows], return_inverse=True)[1].astype(np.int32),
            name=self._names.add(ops.full_name[rows], activity.names),
            step=np.maximum(step, BEFORE).astype(np.int32),
            place=self._places.add(*places),
            pageable=ops.pageable[rows],
        )

    def _number_links(self, links: Links) -> Links:
        calls, ops = self._call_number, self._op_number
        return Links(
            events=renumber(links.events, ops, ops),
            returns=renumber(links.returns, ops, calls),
            handovers=renumber(links.handovers, calls, calls),
            queue=renumber(links.queue, ops, calls),
            reads=renumber(links.reads, ops, calls),
        )


class _Texts:
    """Numbers texts in the order of their first use."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def add(self, ids: IntArray, texts: Mapping[int, str]) -> Codes:
        """The code of each id's text."""
        used, place = np.unique(ids, return_inverse=True)
        codes = [self._codes.setdefault(texts[int(code)], len(self._codes)) for code in used]
        return np.array(codes, np.int32)[place]

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(self._codes)


def _number(rows: IntArray, size: int) -> Places:
    """The position of each row in `rows`, else NONE; the extra last cell is NONE."""
    numbers = np.full(size + 1, NONE, np.int32)
    numbers[rows] = np.arange(len(rows))
    return numbers


def find_places(
    activity: Activity, thread: IntArray, time: IntArray
) -> tuple[IntArray, Mapping[int, str]]:
    """The module, phase or NVTX range in which each thread was at each time, and their texts."""
    owners = find_owners_at(activity, thread, time)
    if owners is not None:
        return owners.of_op, {code: _name_owner(owner) for code, owner in enumerate(owners.owners)}
    ranges = activity.ranges.of_user()
    names = np.append(ranges.name, NO_RANGE)[find_innermost(ranges, thread, time)]
    return names, {NO_RANGE: "", **dict(enumerate(ranges.names))}


def _name_owner(owner: Owner) -> str:
    module = owner.module
    return fold_module(module) if module.is_real else module.name.strip("()")
