"""Synthetic ranks of one engine: each iteration is a CUDA graph with all-reduces inside."""

from collections.abc import Callable, Sequence
from functools import partial

from tests.generator.serving import PRODUCT, REDUCE, SAMPLE
from tests.unit.analysis.synthetic import STREAM, US, Rank, ranks_of

LAYERS, LAYER_US, REDUCE_US = 6, 40.0, 8.0
Late = Callable[[int, int, int], float]
"""us by which a rank is late in an iteration, before the all-reduce of a layer."""


def decode_sharded(count: int, iterations: int, late: Late, batch: int = 8) -> list[Rank]:
    """Ranks of one recording, each of which decodes with its shard of the model. Lateness before
    the first layer is of the host, before others of the GPU.
    """
    ranks = ranks_of(count)
    for number in range(iterations):
        begins = [rank.now for rank in ranks]
        for rank in ranks:
            rank.work(20 + late(rank.rank, number, 0))
            rank.copy(0.0002)
        _replay_together(ranks, partial(_be_late, late, number))
        for rank, begin in zip(ranks, begins, strict=True):
            rank.kernel(12, SAMPLE)
            rank.item()
            rank.range(f"execute_context_0(0)_generation_{batch}({batch})", begin)
    return ranks


def _be_late(late: Late, number: int, rank: int, layer: int) -> float:
    return late(rank, number, layer)


def _replay_together(ranks: Sequence[Rank], late: Callable[[int, int], float]) -> None:
    """Each rank launches its graph; an all-reduce ends on all ranks at once."""
    calls = [(rank.now, rank.call("cudaGraphLaunch_v10000", 10)) for rank in ranks]
    for rank, (launch_time, _) in zip(ranks, calls, strict=True):
        rank.free = max(rank.free, launch_time + 6 * US)
    for layer in range(LAYERS):
        for rank, (_, call) in zip(ranks, calls, strict=True):
            time = LAYER_US + (late(rank.rank, layer) if layer else 0)
            start, rank.free = rank.free + US, rank.free + US + int(time * US)
            _add_node(rank, call, PRODUCT, (start, rank.free), 2 * layer)
        end = max(rank.free for rank in ranks) + int(REDUCE_US * US)
        for rank, (_, call) in zip(ranks, calls, strict=True):
            _add_node(rank, call, REDUCE, (rank.free + US // 2, end), 2 * layer + 1)
            rank.free = end


def _add_node(rank: Rank, call: int, name: str, times: tuple[int, int], node: int) -> None:
    code = rank.recording.name(name)
    place = (rank.rank, STREAM, call, rank.process, code, code, 1000 + node)
    rank.recording.add("CUPTI_ACTIVITY_KIND_KERNEL", *times, *place)
