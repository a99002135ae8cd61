"""Gradients of an update are reduced once, not in the backward pass of each micro-batch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from gpu_profile.analysis.activity.activity import COMMUNICATION
from gpu_profile.analysis.replay.edits.causes import TRANSFERS
from gpu_profile.analysis.replay.edits.micro_batches import (
    describe_early_transfers,
    find_early_transfers,
)
from gpu_profile.analysis.replay.plan.make_plan import is_bound
from gpu_profile.analysis.replay.rank.rank_graph import RankGraph, make_pairs, pick_rows
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from tests.unit.analysis.replay.small_runs import Call, Op, join, make_rank
from tests.unit.analysis.replay.test_plan import predict_us

NAMES = (
    *("cudaLaunchKernel_v7000", "gemm", "gemm_grad", "adam"),
    *("ncclDevKernel_AllReduce", "ncclDevKernel_ReduceScatter", "ncclDevKernel_AllGather"),
    *("chunk_cat_cuda_kernel", "split_with_sizes_copy_out", "copy_in"),
)
LAUNCH, FORWARD, BACKWARD, UPDATE, REDUCE, SCATTER, GATHER, PACK, UNPACK, COPY_IN = range(10)
MAIN, AUTOGRAD, MB = 0, 1, 1 << 20


@dataclass(frozen=True)
class Launch:
    """A launch of 10 us, and what it launches."""

    name: int
    thread: int = MAIN
    size: int = 0
    stream: int = 0


COMPUTE_PASS = Launch(FORWARD), Launch(BACKWARD, AUTOGRAD)
SUM = Launch(REDUCE, AUTOGRAD, MB, stream=1)
MICRO_BATCH = *COMPUTE_PASS, SUM
SHARDED = (
    *(Launch(COPY_IN, stream=2), Launch(GATHER, MAIN, MB, stream=1), Launch(UNPACK)),
    *(*COMPUTE_PASS, Launch(PACK, AUTOGRAD), Launch(SCATTER, AUTOGRAD, MB, stream=1)),
)


def make_graph(step: Sequence[Launch]) -> RunGraph:
    """Two ranks of six steps: each launch after the one before, on whichever thread that was."""
    launches = [(number, launch) for number in range(6) for launch in step]
    calls, ops = list[Call](), list[Op]()
    for place, (number, launch) in enumerate(launches):
        begin = 10_000 * place
        calls.append(Call(begin, begin + 10_000, number))
        kind = {"kind": COMMUNICATION} if REDUCE <= launch.name <= GATHER else {}
        sizes = {"name": launch.name, "bytes": launch.size, "stream": launch.stream}
        ops.append(Op(begin + 11_000, begin + 13_000, place, number, **kind, **sizes))
    ranks = [make_rank(calls, ops, rank=rank) for rank in range(2)]
    return join(*(_spread(rank, [launch.thread for _, launch in launches]) for rank in ranks))


def _spread(graph: RankGraph, thread: Sequence[int]) -> RankGraph:
    """The graph with its calls on these threads, each handed over from the one before."""
    order = np.argsort(thread, kind="stable")
    number = np.argsort(order)
    calls = replace(graph.calls, thread=np.array(thread, np.int32))
    changes = np.flatnonzero(np.diff(thread))
    handovers = make_pairs(number[changes], number[changes + 1])
    return replace(
        graph,
        calls=pick_rows(calls, order),
        ops=replace(graph.ops, call=number[graph.ops.call].astype(np.int32)),
        links=replace(graph.links, handovers=handovers),
        names=NAMES,
        threads=(7, 8),
    )


def test_reductions_of_all_micro_batches_but_the_last_are_spared() -> None:
    """Of three launches of 10 us in each of three micro-batches, two; DDP's first bucket is equal
    to no other.
    """
    small = replace(SUM, size=MB // 2)
    graph = make_graph((*3 * (*COMPUTE_PASS, small, SUM), Launch(UPDATE)))
    assert predict_us(graph, TRANSFERS.apply) == pytest.approx(130 - 40, rel=0.02)
    assert "all but the last one's, 4 reductions a step with" in describe_early_transfers(graph)
    assert not is_bound(graph, TRANSFERS)


def test_weights_that_are_gathered_between_reductions_go_with_what_packs_them() -> None:
    """Of seven launches two are the model's. The first forward pass needs its weights, and what the
    last reduction needs stays.
    """
    graph = make_graph((*2 * SHARDED, Launch(UPDATE)))
    assert predict_us(graph, TRANSFERS.apply) == pytest.approx(150 - 50, rel=0.02)
    assert "and 1 times weights gathered" in describe_early_transfers(graph)


BUCKETS = *COMPUTE_PASS, SUM, Launch(BACKWARD, AUTOGRAD), SUM, Launch(UPDATE)
UPDATES = 2 * (*MICRO_BATCH, Launch(UPDATE))
ON_MAIN = *2 * (*COMPUTE_PASS, replace(SUM, thread=MAIN)), Launch(UPDATE)
STATISTICS = *2 * (*COMPUTE_PASS, replace(SUM, size=512)), Launch(UPDATE)
UNLIKE = *MICRO_BATCH, *COMPUTE_PASS, replace(SUM, size=2 * MB), Launch(UPDATE)
ONCE = *COMPUTE_PASS, *MICRO_BATCH, Launch(UPDATE)


@pytest.mark.parametrize("step", [BUCKETS, UPDATES, ON_MAIN, STATISTICS, UNLIKE, ONCE])
def test_other_reductions_stay(step: Sequence[Launch]) -> None:
    """Of buckets of one backward pass, of an update each, of tensor parallelism, of statistics, of
    two models, and of the last micro-batch alone.
    """
    graph = make_graph(step)
    assert not len(find_early_transfers(graph))
    assert not describe_early_transfers(graph)
    assert is_bound(graph, TRANSFERS)
