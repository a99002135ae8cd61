"""Table critical_path: what the steps' time consists of, over all ranks, threads and streams."""

from collections.abc import Sequence

from gpu_profile.analysis.replay.collect import ReplayPart, collect_replay, join_parts
from gpu_profile.analysis.replay.critical_path import PathPart, find_critical_path, sum_path
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.table import Cell, Column, Table

COLUMNS = (
    Column("Rank"),
    Column("On"),
    Column("What"),
    Column("Module"),
    Column("Per Step", "ms", 3),
    Column("Share", "%"),
)
LEAST_MS = 0.0005


def merge_paths(parts: Sequence[ReplayPart]) -> Table:
    """The parts of the path, the longest first; none where the unchanged replay does not hold.

    On: the thread of the host or the stream of the GPU. Module: the module or NVTX range in which
    the host was. What is not on the path costs nothing.
    """
    replay = join_parts(parts)
    if isinstance(replay, str):
        return Table("critical_path", COLUMNS, (), f"no replay: {replay}")
    path = sum_path(replay.graph, find_critical_path(replay.graph, replay.graph.time))
    total = sum(part.ms for part in path)
    rows = (_make_row(part, total) for part in path if part.ms >= LEAST_MS)
    return Table("critical_path", COLUMNS, tuple(rows))


def _make_row(part: PathPart, total: float) -> tuple[Cell, ...]:
    share = round(100 * part.ms / total, 2)
    return part.rank, part.lane, part.part, part.place or None, round(part.ms, 3), share


CRITICAL_PATH = Analysis(
    "critical_path",
    collect_replay,
    merge_paths,
    doc="what a step's time consists of: the chain of host work, launches, kernels and waits",
    claims="derived: the longest chain of the steps as a replay repeats them",
)
