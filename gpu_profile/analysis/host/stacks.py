"""Read the sampled stacks of host threads: Python and C/C++.

Python's are nsys' own (--python-sampling) or those of --annotate (pauses.py). nsys writes a
Python sample as an NVTX mark in its own domain, with the frames in the payload (exported with
--include-blobs=true). C/C++ samples (--sample=process-tree) are in the table
COMPOSITE_EVENTS, and their frames in SAMPLING_CALLCHAINS.
"""

import html
import re
import struct
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gpu_profile.analysis.arrays.columns import is_among, list_distinct
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.host.frames import Frame, Stack, make_printable
from gpu_profile.analysis.host.pauses import list_samples
from gpu_profile.analysis.store.cells import blob, integer, integer_or_none, text
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.records import read_records
from gpu_profile.analysis.store.schema import NVTX, NVTX_MARK, RUNTIME

PYTHON_SCHEMA = "Python Periodic Sampling"
# Header: domain, schema, size and offset of the payload. Sample: id of the thread state, state,
# number of frames. Frame: function, file, line.
_HEADER, SAMPLE, FRAME = struct.Struct("<4Q"), struct.Struct("<QiI"), struct.Struct("<3Q")
_MOST_FRAMES = 128
CALLCHAINS, SAMPLES = "SAMPLING_CALLCHAINS", "COMPOSITE_EVENTS"
_UNRESOLVED = re.compile(r"0x[0-9a-f]+$|\[Unknown\]|\[Broken backtraces\]")


@dataclass(frozen=True, eq=False)
class HostStacks:
    """Samples sorted by time (ns of the report). `stack` indexes `stacks`.

    The frames of a stack go from outermost to innermost. `kind` is "Python", "CPU", or "" without
    samples.
    """

    kind: str
    time: IntArray
    thread: IntArray
    stack: IntArray
    stacks: tuple[Stack, ...]

    def __len__(self) -> int:
        return len(self.time)


_NONE = np.empty(0, np.int64)
NO_STACKS = HostStacks("", _NONE, _NONE, _NONE, ())


@once_each
def load_stacks(database: Database) -> tuple[HostStacks, ...]:
    """The stacks of a report; Python's come first, because they name the user's own functions."""
    python = _load_python_stacks(database) or _index_samples("Python", list_samples(database))
    kinds = (python, _load_cpu_stacks(database))
    return tuple(stacks for stacks in kinds if stacks)


def _load_python_stacks(database: Database) -> HostStacks | None:
    columns = integer_or_none("schemaId"), text("name")
    names = read_records(database, "NVTX_PAYLOAD_SCHEMAS", *columns)
    schemas = {schema for schema, name in names if name == PYTHON_SCHEMA}
    if not schemas or not database.has(NVTX, "binaryData"):
        return None
    only = {"eventType": (NVTX_MARK,)}
    sample = integer("start"), integer("globalTid"), blob("binaryData")
    rows = read_records(database, NVTX, *sample, only=only)
    # A waiting thread gives the same bytes in every sample, so each distinct payload is decoded
    # once.
    payloads = {payload for *_, payload in rows if payload}
    frames = {payload: _parse_frames(payload, schemas) for payload in payloads}
    stacks = [
        (start, thread, frames[payload])
        for start, thread, payload in rows
        if payload and frames[payload]
    ]
    by_frames = _name_frames(database, {frames for *_, frames in stacks})
    return _index_samples(
        "Python", [(time, thread, by_frames[raw]) for time, thread, raw in stacks]
    )


RawStack = tuple[tuple[int, int, int], ...]


def _parse_frames(payload: bytes, schemas: Container[int | None]) -> RawStack:
    """(function, file, line) from innermost to outermost; empty for a payload of another schema."""
    if len(payload) < _HEADER.size + SAMPLE.size:
        return ()
    _, schema, size, offset = _HEADER.unpack_from(payload)
    if schema not in schemas or offset + size > len(payload) or size < SAMPLE.size:
        return ()
    count = SAMPLE.unpack_from(payload, offset)[2]
    first = offset + SAMPLE.size
    count = min(count, _MOST_FRAMES, (offset + size - first) // FRAME.size)
    # The line has 4 of the last 8 bytes; the others are the padding of C's struct.
    raw = struct.iter_unpack("<QQI4x", payload[first : first + count * FRAME.size])
    return tuple((function, file, line) for function, file, line in raw)


def _name_frames(database: Database, stacks: set[RawStack]) -> dict[RawStack, Stack]:
    ids = {number for stack in stacks for frame in stack for number in frame[:2]}
    # A damaged payload holds any 64 bits, and an int64 array takes none above 2^63.
    small = [number for number in ids if number < 1 << 62]
    names = database.names(np.array(small, np.int64))
    texts = {number: make_printable(html.unescape(names.get(number, ""))) for number in ids}
    frames = {
        frame: Frame(texts[frame[0]], texts[frame[1]], frame[2])
        for stack in stacks
        for frame in stack
    }
    return {stack: tuple(frames[frame] for frame in reversed(stack)) for stack in stacks}


def _load_cpu_stacks(database: Database) -> HostStacks | None:
    """C/C++ stacks of the threads that call CUDA; a data loader's workers can have many more
    samples.
    """
    rows = database.load(SAMPLES, "id", "start", "globalTid", sort=False)
    chains = database.load(CALLCHAINS, "id", "symbol", "module", "stackDepth", sort=False)
    if not len(rows["id"]) or not len(chains["id"]):
        return None
    callers = list_distinct(database.load(RUNTIME, "globalTid", sort=False)["globalTid"])
    has_caller = is_among(rows["globalTid"], callers)
    rows = {name: values[has_caller] for name, values in rows.items()}
    has_sample = np.isin(chains["id"], rows["id"])
    chains = {name: values[has_sample] for name, values in chains.items()}
    stacks = _load_chains(chains)
    frames = _make_frames(database, chains)
    by_frames = {raw: _make_stack(raw, frames) for raw in set(stacks.values())}
    samples = [
        (start, thread, by_frames[stacks[number]])
        for number, start, thread in zip(
            rows["id"].tolist(), rows["start"].tolist(), rows["globalTid"].tolist(), strict=True
        )
        if number in stacks and by_frames[stacks[number]]
    ]
    return _index_samples("CPU", samples)


Chain = tuple[tuple[int, int], ...]


def _load_chains(chains: dict[str, IntArray]) -> dict[int, Chain]:
    """(symbol, module) from outermost to innermost, by the sample's id."""
    order = np.lexsort((-chains["stackDepth"], chains["id"]))
    ids = chains["id"][order]
    pairs = list(
        zip(chains["symbol"][order].tolist(), chains["module"][order].tolist(), strict=True)
    )
    starts = np.unique(ids, return_index=True)[1].tolist()
    return {
        int(ids[start]): tuple(pairs[start:end][-_MOST_FRAMES:])
        for start, end in pairwise([*starts, len(ids)])
    }


def _make_frames(database: Database, chains: dict[str, IntArray]) -> dict[tuple[int, int], Frame]:
    names = database.names(np.r_[chains["symbol"], chains["module"]])
    pairs = set(zip(chains["symbol"].tolist(), chains["module"].tolist(), strict=True))
    texts = {key: make_printable(name) for key, name in names.items()}
    return {pair: _make_frame(texts[pair[0]], texts[pair[1]]) for pair in pairs}


def _make_frame(symbol: str, module: str) -> Frame:
    """A C/C++ frame. An unresolved address is named by its module: `[libcuda.so.1]`."""
    name = module.rpartition("/")[2]
    if _UNRESOLVED.match(symbol):
        return Frame("" if _UNRESOLVED.match(name) else f"[{name.strip('[]')}]", module)
    return Frame(symbol.partition("(")[0] or symbol, module)


def _make_stack(raw: Chain, frames: dict[tuple[int, int], Frame]) -> Stack:
    """The stack without unknown frames; of equal consecutive frames (an interpreter's loop) only
    one.
    """
    stack = [frames[pair] for pair in raw if frames[pair].function]
    return tuple(
        frame for index, frame in enumerate(stack) if not index or frame != stack[index - 1]
    )


def _index_samples(kind: str, samples: Sequence[tuple[int, int, Stack]]) -> HostStacks | None:
    if not samples:
        return None
    ordered = sorted(samples, key=lambda sample: sample[:2])
    stacks = dict.fromkeys(stack for *_, stack in ordered)
    place = {stack: index for index, stack in enumerate(stacks)}
    time, thread = (np.array([sample[key] for sample in ordered], np.int64) for key in (0, 1))
    index = np.array([place[stack] for *_, stack in ordered], np.int64)
    return HostStacks(kind, time, thread, index, tuple(stacks))
