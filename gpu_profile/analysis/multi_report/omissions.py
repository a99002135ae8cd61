"""Report which reports could not be read, and fail where a result would be incomplete.

Without this, a result of three ranks looks like one of four: one damaged byte in a report of four
once turned `compare` from exit code 8 into "pass".
"""

from collections.abc import Iterable, Sequence

from gpu_profile.analysis.multi_report.work import Answer, Notify, Partials, ReportSource
from gpu_profile.errors import GpuProfileError, ReportError


def readable(
    sources: Sequence[ReportSource],
    answers: Iterable[Answer],
    notify: Notify,
    *,
    count: int = 0,
    complete: bool = False,
) -> list[tuple[ReportSource, Partials]]:
    """The reports that were read, with their partials; `notify` gets a line for each other one.

    `count`: how many reports the user asked for, if an earlier reading left some out already.
    Raises the first error if only one report was asked for or all must be `complete`; ReportError
    if none was read.
    """
    read: list[tuple[ReportSource, Partials]] = []
    refused: list[GpuProfileError] = []
    for source, answer in zip(sources, answers, strict=True):
        if isinstance(answer, GpuProfileError):
            refused.append(answer)
        else:
            read.append((source, answer))
            for note in answer.notes:
                notify(f"note: {source.name}: {note}")
    tell_omissions(refused, count or len(sources), len(read), notify, complete=complete)
    return read


def tell_notes_once(notify: Notify) -> Notify:
    """Return a `notify` that drops repeated notes: two readings of a report find the same texts."""
    notes: set[str] = set()

    def tell_once(line: str) -> None:
        if line not in notes:
            notify(line)
        if line.startswith("note: "):
            notes.add(line)

    return tell_once


def tell_omissions(
    refused: Sequence[GpuProfileError],
    count: int,
    read: int,
    notify: Notify,
    *,
    complete: bool = False,
) -> None:
    """Name each refused report, then how many of `count` are left. Raises as readable() does."""
    if not refused:
        return
    if complete or count == 1:
        raise refused[0]
    for error in refused:
        notify(f"left out: {error}")
    if not read:
        raise ReportError("no report could be read", "The reasons are above")
    notify(f"note: {count - read} of {count} reports left out: what follows is of the other {read}")
