"""Which GPU operations a recorded event or a blocking call waits for.

nsys writes an event's record to CUDA_EVENT and each wait to SYNCHRONIZATION; both have the same
eventSyncId. A wait of a stream holds what is queued on it later back until all has ended that was
queued before the event was recorded, and what that waited for in turn.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gpu_profile.analysis.activity.activity import SYNC_NAME, Activity
from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.database import Columns, Database
from gpu_profile.analysis.store.schema import CUDA_EVENT, SYNCHRONIZATION, process_of

RECORD, WAIT, BLOCK = range(3)
WAIT_NAME = re.compile(r"(cuda|cu)StreamWaitEvent")
EVENT_NAME = re.compile(r"(cuda|cu)EventSynchronize")
STREAM_NAME = re.compile(r"(cuda|cu)StreamSynchronize")
ALL_STREAMS, NO_EVENT = -1, -1


class Marker(NamedTuple):
    """An event's record, a stream's wait for it, or a call that blocks its thread.

    `start` is the start of the call (ns), `call` its row in Activity.calls.
    """

    start: int
    kind: int
    stream: int
    event: int
    call: int


@dataclass(frozen=True, eq=False)
class Dependencies:
    """(source operation, target operation) of events, (operation, call) of blocking calls; rows of
    Activity. `unknown` counts waits for events from before the first marker.
    """

    events: list[tuple[int, int]] = field(default_factory=list)
    returns: list[tuple[int, int]] = field(default_factory=list)
    unknown: int = 0


class StreamOrder:
    """The operations of each stream in the order of their launches."""

    def __init__(self, activity: Activity, rows: IntArray) -> None:
        stream, when = activity.ops.stream[rows], activity.launch_starts[rows]
        order = np.lexsort((activity.ops.start[rows], when, stream))
        rows, when, stream = rows[order], when[order], stream[order]
        cuts = np.flatnonzero(np.diff(stream)) + 1
        parts = zip(np.split(rows, cuts), np.split(when, cuts), strict=True)
        filled = ((part, at) for part, at in parts if len(part))
        self.lanes = {int(activity.ops.stream[part[0]]): (part, at) for part, at in filled}

    def last_before(self, stream: int, when: int) -> tuple[int, int] | None:
        """The last operation that was launched before this time, and when; None without one."""
        if stream not in self.lanes:
            return None
        rows, launched = self.lanes[stream]
        place = int(np.searchsorted(launched, when)) - 1
        return (int(rows[place]), int(launched[place])) if place >= 0 else None

    def first_from(self, stream: int, when: int) -> int | None:
        """The first operation that was launched at this time or later; None without one."""
        if stream not in self.lanes:
            return None
        rows, launched = self.lanes[stream]
        place = int(np.searchsorted(launched, when))
        return int(rows[place]) if place < len(rows) else None


Front = dict[int, int]
"""For each stream the last operation that must have ended."""


class _Fronts:
    """What is queued on each stream waits for, in the order of the markers."""

    def __init__(self, order: StreamOrder, start: IntArray) -> None:
        self._order, self._start = order, start
        self._waits: dict[int, list[tuple[int, Front]]] = {}

    def add_wait(self, stream: int, when: int, front: Front) -> None:
        self._waits.setdefault(stream, []).append((when, front))

    def at(self, stream: int, when: int) -> Front:
        """What has ended when all has that was queued on the stream before this time."""
        last = self._order.last_before(stream, when)
        since = last[1] if last else -1
        waits = [wait for wait in self._waits.get(stream, ()) if wait[0] > since]
        # What the last operation waited for itself is covered by it, so the list stays short.
        self._waits[stream] = waits
        front: Front = {stream: last[0]} if last else {}
        for _, more in waits:
            for other, row in more.items():
                if other not in front or self._start[front[other]] < self._start[row]:
                    front[other] = row
        return front


def follow_markers(
    activity: Activity, database: Database, order: StreamOrder, since: int, until: int
) -> Dependencies:
    """The dependencies of what was called from `since` to `until` (ns)."""
    dependencies, unknown = Dependencies(), 0
    fronts, records = _Fronts(order, activity.ops.start), dict[int, Front]()
    for marker in sorted(_list_markers(activity, database, order, since, until)):
        if marker.kind == RECORD:
            records[marker.event] = fronts.at(marker.stream, marker.start)
        elif marker.kind == WAIT:
            front = records.get(marker.event)
            unknown += front is None
            if front:
                fronts.add_wait(marker.stream, marker.start, front)
                dependencies.events.extend(_list_waits(order, marker, front))
        else:
            front = _find_front(fronts, order, records, marker)
            dependencies.returns.extend((row, marker.call) for row in front.values())
    return Dependencies(dependencies.events, dependencies.returns, unknown)


def _list_waits(order: StreamOrder, marker: Marker, front: Front) -> Iterator[tuple[int, int]]:
    target = order.first_from(marker.stream, marker.start)
    if target is not None:
        yield from ((row, target) for stream, row in front.items() if stream != marker.stream)


def _find_front(
    fronts: _Fronts, order: StreamOrder, records: dict[int, Front], marker: Marker
) -> Front:
    """What a blocking call waits for: an event, a stream, or all streams."""
    if marker.event != NO_EVENT:
        return records.get(marker.event, {})
    if marker.stream != ALL_STREAMS:
        return fronts.at(marker.stream, marker.start)
    lasts = {stream: order.last_before(stream, marker.start) for stream in order.lanes}
    return {stream: last[0] for stream, last in lasts.items() if last}


def _list_markers(
    activity: Activity, database: Database, order: StreamOrder, since: int, until: int
) -> Iterator[Marker]:
    calls = activity.calls
    inside = slice(*np.searchsorted(calls.start, (since, until)).tolist())
    events = _load_rows(database, CUDA_EVENT, activity, inside)
    keys = ("row", "streamId", "eventSyncId")
    of_event = zip(*(events[key].tolist() for key in keys), strict=True)
    for row, stream, event in of_event:
        yield Marker(int(calls.start[row]), RECORD, stream, event, row)
    waits, blocks, of_events = (
        calls.match_names(activity.names, name) for name in (WAIT_NAME, SYNC_NAME, EVENT_NAME)
    )
    rows, listed = _load_rows(database, SYNCHRONIZATION, activity, inside), set[int]()
    of_sync = zip(*(rows[key].tolist() for key in keys), strict=True)
    for row, stream, event in of_sync:
        if waits[row] or blocks[row]:
            listed.add(row)
            kind = WAIT if waits[row] else BLOCK
            of = event if waits[row] or of_events[row] else NO_EVENT
            yield Marker(int(calls.start[row]), kind, stream, of, row)
    blocking = inside.start + np.flatnonzero(blocks[inside])
    yield from _list_unlisted(activity, order, blocking, listed)


def _list_unlisted(
    activity: Activity, order: StreamOrder, rows: IntArray, listed: set[int]
) -> Iterator[Marker]:
    """Blocking calls without a row in SYNCHRONIZATION.

    nsys 2025.3 writes none for cudaDeviceSynchronize. Of a stream or an event it is not known
    which one, unless there is one stream only.
    """
    of_one = activity.calls.match_names(activity.names, STREAM_NAME)
    of_one |= activity.calls.match_names(activity.names, EVENT_NAME)
    for row in rows.tolist():
        if row not in listed and (not of_one[row] or len(order.lanes) == 1):
            when = int(activity.calls.start[row])
            yield Marker(when, BLOCK, ALL_STREAMS, NO_EVENT, row)


def _load_rows(database: Database, table: str, activity: Activity, inside: slice) -> Columns:
    """The rows of this process and device whose calls are `inside`; `row` is that in
    Activity.calls.
    """
    columns = ("streamId?", "eventSyncId?", "deviceId?", "globalPid")
    rows, row = database.load(table, *columns, sort=False), activity.marker_calls[table]
    chosen = process_of(rows["globalPid"]) == activity.process
    chosen &= (row >= inside.start) & (row < inside.stop)
    if len(list_distinct(rows["deviceId"][chosen])) > 1:
        chosen &= rows["deviceId"] == activity.device
    picks = np.flatnonzero(chosen)
    return {
        **{name: values[picks] for name, values in rows.items()},
        "row": row[picks].astype(np.int64),
    }
