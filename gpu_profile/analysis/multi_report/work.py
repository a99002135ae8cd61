"""The task of reading one report, in this process, in a pool, or on a Dask worker."""

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from gpu_profile.analysis.kineto.source import describe_source
from gpu_profile.analysis.multi_report.forked_copy import CAN_FORK, ForkedCopy
from gpu_profile.analysis.multi_report.workers.memory import MEMORY
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.files.gzip_file import MOST_BYTES
from gpu_profile.analysis.store.files.open_report import open_report
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.errors import GpuProfileError, ReportError

Result = TypeVar("Result")
Notify = Callable[[str], None]
Opened = tuple[ExitStack, Database]
Copy = ForkedCopy[tuple[list[object], tuple[str, ...]]]

CRAFTED_VALUES = (ArithmeticError, LookupError, TypeError, ValueError, RecursionError)
"""Exceptions that values in a crafted report can cause, e.g. a text as the number of a GPU."""


@dataclass(frozen=True)
class _Worker:
    """What this process holds for its next work, by report: `reports` that an earlier work has kept
    open, and `copies` of the process that compute analyses, with their names.
    """

    reports: dict[str, Opened] = field(default_factory=dict)
    copies: dict[str, tuple[tuple[str, ...], Copy]] = field(default_factory=dict)

    @contextmanager
    def open(self, place: str, most_bytes: int, keeps: bool) -> Iterator[Database]:
        """The report that is open already, or as open_report(). `keeps`: it stays open."""
        kept = self.reports.pop(place, None)
        opened, database = kept or _open(place, most_bytes)
        with opened:
            yield database
            if keeps:
                self.reports[place] = opened.pop_all(), database


_WORKER = _Worker()


class Partials(list[Any]):
    """The partial result of each analysis for one report; `notes` are lines that a reader must
    know.
    """

    notes: tuple[str, ...] = ()


Answer = Partials | GpuProfileError


@dataclass(frozen=True)
class ReportSource:
    """A report to read: a path (on the machine that reads it), or a URL such as
    s3://bucket/r.sqlite.

    `most_bytes`: the limit for the unpacked size of a packed report.
    """

    place: str
    scope: Scope = field(default_factory=Scope)
    most_bytes: int = MOST_BYTES

    @property
    def name(self) -> str:
        return self.place.rpartition("/")[2]


@dataclass(frozen=True)
class Work:
    """The task of analysing one report; picklable. `is_light`: it needs no turn. `early_analyses`:
    what a copy of the process begins for the next work.
    """

    source: ReportSource
    analyses: tuple[Analysis, ...]
    is_light: bool = False
    early_analyses: tuple[Analysis, ...] = ()

    @property
    def is_begun(self) -> bool:
        """Whether an earlier work of this process has kept the report open."""
        return self.source.place in _WORKER.reports

    def do(self, forks: bool = False, keeps: bool = False) -> Answer:
        """The partial of every analysis, with the report opened once; an error is returned, not
        raised. `forks`: a copy of this process does the analyses that take long. `keeps`: the
        report stays open for the next work of this process.
        """
        collect = partial(self._partials, forks=forks and CAN_FORK)
        return read_one(self.source.place, collect, self.source.most_bytes, keeps)

    def _partials(self, database: Database, forks: bool) -> Partials:
        self.analyses[0].loads(database, self.source.scope)
        if self.is_light:
            MEMORY.spare()
        else:
            MEMORY.take_turn()
        names, early = _WORKER.copies.pop(self.source.place, ((), None))
        # The first one loads what the others read too.
        by_index = {0: self._collect(0, database)}
        forks = forks and database.can_fork
        if self.early_analyses and forks:
            _WORKER.copies[self.source.place] = self._begin_early(database)
        rest = [(index, each) for index, each in enumerate(self.analyses) if index]
        begun = [index for index, each in rest if each.begins_early and each.name in names]
        long = [index for index, each in rest if forks and each.takes_long and index not in begun]
        copy = ForkedCopy(partial(self._collect_in_copy, long, database)) if long else None
        for index, _ in rest:
            if index not in (*begun, *long):
                MEMORY.spare()
                by_index[index] = self._collect(index, database)
        notes = {*database.notes}
        for indexes, each in ((begun, early), (long, copy)):
            of_copy, notes_of_copy = each.result() if each else ([], ())
            by_index.update(zip(indexes, of_copy, strict=True))
            notes.update(notes_of_copy)
        partials = Partials(by_index[index] for index in range(len(self.analyses)))
        partials.notes = (*sorted(notes), *describe_source(database))
        return partials

    def _begin_early(self, database: Database) -> tuple[tuple[str, ...], Copy]:
        work = replace(self, analyses=self.early_analyses)
        copy = ForkedCopy(partial(work._collect_in_copy, range(len(self.early_analyses)), database))
        return tuple(each.name for each in self.early_analyses), copy

    def _collect(self, index: int, database: Database) -> object:
        return self.analyses[index].partial(database, self.source.scope)

    def _collect_in_copy(
        self, indexes: Sequence[int], database: Database
    ) -> tuple[list[object], tuple[str, ...]]:
        database.reopen()
        return [self._collect(index, database) for index in indexes], database.notes


def read_one(
    place: str,
    function: Callable[[Database], Result],
    most_bytes: int = MOST_BYTES,
    keeps: bool = False,
) -> Result | GpuProfileError:
    """The result of the function for one report, or the error if the report cannot be read."""
    try:
        with _WORKER.open(place, most_bytes, keeps) as database:
            return function(database)
    except GpuProfileError as error:
        return error
    except MemoryError:
        hint = "Read it on a machine with more memory, or with --scheduler"
        return ReportError(f"{place} does not fit into memory", hint)
    except CRAFTED_VALUES as error:
        return _refusal(place, error)


def _open(place: str, most_bytes: int) -> Opened:
    opened = ExitStack()
    return opened, opened.enter_context(open_report(place, most_bytes))


def _refusal(place: str, error: Exception) -> ReportError:
    """An error with file and line, which show the place of our bug if nsys itself wrote the
    report.
    """
    at = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(at.filename).name}:{at.lineno}"
    reason = f"{type(error).__name__}: {error}"[:200]
    return ReportError(
        f"{place} holds values that could not be worked with ({reason}, at {where})",
        "If nsys exported it, this is a bug of gpu-profile: report it with this line",
    )
