"""Where in the recording a reader sees a finding: the longest gap or wait, or a steady step."""

from collections.abc import Callable, Sequence

import numpy as np

from gpu_profile.analysis.findings.finding import Finding, Place
from gpu_profile.analysis.findings.view import RankView

FindPlace = Callable[[Sequence[RankView], Finding], Place | None]


def find_middle_step(views: Sequence[RankView], finding: Finding) -> Place | None:
    """The step in the middle of the steady ones, on the first rank that the finding names."""
    named = [view for view in views if view.rank in finding.ranks] or list(views)
    if not named:
        return None
    view = named[0]
    window = 1 + (view.first + view.stop) // 2 if view.has_steps else 0
    window = min(window, len(view.states.start) - 1)
    return Place(view.rank, int(view.states.start[window]), int(view.states.end[window]))


def find_longest_gap(*causes: int) -> FindPlace:
    """A function that gives the longest idle gap of these causes (of CAUSES)."""

    def find(views: Sequence[RankView], finding: Finding) -> Place | None:
        gaps = [
            # -rank: of equally long gaps max() then takes the lowest rank's.
            (ns, -view.rank, at)
            for view in views
            for cause, (ns, at) in view.common.idle.longest.items()
            if cause in causes and view.rank in finding.ranks
        ]
        if not gaps:
            return find_middle_step(views, finding)
        ns, rank, at = max(gaps)
        return Place(-rank, at, at + ns)

    return find


def find_longest_wait(views: Sequence[RankView], finding: Finding) -> Place | None:
    """The longest wait in a steady step of a rank that loses time for the ranks that come last."""
    waits = [
        wait
        for view in views
        if view.rank in finding.payers or not finding.payers
        for wait in _list_longest(view)
    ]
    if not waits:
        return find_middle_step(views, finding)
    ns, rank, start = max(waits)
    return Place(-rank, start, start + ns)


def _list_longest(view: RankView) -> list[tuple[int, int, int]]:
    """(ns, -rank, start) of the longest wait of one rank; nothing where it did not wait."""
    collectives, arrivals = view.states.collectives, view.split.arrivals
    last = np.clip(arrivals.last, collectives.start, collectives.end)
    steady = (collectives.start >= view.start) & (collectives.end <= view.end)
    length = np.where(arrivals.is_matched & steady, last - collectives.start, 0)
    if not length.any():
        return []
    row = int(np.argmax(length))
    return [(int(length[row]), -view.rank, int(collectives.start[row]))]
