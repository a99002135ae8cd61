"""Open the reports of one run together: their ranks, clocks and windows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpu_profile.analysis.multi_report.omissions import readable, tell_notes_once
from gpu_profile.analysis.multi_report.one_run import find_contradiction
from gpu_profile.analysis.multi_report.parallel import collect_partials
from gpu_profile.analysis.multi_report.readers import Readers, Used
from gpu_profile.analysis.multi_report.survey import SURVEY, SURVEY_ALONE, ReportSet, run_of
from gpu_profile.analysis.multi_report.work import Answer, Notify, Partials, ReportSource
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.errors import ReportError

_ONE_RUN = "Name the reports of one run"
_TOGETHER = "--together (in Python together=True) reads them as one run all the same"


@dataclass(frozen=True)
class Reading:
    """The readable reports, each with its scope. `run` has their ranks and clocks.

    `count` is how many reports were named. With `complete` an unreadable report is an error: a
    gate must not pass on the remaining ranks. `workers` is the number of processes that read; 0
    for one a core. `notify` gets the lines on progress and omissions.
    """

    sources: tuple[ReportSource, ...]
    run: ReportSet
    notify: Notify
    scheduler: str = ""
    count: int = 1
    complete: bool = False
    workers: int = 0

    def of(self, analyses: Sequence[Analysis]) -> list[list[Any]]:
        """Return the partial results of each readable report, in order.

        Unreadable ones are named by `notify`. Raises the error of the only report, or of any with
        `complete`.
        """
        answers = collect_partials(
            self.sources,
            analyses,
            scheduler=self.scheduler,
            workers=self.workers,
            spares_memory=True,
            notify=self.notify,
        )
        return self._keep_readable(answers)

    def of_both(
        self,
        readers: Readers,
        first: Sequence[Analysis],
        others: Sequence[Analysis],
        use_first: Callable[[Sequence[Answer]], Used],
    ) -> tuple[list[list[Any]], Used | None]:
        """Return the results of `first` and `others`, as of(), and what Readers.read_again() does
        besides.
        """
        answers, used = readers.read_again(self.sources, first, others, self.notify, use_first)
        return self._keep_readable(answers), used

    def _keep_readable(self, answers: Sequence[Answer]) -> list[list[Any]]:
        read = readable(
            self.sources, answers, self.notify, count=self.count, complete=self.complete
        )
        return [answer for _, answer in read]

    def at_depth(self, depth: int) -> "Reading":
        """Return the same reports with tables of modules down to this depth, 0 for all."""
        sources = (
            replace(source, scope=replace(source.scope, depth=depth)) for source in self.sources
        )
        return replace(self, sources=tuple(sources)) if depth else self

    def limited_to(self, start_ns: int, end_ns: int) -> "Reading":
        """Return the same reports with tables of this part of the run, on the run's clock."""
        sources = (
            replace(source, scope=replace(source.scope, between=(start_ns, end_ns)))
            for source in self.sources
        )
        return replace(self, sources=tuple(sources))


def open_reports(
    sources: Sequence[ReportSource],
    *,
    notify: Notify,
    by: str = "",
    window: int = 0,
    scheduler: str = "",
    complete: bool = False,
    workers: int = 0,
    together: bool = False,
    readers: Readers | None = None,
) -> Reading:
    """Read the ranks and clocks of a run's reports. Unreadable reports are named and left out.

    `by` is the grouping of tables ("rank", "device", "stream"), `window` the number of one window,
    0 for all. `readers`, if given, read. Raises the error of the only report, or of any with
    `complete`; ReportError if no report is of the window, and unless `together` if the reports
    prove to be of more than one run.
    """
    notify = tell_notes_once(notify)
    kind = SURVEY if len(sources) > 1 else SURVEY_ALONE
    if readers:
        answers = readers.read_first(sources, [kind], notify)
    else:
        answers = collect_partials(
            sources, [kind], scheduler=scheduler, workers=workers, notify=notify
        )
    pairs = _select_window(readable(sources, answers, notify, complete=complete), window)
    if not together and (why := find_contradiction([answer[0].evidence for _, answer in pairs])):
        raise ReportError(why, _ONE_RUN if complete else f"{_ONE_RUN}; {_TOGETHER}")
    run = run_of([answer[0] for _, answer in pairs], by)
    scopes = run.join([source.place for source, _ in pairs])
    scoped = tuple(
        replace(source, scope=scope) for (source, _), scope in zip(pairs, scopes, strict=True)
    )
    return Reading(scoped, run, notify, scheduler, len(sources), complete, workers)


def _select_window(
    window_sources: list[tuple[ReportSource, Partials]], window: int
) -> list[tuple[ReportSource, Partials]]:
    """Return the reports of one window, or all for 0. Raises ReportError if there is none.

    The first of several starts of srun has no number in its report's name: it is window 1.
    """
    numbers = [answer[0].identity.window[1] for _, answer in window_sources]
    if 1 not in numbers and max(numbers, default=0) > 1:
        numbers = [number or 1 for number in numbers]
    if not window or window in numbers:
        return [
            source
            for source, number in zip(window_sources, numbers, strict=True)
            if number == window or not window
        ]
    window_names = ", ".join(map(str, sorted(set(numbers) - {0}))) or "no windows"
    hint = f"There are {window_names}: `--capture-range-end=repeat:N` records several"
    raise ReportError(f"no report is of window {window}", hint)
