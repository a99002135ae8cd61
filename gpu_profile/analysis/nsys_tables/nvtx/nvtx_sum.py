"""nsys' table of NVTX ranges by name."""

from functools import partial

from gpu_profile.analysis.nsys_tables.shared.range_rows import load_durations
from gpu_profile.analysis.tables.summary import HOST_BY, TableShape, make_summary
from gpu_profile.table import Column

NVTX_SUM = make_summary(
    TableShape(
        "nvtx_sum",
        "Instances",
        (Column("Style"), Column("Range")),
        hint="no NVTX ranges in the report; marks are not counted",
    ),
    partial(load_durations, True),
    HOST_BY,
    "NVTX ranges by name",
)
