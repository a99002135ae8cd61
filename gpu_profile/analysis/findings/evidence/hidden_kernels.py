"""Kernels that a recording does not show: those of CUDA graphs that nsys traced as a whole."""

from collections.abc import Sequence

from gpu_profile.analysis.activity.load.operations import GRAPH_NAME
from gpu_profile.analysis.findings.finding import Judgement
from gpu_profile.analysis.findings.view import RankView

MOSTLY = 0.5
"""The part of the busy time in graphs: a GPU that runs them for longer is not judged by the
kernels beside them."""
HIDDEN = (
    "kernels inside CUDA graphs, such as fp32 matrix products, attention without a fused kernel or "
    "chains of elementwise kernels: nsys traced graphs as a whole; --cuda-graph-trace=node shows "
    "them"
)


def judge_hidden_kernels(views: Sequence[RankView]) -> Judgement:
    """Say which kinds of kernels are not judged."""
    return Judgement(unjudged=(HIDDEN,) if any(map(_are_hidden, views)) else ())


def _are_hidden(view: RankView) -> bool:
    graphs = view.common.kernels.get(GRAPH_NAME)
    busy = int(view.states.times["busy"][0])
    return graphs is not None and graphs.total >= MOSTLY * busy
