"""One worker process for each report, which keeps it open from one reading to the next."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial

from gpu_profile.analysis.multi_report.parallel import (
    collect_partials,
    do_work,
    has_core_for_each,
    make_patient,
    make_pool,
    terminate_workers,
)
from gpu_profile.analysis.multi_report.work import Answer, Notify, Partials, ReportSource, Work
from gpu_profile.analysis.tables.analysis import Analysis


class Readers:
    """Reads reports twice; what `loads` has loaded before the first time is there the second time.

    `meanwhile` is called once, while the workers read for the first time. Where there are fewer
    cores than reports, or few bytes, each time is collect_partials().
    """

    def __init__(
        self,
        loads: Sequence[Analysis] = (),
        scheduler: str = "",
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        self._loads = loads
        self._meanwhile = meanwhile
        self._scheduler = scheduler
        self._pools: dict[str, ProcessPoolExecutor] = {}

    @property
    def has_workers(self) -> bool:
        """Whether processes read, one for each report."""
        return bool(self._pools)

    def read_first(
        self, sources: Sequence[ReportSource], analyses: Sequence[Analysis], notify: Notify
    ) -> list[Answer]:
        """The answers of collect_partials(). The workers keep their reports open."""
        if not self._scheduler and has_core_for_each(sources):
            self._pools = {source.place: make_pool(1, len(sources)) for source in sources}
        answers = self._ask(sources, [*self._loads, *analyses], notify, keeps=True)
        for answer in answers.values():
            if isinstance(answer, Partials):
                del answer[: len(self._loads)]
        return self._complete(sources, analyses, answers, notify)

    def read_again(
        self, sources: Sequence[ReportSource], analyses: Sequence[Analysis], notify: Notify
    ) -> list[Answer]:
        """The answers of collect_partials(). The workers end, while this process goes on."""
        answers = self._ask(sources, analyses, notify, keeps=False)
        for pool in self._pools.values():
            pool.shutdown(wait=False)
        return self._complete(sources, analyses, answers, notify)

    def _ask(
        self,
        sources: Sequence[ReportSource],
        analyses: Sequence[Analysis],
        notify: Notify,
        *,
        keeps: bool,
    ) -> dict[int, Answer]:
        """The answers by report, without those whose worker died."""
        do, notify = partial(do_work, forks=True, keeps=keeps), make_patient(notify)
        answers, futures = dict[int, Answer](), dict[Future[Answer], int]()
        try:
            for index, source in enumerate(sources if self._pools else ()):
                with suppress(BrokenProcessPool):
                    work = Work(source, tuple(analyses))
                    futures[self._pools[source.place].submit(do, work)] = index
            if keeps:
                self._meanwhile()
            for future in as_completed(futures):
                with suppress(BrokenProcessPool):
                    answers[futures[future]] = future.result()
                notify(f"{len(answers)} of {len(sources)} reports read")
        except BaseException:
            terminate_workers(*self._pools.values())
            raise
        return answers

    def _complete(
        self,
        sources: Sequence[ReportSource],
        analyses: Sequence[Analysis],
        answers: dict[int, Answer],
        notify: Notify,
    ) -> list[Answer]:
        """All answers, in order; those that lack are read anew."""
        missing = [index for index in range(len(sources)) if index not in answers]
        if missing:
            unread = [sources[index] for index in missing]
            read = collect_partials(unread, analyses, scheduler=self._scheduler, notify=notify)
            answers.update(zip(missing, read, strict=True))
        return [answers[index] for index in range(len(sources))]
