"""Causes of some steps alone, of which the replayed steps hold more or less than all others."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpu_profile.analysis.findings.rule import FindingRule
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.step_times import SETTLING


def measure_portions(
    rules: Mapping[str, FindingRule[Any]],
    by_kind: Mapping[str, Sequence[View[Any]]],
    replay: Replay,
) -> Mapping[str, float]:
    """By kind of finding, how many times as much of its cause all steady steps hold as the replayed
    ones, in the mean of a step; inf where these hold none of it.
    """
    portions = dict[str, float]()
    for kind, rule in rules.items():
        if rule.excess is None:
            continue
        view_of = {(view.rank, view.states.device): view for view in by_kind[kind]}
        steady, replayed = 0.0, 0.0
        for graph in replay.graph.ranks:
            view = view_of[graph.rank, graph.device]
            values, settled = rule.excess(view), graph.first + 1 + (graph.count - 1) // SETTLING
            steady += float(np.mean(values[view.steady_slice]))
            replayed += float(np.mean(values[settled : graph.first + graph.count]))
        portions[kind] = steady / replayed if replayed else float("inf")
    return portions
