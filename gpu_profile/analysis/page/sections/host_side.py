"""Page parts for ranks without GPU work: their NVTX ranges, MPI and operating system calls."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gpu_profile.analysis.activity.cached import host_ranges_of
from gpu_profile.analysis.activity.nvtx_ranges import Ranges
from gpu_profile.analysis.activity.steps.step_ranges import named_steps
from gpu_profile.analysis.nsys_tables.mpi_event_sum import MPI_EVENT_SUM
from gpu_profile.analysis.nsys_tables.nvtx.nvtx_sum import NVTX_SUM
from gpu_profile.analysis.nsys_tables.osrt_sum import OSRT_SUM
from gpu_profile.analysis.page.events import (
    LANES,
    Budget,
    RankPicture,
    draw_pictures,
    ranges_of,
)
from gpu_profile.analysis.page.host_rows import HostRows
from gpu_profile.analysis.page.marks import NO_MARKS
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import KERNEL, MEMCPY
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.table import Table

NO_DEVICE = -1
_NONE = np.empty(0, np.int64)


def all_pictures(database: Database, scope: Scope, budget: Budget) -> list[RankPicture]:
    """A picture for each rank of the report, of its GPU work or else of its NVTX ranges."""
    return draw_pictures(database, scope, budget) or host_pictures(database, scope)


def host_pictures(database: Database, scope: Scope) -> list[RankPicture]:
    """Return a picture for each rank of a report without GPU work, of its NVTX ranges."""
    ranges_by_rank = host_ranges_of(database, scope)
    return [_draw_host_picture(rank, ranges, scope.offset_ns) for rank, ranges in ranges_by_rank]


def _draw_host_picture(rank: int, ranges: Ranges, offset: int) -> RankPicture:
    start, end = int(ranges.start.min()) + offset, int(ranges.end.max()) + offset
    _, *steps = named_steps(ranges) or ("", _NONE, _NONE)
    marks, left_out = ranges_of(ranges, offset)
    return RankPicture(
        rank=rank,
        device=NO_DEVICE,
        start=start,
        end=end,
        width=max(1, end - start),
        first=0,
        busy=np.zeros((len(LANES), 1), np.uint8),
        exact_start=start,
        exact_end=end,
        events=NO_MARKS,
        ranges=marks,
        ranges_left_out=left_out,
        host=HostRows(),
        steps_start=steps[0] + offset,
        steps_end=steps[1] + offset,
        total_events=0,
    )


def _restrict_to_hosts(analysis: Analysis) -> Analysis:
    """The analysis over only those reports that hold no GPU work.

    The page's other tables have no rows for such reports.
    """
    return replace(
        analysis,
        partial=partial(_collect_partial, analysis=analysis),
        merge=partial(_merge_partials, analysis=analysis),
    )


def _collect_partial(database: Database, scope: Scope, analysis: Analysis) -> Any:  # noqa: ANN401
    busy = database.count(KERNEL) or database.count(MEMCPY)
    return None if busy else analysis.partial(database, scope)


def _merge_partials(parts: Sequence[Any], analysis: Analysis) -> Table:
    return analysis.merge([part for part in parts if part is not None])


HOST_TABLES = (
    (_restrict_to_hosts(NVTX_SUM), "NVTX ranges by time"),
    (_restrict_to_hosts(MPI_EVENT_SUM), "MPI calls by time"),
    (_restrict_to_hosts(OSRT_SUM), "long calls of the operating system's libraries by time"),
)
