"""What a run's reports say of each other: their ranks and their clocks. Made before all else."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_profile.analysis.multi_report.clocks import Alignment, Clock, align, clock
from gpu_profile.analysis.multi_report.ranks import Identity, Ranks, assign, identity
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.table import Column, Table


@dataclass(frozen=True, eq=False)
class Survey:
    """One report's evidence; pickles small."""

    identity: Identity
    clock: Clock


@dataclass(frozen=True)
class Run:
    """`scopes` are what each report's analyses are given, in the order of the surveys."""

    scopes: tuple[Scope, ...]
    ranks: Ranks
    alignment: Alignment

    def notes(self) -> list[str]:
        """What a reader must know: lines, none when all is as it should be."""
        found = []
        if self.ranks.missing:
            missing = listed(self.ranks.missing)
            found.append(f"no report of rank {missing}: what follows is of the others")
        if self.ranks.source == "host and GPU" and len(self.scopes) > 1:
            found.append("no report says its rank: numbered by host and GPU")
        if self.alignment.method == "UTC":
            found.append("no common collective: clocks of the hosts aligned by UTC only")
        if self.alignment.method == "collectives":
            error = (self.alignment.residual_ns or 0) / 1e3
            found.append(f"clocks of the hosts aligned by collectives, to {error:.1f} us")
        return found


def listed(ranks: Sequence[int], most: int = 32) -> str:
    """`0, 1, 2`, of very many ranks the first ones."""
    more = f" and {len(ranks) - most} more" if len(ranks) > most else ""
    return ", ".join(map(str, ranks[:most])) + more


def survey(database: Database, scope: Scope | None = None) -> Survey:
    found = identity(database)
    return Survey(found, clock(database, found.host))


def _survey_alone(database: Database, _scope: Scope) -> Survey:
    """Of a run's only report, whose clock nothing is compared with: quick."""
    found = identity(database)
    return Survey(found, Clock(found.host, 0, {}))


def run_of(surveys: Sequence[Survey], by: str = "") -> Run:
    """Ranks and clocks of a run. `by` is passed on to the scopes."""
    ranks = assign([one.identity for one in surveys])
    alignment = align([one.clock for one in surveys])
    pairs = zip(ranks.by_report, alignment.offsets, strict=True)
    return Run(tuple(Scope(by_pid, offset, by) for by_pid, offset in pairs), ranks, alignment)


def _merge(surveys: Sequence[Survey]) -> Table:
    run = run_of(surveys)
    rows = [
        (rank, one.identity.name, pid, scope.offset_ns, run.ranks.source, run.alignment.method)
        for one, scope in zip(surveys, run.scopes, strict=True)
        for pid, rank in scope.ranks.items()
    ]
    return Table("reports", COLUMNS, tuple(sorted(rows)))


COLUMNS = (
    Column("Rank"),
    Column("Report"),
    Column("PID"),
    Column("Offset", "ns"),
    Column("Rank from"),
    Column("Clock from"),
)
SURVEY = Analysis("reports", survey, _merge)
SURVEY_ALONE = Analysis("reports", _survey_alone, _merge)
