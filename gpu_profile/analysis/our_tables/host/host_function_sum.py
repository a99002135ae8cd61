"""Table host_function_sum: host functions by samples of launching threads (Python, C and C++)."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from gpu_profile.analysis.activity.cached import activities_of, compute_share
from gpu_profile.analysis.host.samples import HostSamples, samples_of
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.table import Cell, Column, Table

COLUMNS = (
    Column("Rank"),
    Column("Time", "%"),
    Column("Samples"),
    Column("Idle Samples"),
    Column("Inclusive", "%"),
    Column("Language"),
    Column("Function"),
)
Row = tuple[Cell, ...]
PYTHON = "Python"


def partial(database: Database, scope: Scope) -> list[Row]:
    """The finished rows of one report's ranks."""
    ranks = samples_of(activities_of(database, scope), database)
    return list(chain.from_iterable(_list_rows(rank) for rank in ranks))


def merge(parts: Sequence[Sequence[Row]]) -> Table:
    """One row for each rank, language and function, most samples first.

    Time and Samples are of the function itself, Inclusive also of the functions that it called.
    Idle Samples were taken while the GPU idled because of the host.
    """
    rows = sorted(chain.from_iterable(parts), key=_order)
    return Table("host_function_sum", COLUMNS, tuple(rows))


def _order(row: Row) -> tuple[object, ...]:
    """The sort key of a row: Python first, because C and C++ samples cover the same time."""
    return (row[0], row[5] != PYTHON, -int(row[2] or 0), row[6])


def _list_rows(rank: HostSamples) -> list[Row]:
    self_samples: Counter[str] = Counter()
    idle: Counter[str] = Counter()
    inclusive: Counter[str] = Counter()
    for stack, count, idle_count in rank.stacks:
        self_samples[stack[-1]] += count
        idle[stack[-1]] += idle_count
        inclusive.update(dict.fromkeys(stack, count))
    total = sum(self_samples.values())
    language = PYTHON if rank.kind == PYTHON else "C/C++"
    rows: list[Row] = []
    for name, count in inclusive.items():
        times = (
            compute_share(self_samples[name], total),
            self_samples[name],
            idle[name],
            compute_share(count, total),
        )
        rows.append((rank.rank, *times, language, name))
    return rows


HOST_FUNCTION_SUM = Analysis(
    "host_function_sum",
    partial,
    merge,
    doc="functions of the launching threads, by samples. Not with --annotate none",
)
