"""Graphs of one rank made by hand: a few calls and operations, times in ns."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE, COPY, SET
from gpu_profile.analysis.activity.comm.lanes import Arrivals, Collectives, no_arrivals
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.rank.rank_graph import (
    GpuOps,
    HostCalls,
    Links,
    RankGraph,
    make_pairs,
)
from gpu_profile.analysis.replay.run.join import join_graphs
from gpu_profile.analysis.replay.run.run_graph import RunGraph

LAUNCH, SYNC, KERNEL, ALL_REDUCE, MALLOC, FREE_ASYNC, TO_HOST, FILL, TO_DEVICE, ON_DEVICE = range(
    10
)
NAMES = (
    "cudaLaunchKernel_v7000",
    "cudaStreamSynchronize",
    "gemm",
    "ncclDevKernel_AllReduce",
    "cudaMalloc_v3020",
    "cudaFreeAsync_v11020",
    "copy DtoH",
    "memset",
    "copy HtoD",
    "copy DtoD",
)
OP_NAMES = {COMPUTE: KERNEL, COMMUNICATION: ALL_REDUCE, COPY: TO_HOST, SET: FILL}


@dataclass(frozen=True)
class Call:
    start: int
    end: int
    step: int
    name: int = LAUNCH
    silent: int = 0
    waits: bool = False


@dataclass(frozen=True)
class Op:
    start: int
    end: int
    call: int
    step: int
    kind: int = COMPUTE
    stream: int = 0
    bytes: int = 0
    blocks: int = 0
    threads: int = 0
    name: int | None = None


def make_rank(
    calls: Sequence[Call],
    ops: Sequence[Op],
    returns: Sequence[tuple[int, int]] = (),
    events: Sequence[tuple[int, int]] = (),
    rank: int = 0,
) -> RankGraph:
    """On a GPU of 132 multiprocessors. `returns`: (operation, call that waits for it); `events`:
    (operation, one that waits).
    """
    links = Links(
        events=make_pairs([source for source, _ in events], [target for _, target in events]),
        returns=make_pairs([source for source, _ in returns], [target for _, target in returns]),
        handovers=make_pairs([], []),
        queue=make_pairs([], []),
        reads=make_pairs([], []),
    )
    count = 1 + max(call.step for call in calls)
    streams = tuple(range(1 + max(op.stream for op in ops)))
    parts = (_make_host(calls), _make_gpu(ops), links, NAMES, ("",))
    return RankGraph(rank, 0, 0, count, *parts, threads=(7,), streams=streams, multiprocessors=132)


def _make_host(calls: Sequence[Call]) -> HostCalls:
    return HostCalls(
        start=_column(call.start for call in calls),
        end=_column(call.end for call in calls),
        silent=_column(call.silent for call in calls),
        thread=np.zeros(len(calls), np.int32),
        name=_column(call.name for call in calls).astype(np.int32),
        step=_column(call.step for call in calls).astype(np.int32),
        place=np.zeros(len(calls), np.int32),
        waits=np.array([call.waits for call in calls]),
    )


def _make_gpu(ops: Sequence[Op]) -> GpuOps:
    is_communication = np.array([op.kind == COMMUNICATION for op in ops])
    names = _column(OP_NAMES[op.kind] if op.name is None else op.name for op in ops)
    return GpuOps(
        start=_column(op.start for op in ops),
        end=_column(op.end for op in ops),
        bytes=_column(op.bytes for op in ops),
        grid=np.zeros(len(ops), np.int64),
        blocks=_column(op.blocks for op in ops),
        threads=_column(op.threads for op in ops),
        call=_column(op.call for op in ops).astype(np.int32),
        comm=np.where(is_communication, np.cumsum(is_communication) - 1, -1).astype(np.int32),
        kind=_column(op.kind for op in ops).astype(np.int8),
        stream=_column(op.stream for op in ops).astype(np.int32),
        name=names.astype(np.int32),
        step=_column(op.step for op in ops).astype(np.int32),
        place=np.zeros(len(ops), np.int32),
        pageable=np.array([op.kind == COPY for op in ops]),
    )


def join(*graphs: RankGraph) -> RunGraph:
    """The graph of all ranks; the n-th communication of each rank is one collective."""
    collectives, arrivals = list[Collectives](), list[Arrivals]()
    for graph in graphs:
        ops = graph.ops
        rows = ops.kind == COMMUNICATION
        count = int(rows.sum())
        names = np.zeros(count, np.int64), ("ncclDevKernel_AllReduce",), np.zeros(count, np.int64)
        collectives.append(
            Collectives(ops.start[rows], ops.end[rows], np.zeros(count, np.int64), *names)
        )
        of_rank = no_arrivals(count)
        of_rank.group[:], of_rank.order[:] = 0, np.arange(count)
        arrivals.append(of_rank)
    return join_graphs(graphs, collectives, arrivals)


def _column(values: Iterable[int]) -> IntArray:
    return np.fromiter(values, np.int64)


def make_steps(kernels: Sequence[tuple[str, float]], launches: int = 0) -> RunGraph:
    """Each of five steps: these kernels (name, us) one after the other on an H200, launched far
    ahead, each by a call of its own or all by so many.
    """
    calls, ops, now = list[Call](), list[Op](), 1_000_000
    names = tuple(dict.fromkeys(name for name, _ in kernels))
    for step in range(5):
        for place, (name, us) in enumerate(kernels):
            if place < (launches or len(kernels)):
                calls.append(Call(1_000 * len(calls), 1_000 * len(calls) + 500, step, name=0))
            end = now + int(1_000 * us)
            ops.append(Op(now, end, len(calls) - 1, step, name=names.index(name)))
            now = end
    return join(replace(make_rank(calls, ops), names=names, gpu="NVIDIA H200"))
