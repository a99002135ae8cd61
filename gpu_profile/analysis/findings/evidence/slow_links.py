"""Finding: all-reduces run far below the bandwidth of the GPUs' NVLinks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.comm.message_sizes import bus_bandwidth
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.finding import Finding, Judgement, format_ranks
from gpu_profile.analysis.findings.view import RankView, View
from gpu_profile.analysis.tables.comm_kernels import KINDS

# GB/s in one direction over all NVLinks of a GPU on an HGX board, by the start of its name.
# NVIDIA's data sheets give the sum of both directions (H200: 900).
NVLINK = {
    "NVIDIA B200": 900.0,
    "NVIDIA H200": 450.0,
    "NVIDIA H100 80GB HBM3": 450.0,
    "NVIDIA A100-SXM": 300.0,
    "Tesla V100-SXM": 150.0,
}
# nccl-tests reach 60 to 80 % with large messages, a busy step half of that; PCIe and shared memory
# stay below 10 %.
FAR_BELOW = 0.15
LEAST_MESSAGE = 16e6
# Smaller messages are mostly latency: nccl-tests on four H200s reach 202 GB/s with 8 MiB, 102 with
# 2 MiB and 28 with 0.5 MiB, of 348 with 512 MiB.
LEAST_SINGLE = 8 << 20
UNKNOWN = "bandwidth of collectives: the reports do not say their message sizes"
ADVICE = (
    "NCCL does not seem to use NVLink: look at the lines 'via P2P' or 'via SHM' of NCCL_DEBUG=INFO "
    "and for NCCL_P2P_DISABLE, check nvidia-smi topo -m and nvlink -s, run the NCCL tests "
    "(invoke test --suite nccl)."
)


@dataclass(frozen=True, eq=False)
class LinkFacts:
    """`gpu`: the model of the rank's GPU, "NVIDIA H200" for example."""

    gpu: str


def judge_links(views: Sequence[View[LinkFacts]]) -> Judgement:
    """Judge the bus bandwidth within one host, for GPU models in NVLINK and known message sizes."""
    peers = [view for view in views if view.split.arrivals.is_matched.any()]
    if not peers:
        return Judgement()
    if not any(_knows_sizes(view) for view in peers):
        return Judgement(unjudged=(UNKNOWN,))
    rates = {view.rank: _compute_bus_bandwidth(view) for view in peers}
    if not all(rates.values()):
        return Judgement()  # too little data to measure a link
    links = {_compute_link_bandwidth(view) for view in peers}
    if len(links) > 1 or None in links or len({view.common.host for view in peers}) > 1:
        return Judgement(unjudged=("bandwidth of collectives: the links are not known",))
    link = links.pop() or 0.0
    rate = float(np.median(list(rates.values())))
    if rate >= FAR_BELOW * link:
        return Judgement()
    return Judgement((_make_finding(peers, rate, link),))


def _find_transfers(view: RankView) -> tuple[NDArray[np.bool_], IntArray]:
    """(mask, ns): the matched collectives of the steady steps, and for every collective the time
    from the last arrival to its end, hidden or not.
    """
    collectives, arrivals = view.states.collectives, view.split.arrivals
    last = np.clip(arrivals.last, collectives.start, collectives.end)
    return arrivals.is_matched & (collectives.start >= view.start), collectives.end - last


def _measure_transfer(view: RankView) -> float:
    """The time (ns) in a step in which collectives move data."""
    is_steady, moving = _find_transfers(view)
    return float(moving[is_steady].sum()) / view.steps


def _knows_sizes(view: RankView) -> bool:
    is_steady, _ = _find_transfers(view)
    return bool(
        (view.states.collectives.bytes[is_steady] > 0).any() or view.mean(view.states.reduced_bytes)
    )


def _compute_bus_bandwidth(view: RankView) -> float:
    """The bus bandwidth (GB/s) of a rank's large messages in its steady steps; 0 with too few."""
    collectives, arrivals = view.states.collectives, view.split.arrivals
    is_steady, moving = _find_transfers(view)
    large = is_steady & (collectives.bytes >= LEAST_SINGLE)
    if collectives.bytes[large].sum() >= LEAST_MESSAGE * view.steps:
        bus = sum(
            bus_bandwidth(float(size), 1, int(ranks), KINDS[kind])
            for size, ranks, kind in zip(
                collectives.bytes[large],
                arrivals.ranks[large],
                collectives.kind[large],
                strict=True,
            )
        )
        return bus / max(1.0, float(moving[large].sum()))
    moved, ns = view.mean(view.states.reduced_bytes), _measure_transfer(view)
    ranks = int(arrivals.ranks.max())
    is_measurable = moved >= LEAST_MESSAGE and ranks > 1 and not collectives.bytes.any()
    return bus_bandwidth(moved, ns, ranks) if is_measurable else 0.0


def _count_moved_bytes(view: RankView) -> float:
    """The bytes that collectives move in a step."""
    is_steady, _ = _find_transfers(view)
    bytes_per_step = float(view.states.collectives.bytes[is_steady].sum()) / view.steps
    return bytes_per_step or view.mean(view.states.reduced_bytes)


def _compute_link_bandwidth(view: View[LinkFacts]) -> float | None:
    name = view.fact.gpu
    return next((rate for prefix, rate in NVLINK.items() if name.startswith(prefix)), None)


def _make_finding(views: Sequence[View[LinkFacts]], rate: float, link: float) -> Finding:
    moved = float(np.mean([_count_moved_bytes(view) for view in views]))
    ms = float(np.mean([_measure_transfer(view) for view in views])) / 1e6
    ranks = tuple(sorted({view.rank for view in views}))
    evidence = (
        f"{format_ranks(ranks)}: collectives move {moved / 1e6:.1f} MB a step (as NCCL or the "
        f"copies out of DDP's buckets tell) in {ms:.2f} ms: {rate:.1f} GB/s bus bandwidth",
        f"{views[0].fact.gpu} has {link:.0f} GB/s of NVLink in each direction",
    )
    return Finding("low_bandwidth", ranks, "links", evidence, ADVICE)
