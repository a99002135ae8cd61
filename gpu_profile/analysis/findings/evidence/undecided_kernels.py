"""Note kernels whose names look like communication but belong to no known family."""

from collections.abc import Sequence

from gpu_profile.analysis.findings.finding import Judgement, format_ranks
from gpu_profile.analysis.findings.view import RankView
from gpu_profile.analysis.tables.comm_kernels import looks_like_communication

# A kernel with less than 5 % of a rank's busy time changes no finding if counted as compute.
LEAST_SHARE = 0.05


def judge_undecided_kernels(views: Sequence[RankView]) -> Judgement:
    """Name each such kernel, because waiting for other ranks could be counted as compute."""
    shares: dict[str, dict[int, float]] = {}
    for view in views:
        busy = max(1, int(view.states.times["busy"][0]))
        for name, time in view.common.kernels.items():
            if time.total >= LEAST_SHARE * busy and looks_like_communication(name):
                shares.setdefault(name, {})[view.rank] = time.total / busy
    return Judgement(unjudged=tuple(_note(name, shares[name]) for name in sorted(shares)))


def _note(name: str, shares: dict[int, float]) -> str:
    return (
        f"whether the kernel {name} communicates ({100 * max(shares.values()):.0f} % of the busy "
        f"time of {format_ranks(shares)}): it is in no known family, and counted as compute"
    )
