"""The rows of a trace's events in nsys' schema, and what the rows of other tables need of them."""

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpu_profile.analysis.kineto.annotations import TraceMarks
from gpu_profile.analysis.kineto.collectives import describe_collective
from gpu_profile.analysis.kineto.event_waits import EventWaits
from gpu_profile.analysis.kineto.events import Event
from gpu_profile.analysis.store.schema import (
    KERNEL,
    MEMCPY,
    MEMSET,
    NVTX,
    NVTX_PUSH_POP,
    RUNTIME,
    SYNCHRONIZATION,
)
from gpu_profile.formats.function_names import split_name

_COPY = re.compile(r"Memcpy (\w+)(?: \((\w+) -> (\w+)\))?")
_COPY_KINDS = {"HtoD": 1, "DtoH": 2, "DtoD": 8, "HtoH": 9, "PtoP": 10}
_MEMORY_KINDS = {"Pageable": 0, "Pinned": 1, "Device": 2, "Array": 3, "Managed": 4}
"""CUPTI's numbers, as nsys writes them."""


@dataclass
class Collected:
    """What is known of the events so far. Names are numbered as they come."""

    marks: TraceMarks
    names: dict[str, int] = field(default_factory=dict)
    pids: dict[int, int] = field(default_factory=dict)
    """How many calls and annotations each process has."""
    collectives: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    """NCCL's call and its payload by the correlation of the kernel's launch."""
    waits: EventWaits = field(default_factory=EventWaits)

    def name(self, text: str) -> int:
        return self.names.setdefault(text, len(self.names) + 1)

    def thread(self, event: Event) -> int:
        """The globalTid of a call or an annotation."""
        pid, tid = (value if isinstance(value, int) else 0 for value in (event.pid, event.tid))
        self.pids[pid] = self.pids.get(pid, 0) + 1
        # nsys' layout: 24 bits of the thread, 24 of the process, then the host's.
        return (1 << 48) | (pid & 0xFFFFFF) << 24 | (tid & 0xFFFFFF)


Row = tuple[str, tuple[object, ...]]


def _place(event: Event) -> tuple[object, ...]:
    """deviceId, contextId, streamId, correlationId; older traces name the first two by pid, tid."""
    args = event.args
    device = event.pid if args.device < 0 else args.device
    stream = event.tid if args.stream < 0 else args.stream
    return device, args.context, stream, args.correlation


def _make_kernel(collected: Collected, event: Event) -> Row:
    args = event.args
    names = collected.name(event.name), collected.name(_shorten(event.name))
    if collective := describe_collective(args):
        collected.collectives[args.correlation] = collective
    launch = (args.registers, *args.grid, *args.block, 0, args.shared_memory)
    return KERNEL, (*_place(event), *names, *launch)


@functools.cache
def _shorten(name: str) -> str:
    """The function alone: `gemm` of `void ns::gemm<4>(int)`."""
    return split_name(name)[0] or name


def _make_copy(collected: Collected, event: Event) -> Row:
    match = _COPY.match(event.name)
    kind, source, target = match.groups() if match else ("", "", "")
    kinds = (_COPY_KINDS.get(kind, 0), _MEMORY_KINDS.get(source, 2), _MEMORY_KINDS.get(target, 2))
    return MEMCPY, (*_place(event), event.args.bytes, *kinds)


def _make_memset(collected: Collected, event: Event) -> Row:
    return MEMSET, (*_place(event), event.args.bytes, 2)


def _make_sync(collected: Collected, event: Event) -> Row:
    collected.waits.add(event)
    return SYNCHRONIZATION, (*_place(event), event.args.waits_for)


def _make_call(collected: Collected, event: Event) -> Row:
    return RUNTIME, (event.args.correlation, collected.name(event.name), collected.thread(event))


def _make_range(collected: Collected, event: Event) -> Row:
    thread = collected.thread(event)
    domain, text = collected.marks.split_name(event.name, thread)
    return NVTX, (NVTX_PUSH_POP, domain, collected.name(text), thread)


MAKERS: Mapping[str, Callable[[Collected, Event], Row]] = {
    "kernel": _make_kernel,
    "copy": _make_copy,
    "memset": _make_memset,
    "call": _make_call,
    "sync": _make_sync,
    "range": _make_range,
}
