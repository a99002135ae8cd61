"""The type of an analysis: a partial result of each report, and a merge of them into a table.

Partials are computed in parallel (a process pool, a Dask cluster). So both functions must be at
the top level of a module, and a partial must be small when pickled: counts and sorted durations,
never raw events.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_profile.analysis.store.database import Database
from gpu_profile.table import Table


@dataclass(frozen=True)
class LaterWindow:
    """A later window of a report's processes.

    `place` is its path, `ranks` the rank by process id. `shift_ns` is added to its times to put it
    after the previous window on the first window's clock.
    """

    place: str
    ranks: Mapping[int, int]
    shift_ns: int


@dataclass(frozen=True)
class Scope:
    """What an analysis must know beyond one report; picklable, with neutral defaults.

    `ranks`: the rank by process id (a report may hold several). `offset_ns`: added to this
    report's times to get the run's clock. `by`: the grouping of the table, "", "rank", "device" or
    "stream", shown in its first columns. `later`: windows that are read together with this first
    one; `is_joined`: this is such a later window. `edges`: (number, start, end) of every window on
    the run's clock. `depth`: how deep into the model a table of modules goes, 0 for all.
    `between`: start and end in ns on the run's clock, of a table that shows a part of the run.
    `run_ranks`: how many ranks all reports have.
    """

    ranks: Mapping[int, int] = field(default_factory=dict)
    offset_ns: int = 0
    by: str = ""
    later: tuple[LaterWindow, ...] = ()
    is_joined: bool = False
    edges: tuple[tuple[int, int, int], ...] = ()
    depth: int = 0
    between: tuple[int, int] = (0, 0)
    run_ranks: int = 1


def _load_nothing(_database: Database, _scope: Scope) -> None:
    """What an analysis needs is read when it is needed."""


@dataclass(frozen=True)
class Analysis:
    """`partial` reads one report; `merge` makes the table from all partials, in rank order.

    merge([partial(report)]) is the table of one report; merge([]) has no rows. `by` are the
    supported groupings (Scope.by) besides "". `doc` says what the table shows, on one line.
    `is_of_part`: it needs Scope.between. `claims`: "measured" for counts and sums of what was
    recorded, otherwise "derived: " and what is. `takes_long`: a copy of the process that reads
    computes it where a core is free; `begins_early`: beside the work before. `loads` of the first
    analysis is called before: it keeps what it reads.
    """

    name: str
    partial: Callable[[Database, Scope], Any]
    merge: Callable[[Sequence[Any]], Table]
    by: tuple[str, ...] = ()
    doc: str = ""
    is_of_part: bool = False
    claims: str = "measured"
    takes_long: bool = False
    begins_early: bool = False
    loads: Callable[[Database, Scope], object] = _load_nothing

    def table(self, *databases: Database, scope: Scope | None = None) -> Table:
        """Run the analysis in this process: for one report, a test or a notebook."""
        return self.merge([self.partial(database, scope or Scope()) for database in databases])
