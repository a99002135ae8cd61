"""BatchNorm makes and uses statistics in one launch, and SyncBatchNorm gathers them between."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from gpu_profile.analysis.activity.activity import COMMUNICATION
from gpu_profile.analysis.replay.edits.causes import WAITS
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from tests.unit.analysis.replay.small_runs import Call, Op, join, make_rank
from tests.unit.analysis.replay.test_plan import predict_us

NAMES = (
    *("cudaLaunchKernel_v7000", "conv", "vectorized_elementwise_kernel<FillFunctor<int>>"),
    *("batch_norm_collect_statistics_kernel", "CatArrayBatchedCopy", "ncclDevKernel_AllGather"),
    *("batch_norm_transform_input_kernel", "batch_norm_backward_reduce_kernel"),
    *("ncclDevKernel_AllReduce", "batch_norm_backward_elemt_kernel"),
)
_, CONV, FILL, COLLECT, CAT, GATHER, TRANSFORM, REDUCE, SUM, ELEMENTWISE = range(10)
FORWARD = CONV, FILL, COLLECT, CAT, GATHER, TRANSFORM
BACKWARD = REDUCE, CAT, SUM, ELEMENTWISE, CONV


def make_graph(layers: Sequence[int]) -> RunGraph:
    """Two ranks of five steps of these launches, each of 10 us."""
    calls, ops = list[Call](), list[Op]()
    for step in range(5):
        for name in layers:
            kind = {"kind": COMMUNICATION} if name in (GATHER, SUM) else {}
            begin = 10_000 * len(calls)
            ops.append(Op(begin + 11_000, begin + 13_000, len(calls), step, name=name, **kind))
            calls.append(Call(begin, begin + 10_000, step))
    return join(*(replace(make_rank(calls, ops, rank=rank), names=NAMES) for rank in range(2)))


def test_each_pass_of_a_layer_is_one_launch() -> None:
    """Of 22 launches four of each layer are left: two of the model, and two of the norm."""
    graph = make_graph(2 * (*FORWARD, *BACKWARD))
    assert predict_us(graph, WAITS.apply) == pytest.approx(80, rel=0.03)
    assert WAITS.describe
    told = "SyncBatchNorm gathers statistics of all ranks 4 times a step: the cost holds the 14 "
    assert told in WAITS.describe(graph)


NATIVE = CONV, FILL, COLLECT, TRANSFORM, CONV, GATHER
UNUSED = CONV, COLLECT, GATHER, CONV


@pytest.mark.parametrize("layers", [NATIVE, UNUSED])
def test_other_statistics_stay(layers: Sequence[int]) -> None:
    """Of a BatchNorm without cuDNN, which sends nothing, and of one whose use is not seen."""
    graph = make_graph(layers)
    assert predict_us(graph, WAITS.apply) == pytest.approx(10 * len(layers), rel=0.03)
    assert WAITS.describe
    assert not WAITS.describe(graph)
