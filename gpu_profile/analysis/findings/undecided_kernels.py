"""Kernels that may be communication by their names, and are in no family that is known."""

from collections.abc import Sequence

from gpu_profile.analysis.findings.finding import Judgement, View, format_ranks
from gpu_profile.analysis.tables.comm_kernels import looks_like_communication

# Counted as compute, a kernel with less of a rank's busy time changes no finding.
LEAST_SHARE = 0.05


def judge_undecided_kernels(views: Sequence[View]) -> Judgement:
    """Name each one, so that a reader does not take a wait for other ranks for compute."""
    shares: dict[str, dict[int, float]] = {}
    for view in views:
        busy = max(1, int(view.facts.states.own["busy"][0]))
        for name, time in view.facts.kernels.items():
            if time.total >= LEAST_SHARE * busy and looks_like_communication(name):
                shares.setdefault(name, {})[view.rank] = time.total / busy
    return Judgement(unjudged=tuple(_note(name, shares[name]) for name in sorted(shares)))


def _note(name: str, shares: dict[int, float]) -> str:
    return (
        f"whether the kernel {name} communicates ({100 * max(shares.values()):.0f} % of the busy "
        f"time of {format_ranks(shares)}): it is in no known family, and counted as compute"
    )
