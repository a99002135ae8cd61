"""Table gpu_metric_sum: hardware metrics of the GPUs (SMs, tensor cores, memory) in the steady
part.
"""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.activity.start_up import steady_window
from gpu_profile.analysis.counters.gpu_metrics import load_metrics
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.table import Cell, Column, Table

COLUMNS = (
    Column("Report"),
    Column("GPU"),
    *(Column(name) for name in ("Avg", "Med", "P95", "Max")),
    Column("Unit"),
    Column("Metric"),
)
HINT = "no metric of a GPU in the report: record with --gpu-metrics"
Row = tuple[Cell, ...]


def steady_span(database: Database, scope: Scope) -> tuple[int, int]:
    """(start, end) of the part after start-up, on the report's clock; all time without GPU work."""
    ranks = activities_of(database, scope)
    if not ranks:
        return int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
    starts, ends = zip(*map(steady_window, ranks), strict=True)
    return min(starts), max(ends)


def partial(database: Database, scope: Scope) -> list[Row]:
    """The finished rows of one report; metrics that are always 0 are left out."""
    span, table_rows = steady_span(database, scope), list[Row]()
    for metric in load_metrics(database):
        values = metric.between(*span).value
        if len(values) and values.any():
            middle, high = np.quantile(values, (0.5, 0.95))
            numbers = float(values.mean()), float(middle), float(high), float(values.max())
            table_rows.append((database.path.name, metric.gpu, *numbers, metric.unit, metric.name))
    return table_rows


def merge(parts: Sequence[Sequence[Row]]) -> Table:
    """One row for each GPU and metric. The GPU's number is that of nvidia-smi on its host."""
    return Table("gpu_metric_sum", COLUMNS, tuple(chain.from_iterable(parts)), HINT)


GPU_METRIC_SUM = Analysis(
    "gpu_metric_sum",
    partial,
    merge,
    doc="SMs, tensor cores and memory bandwidth. Needs --gpu-metrics or --preset=full",
)
