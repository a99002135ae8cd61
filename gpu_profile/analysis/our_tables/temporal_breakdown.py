"""Table temporal_breakdown: the time of each rank by state; the states sum to the span."""

from collections.abc import Sequence
from itertools import chain

from gpu_profile.analysis.activity.cached import compute_share, states_of
from gpu_profile.analysis.activity.states import STATES, RankSplit, RankStates, split_exposed
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.table import Cell, Column, Table

LABELS = {
    "compute": "Compute",
    "wait": "Exposed Comm Wait",
    "transfer": "Exposed Comm Transfer",
    "unsplit": "Exposed Comm Unsplit",
    "memory": "Exposed Memory",
    "idle_launch": "Idle Launch",
    "idle_stall": "Idle Stall",
    "idle_sync": "Idle Sync",
    "idle_copy": "Idle Copy",
    "idle_queued": "Idle Queued",
    "idle_latency": "Idle Latency",
    "idle_profiler": "Idle Profiler",
    "idle_unasked": "No Request",
}
COLUMNS = (
    Column("Rank"),
    Column("Device"),
    Column("Span", "ns"),
    *(Column(LABELS[state], "ns") for state in STATES),
    Column("Busy", "%"),
    Column("Comm Hidden", "%"),
)


def merge_breakdown(parts: Sequence[Sequence[RankStates]]) -> Table:
    """One row for each rank. Exposed: not under compute. Wait: until the last rank had arrived.

    Idle by cause: launch (the host issued work too slowly), stall (it issued none for over 1 ms),
    sync and copy (a blocking call had used up its lead), queued (issued work waited for another
    stream), latency (issued work, and the GPU took its few microseconds), profiler. No Request: the
    GPU idled because an engine had none.
    """
    ranks = split_exposed(list(chain.from_iterable(parts)))
    return Table("temporal_breakdown", COLUMNS, tuple(_build_row(rank) for rank in ranks))


def _build_row(rank: RankSplit) -> tuple[Cell, ...]:
    part = rank.states
    times_of_part = {name: int(values[0]) for name, values in part.times.items()}
    times = (int(rank.spent[state][0]) for state in STATES)
    busy, hidden = (
        compute_share(times_of_part["busy"], part.span),
        compute_share(times_of_part["hidden"], times_of_part["communication"]),
    )
    return (part.rank, part.device, part.span, *times, busy, hidden)


TEMPORAL_BREAKDOWN = Analysis(
    "temporal_breakdown",
    states_of,
    merge_breakdown,
    doc="where each rank's time went: compute, communication, copies, idle by cause",
    claims="derived: waits, by the arrival of the last rank, and why a GPU idled; else measured",
)
