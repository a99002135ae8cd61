"""What the replay needs of each report, collected where the report is."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.replay.rank.build_graph import build_rank_graph
from gpu_profile.analysis.replay.rank.rank_graph import NoGraph, RankGraph
from gpu_profile.analysis.replay.run.matched_ranks import (
    RankTimes,
    find_rank_times,
    match_ranks,
)
from gpu_profile.analysis.replay.run_replay import Replay, prepare_replay
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope


@dataclass(frozen=True)
class ReplayPart:
    """The graphs and times of one report's ranks; picklable, half a MB."""

    graphs: tuple[RankGraph | NoGraph, ...]
    ranks: tuple[RankTimes, ...]


def collect_replay(database: Database, scope: Scope) -> ReplayPart:
    """The graph and the times of each rank of a report."""
    activities = activities_of(database, scope)
    ranks = tuple(find_rank_times(activity, scope.offset_ns) for activity in activities)
    return ReplayPart(collect_graphs(database, scope), ranks)


def collect_graphs(database: Database, scope: Scope) -> tuple[RankGraph | NoGraph, ...]:
    """The graph of each rank of a report."""
    return tuple(
        build_rank_graph(activity, database, scope.offset_ns, scope.run_ranks)
        for activity in activities_of(database, scope)
    )


def join_parts(parts: Sequence[ReplayPart], clock_error_ns: int = 0) -> Replay | str:
    """The replay of all reports; or on one line why there is none."""
    graphs = list(chain.from_iterable(part.graphs for part in parts))
    ranks = list(chain.from_iterable(part.ranks for part in parts))
    return prepare_replay(graphs, match_ranks(ranks, clock_error_ns), clock_error_ns)
