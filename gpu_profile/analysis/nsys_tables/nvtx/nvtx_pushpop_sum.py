"""nsys' table of NVTX push-pop ranges by name."""

from functools import partial

from gpu_profile.analysis.nsys_tables.shared.range_rows import load_durations
from gpu_profile.analysis.tables.summary import HOST_BY, TableShape, make_summary
from gpu_profile.table import Column

NVTX_PUSHPOP_SUM = make_summary(
    TableShape("nvtx_pushpop_sum", "Instances", (Column("Range"),)),
    partial(load_durations, False),
    HOST_BY,
    "NVTX push-pop ranges by name",
)
