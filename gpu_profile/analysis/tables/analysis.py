"""What every analysis is: a small partial result of each report, and an exact merge of them.

The partials are made side by side (a process pool, a cluster), so both functions stand at a
module's top level and a partial pickles small: counts, sorted durations, never raw events.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_profile.analysis.store.database import Database
from gpu_profile.table import Table


@dataclass(frozen=True)
class LaterWindow:
    """Another window of a report's processes: where it lies, its ranks by process id, and what to
    add to its timestamps to put it behind the window before, in the first one's clock."""

    place: str
    ranks: Mapping[int, int]
    shift_ns: int


@dataclass(frozen=True)
class Scope:
    """What one report cannot know alone. Pickles; everything has a neutral default.

    `ranks`: the rank by process id (a report may hold several). `offset_ns`: add it to this
    report's timestamps to get the run's common clock. `by`: a column to put in front of the
    table and to group by: "", "rank", "device" or "stream". `later`: the windows that are read
    together with this first one; `joined`: this one is read there. `edges`: (number, start, end)
    of every window in the run's clock.
    """

    ranks: Mapping[int, int] = field(default_factory=dict)
    offset_ns: int = 0
    by: str = ""
    later: tuple[LaterWindow, ...] = ()
    joined: bool = False
    edges: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True)
class Analysis:
    """`partial` reads one report; `merge` makes the table from all partials, in rank order.

    merge([partial(one report)]) is that report's table; the merge of no partials has no rows.
    `by` are the groupings (Scope.by) that it knows besides "".
    """

    name: str
    partial: Callable[[Database, Scope], Any]
    merge: Callable[[Sequence[Any]], Table]
    by: tuple[str, ...] = ()

    def table(self, *databases: Database, scope: Scope | None = None) -> Table:
        """Everything in this process: for one report, a test, a notebook."""
        return self.merge([self.partial(database, scope or Scope()) for database in databases])
