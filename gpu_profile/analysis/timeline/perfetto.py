"""Encode Perfetto's trace format (protocol buffers), many events at a time.

The field numbers are from these files in
https://github.com/google/perfetto/tree/main/protos/perfetto/trace:
trace_packet.proto, track_event/track_event.proto, track_event/track_descriptor.proto and
interned_data/interned_data.proto. Numbers are written as varints of fixed width, so
that numpy can lay out a block of packets as one matrix of bytes: rows are packets, cut to their
length. A varint may be longer than necessary: https://protobuf.dev/programming-guides/encoding/
"""

import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.closing import Closing

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
NO_FLOW = 0
_BLOCK = 1 << 16  # packets encoded together: some MB of memory, whatever the size of the trace
_TIME, _TRACK, _NAME, _EXTRA = 3, 21, 27, 31  # byte offsets of the varints in a packet
_LENGTH = {BEGIN: 31, END: 26, INSTANT: 31, COUNTER: 36}
_FLOW_LENGTH = 10
_SEQUENCE = b"\x50\x01"  # trusted_packet_sequence_id: one writer
_TIME_SHIFT = 1 << 52  # nsys' times are relative to the session's start and can be negative


@dataclass(frozen=True, eq=False)
class Events:
    """Packets of one track in file order, arrays of one length. `kind` is BEGIN, END, …

    `flow` is NO_FLOW or an id. A flow starts at the slice, or ends at it if `arrives`. `value`
    holds the values of a counter track.
    """

    time: IntArray
    kind: IntArray
    name: IntArray
    flow: IntArray
    arrives: bool = False
    value: NDArray[np.float64] | None = None


class TraceWriter(Closing):
    """Write a gzipped trace to a binary file; equal calls give equal bytes.

    Tracks and names are numbered in the order of calls. Use it in a `with` statement, which leaves
    the binary file open.
    """

    def __init__(self, file: IO[bytes]) -> None:
        # Without a name and a time in the header, so that equal calls give equal bytes.
        self._file = gzip.GzipFile("", "wb", 4, file, mtime=0)
        self._names: dict[str, int] = {}
        self._tracks = 0
        cleared = _encode_number_field(13, 1)  # sequence_flags: the interned names start here
        self._file.write(_encode_message(1, _SEQUENCE + cleared))

    def close(self) -> None:
        """End the compressed trace; the binary file stays open."""
        self._file.close()

    def process(self, name: str) -> int:
        """Add a group of tracks and return its number.

        The number is used as its "pid", because real pids repeat between hosts.
        """
        number = self._next_track()
        process = _encode_number_field(1, number) + _encode_text(6, name)
        return self._describe(number, _encode_message(3, process) + _encode_number_field(11, 3))

    def track(self, name: str, parent: int, unit: str | None = None) -> int:
        """Add a track of slices, or with a unit of a counter; shown in the order of calls."""
        number = self._next_track()
        fields = (
            _encode_text(2, name)
            + _encode_number_field(5, parent)
            + _encode_number_field(12, number)
        )
        if unit is not None:
            fields += _encode_message(8, _encode_text(6, unit))
        return self._describe(number, fields)

    def names(self, texts: Iterable[str]) -> dict[str, int]:
        """The numbers of these names; new names are written into the trace."""
        numbers = {}
        fresh = []
        for text in texts:
            if text not in self._names:
                self._names[text] = len(self._names) + 1
                fresh.append(
                    _encode_message(
                        2, _encode_number_field(1, self._names[text]) + _encode_text(2, text)
                    )
                )
            numbers[text] = self._names[text]
        if fresh:
            flags = _encode_number_field(13, 2)
            self._file.write(
                _encode_message(1, _SEQUENCE + flags + _encode_message(12, b"".join(fresh)))
            )
        return numbers

    def write(self, track: int, events: Events) -> None:
        """Write the events of one track, block by block."""
        for first in range(0, len(events.time), _BLOCK):
            self._file.write(_encode_packets(track, events, slice(first, first + _BLOCK)))

    def _next_track(self) -> int:
        self._tracks += 1
        return self._tracks

    def _describe(self, number: int, fields: bytes) -> int:
        self._file.write(
            _encode_message(
                1, _SEQUENCE + _encode_message(60, _encode_number_field(1, number) + fields)
            )
        )
        return number


def _encode_packets(track: int, events: Events, rows: slice) -> bytes:
    kind, flow = events.kind[rows], events.flow[rows]
    has_flow = flow != NO_FLOW
    length = np.select([kind == key for key in _LENGTH], list(_LENGTH.values()))
    length = length + has_flow * _FLOW_LENGTH
    packets = np.zeros((len(kind), 41), np.uint8)
    # Trace: packet (field 1). TracePacket: timestamp (8), trusted_packet_sequence_id (10) = 1,
    # sequence_flags (13) = 2, track_event (11).
    packets[:, (0, 2, 12, 13, 14, 15, 16)] = (0x0A, 0x40, 0x50, 1, 0x68, 2, 0x5A)
    packets[:, 1], packets[:, 17] = length - 2, length - 18
    # TrackEvent: type (9), track_uuid (11), name_iid (10).
    packets[:, 18], packets[:, 19], packets[:, 20], packets[:, 26] = 0x48, kind, 0x58, 0x50
    _encode_varint(packets, _TIME, 9, events.time[rows] + _TIME_SHIFT)
    _encode_varint(packets, _TRACK, 5, np.full(len(kind), track))
    _encode_varint(packets, _NAME, 4, events.name[rows])
    # terminating_flow_ids (48) or flow_ids (47), of 8 bytes.
    packets[:, _EXTRA : _EXTRA + 2] = (0x81, 3) if events.arrives else (0xF9, 2)
    packets[:, _EXTRA + 2 : _EXTRA + 10] = flow.astype("<u8").view(np.uint8).reshape(-1, 8)
    if events.value is not None:
        # double_counter_value (44) in place of a name and a flow.
        packets[:, 26:28] = (0xE1, 2)
        packets[:, 28:36] = events.value[rows].astype("<f8").view(np.uint8).reshape(-1, 8)
    packet_bytes: NDArray[np.uint8] = packets[np.arange(41) < length[:, None]]
    return packet_bytes.tobytes()


def _encode_varint(packets: NDArray[np.uint8], at: int, width: int, values: IntArray) -> None:
    for place in range(width):
        more = 0x80 if place < width - 1 else 0
        packets[:, at + place] = ((values >> (7 * place)) & 0x7F) | more


def _encode_number(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _encode_number_field(field: int, value: int) -> bytes:
    return _encode_number(field << 3) + _encode_number(value)


def _encode_message(field: int, content: bytes) -> bytes:
    return _encode_number(field << 3 | 2) + _encode_number(len(content)) + content


def _encode_text(field: int, value: str) -> bytes:
    return _encode_message(field, value.encode("utf-8", "replace"))
