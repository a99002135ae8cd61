"""The task of reading one report, wherever it is done."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.open_report import opened
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.errors import GpuProfileError, ReportError

Partials = list[Any]
Result = TypeVar("Result")
Answer = Partials | GpuProfileError
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Source:
    """A report to read: a path here (or where the workers are), or a URL such as s3://…"""

    place: str
    scope: Scope = field(default_factory=Scope)

    @property
    def name(self) -> str:
        return self.place.rpartition("/")[2]


@dataclass(frozen=True)
class Work:
    """One report's task; pickles."""

    source: Source
    analyses: tuple[Analysis, ...]

    def do(self) -> Answer:
        """The partial of every analysis, the report read once; a refusal is an answer too."""
        return read_one(self.source.place, self._partials)

    def _partials(self, database: Database) -> Partials:
        return [one.partial(database, self.source.scope) for one in self.analyses]


def read_one(place: str, function: Callable[[Database], Result]) -> Result | GpuProfileError:
    """What the function makes of one report, or why that cannot be read."""
    try:
        with opened(place) as database:
            return function(database)
    except GpuProfileError as error:
        return error
    except MemoryError:
        hint = "Read it on a machine with more memory, or with --scheduler"
        return ReportError(f"{place} does not fit into memory", hint)
