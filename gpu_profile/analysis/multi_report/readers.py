"""One worker process for each report, which keeps it open from one reading to the next."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.synchronize import Semaphore
from typing import TypeVar

from gpu_profile.analysis.multi_report.parallel import (
    collect_partials,
    do_work,
    make_patient,
    make_pool,
    make_turns,
    terminate_workers,
)
from gpu_profile.analysis.multi_report.work import Answer, Notify, Partials, ReportSource, Work
from gpu_profile.analysis.multi_report.workers.count import choose_turns, has_worker_for_each
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.errors import GpuProfileError

Used = TypeVar("Used")

_REPLAY_BYTES = 80_000_000
"""What a replay beside the workers holds, with the copies that try changes."""


class Readers:
    """Reads reports twice; what `loads` has loaded before the first time is there the second time.

    `meanwhile` is called once, while the workers read for the first time. Where there are fewer
    cores than reports, or few bytes, each time is collect_partials(). `spares_memory`: as there;
    then workers take turns with what they read last.
    """

    def __init__(
        self,
        loads: Sequence[Analysis] = (),
        scheduler: str = "",
        meanwhile: Callable[[], object] = lambda: None,
        spares_memory: bool = False,
    ) -> None:
        self._loads = loads
        self._spares_memory = spares_memory
        self._meanwhile = meanwhile
        self._scheduler = scheduler
        self._pools: dict[str, ProcessPoolExecutor] = {}
        self._turns: Semaphore | None = None

    @property
    def has_workers(self) -> bool:
        """Whether processes read, one for each report."""
        return bool(self._pools)

    def read_first(
        self, sources: Sequence[ReportSource], analyses: Sequence[Analysis], notify: Notify
    ) -> list[Answer]:
        """The answers of collect_partials(). The workers keep their reports open."""
        if not self._scheduler and has_worker_for_each(sources, self._spares_memory):
            self._pools = self._start_workers(sources)
        with self._workers_end_on_error():
            futures = self._submit(sources, [*self._loads, *analyses], keeps=True)
            self._meanwhile()
            tell = partial(_tell_progress, make_patient(notify), len(sources))
            answers = _collect_answers(futures, tell)
        for answer in answers.values():
            if isinstance(answer, Partials):
                del answer[: len(self._loads)]
        return self._complete(sources, analyses, answers, notify)

    def read_again(
        self,
        sources: Sequence[ReportSource],
        first: Sequence[Analysis],
        others: Sequence[Analysis],
        notify: Notify,
        use_first: Callable[[Sequence[Answer]], Used],
    ) -> tuple[list[Answer], Used | None]:
        """The answers of collect_partials() to `first` and `others`, and what `use_first` makes of
        those to `first` while the workers go on; None without workers. These end, while this
        process goes on.
        """
        if not self._pools:
            return self._complete(sources, [*first, *others], {}, notify), None
        with self._workers_end_on_error():
            early = tuple(each for each in others[1:] if each.begins_early)
            begun = self._submit(sources, first, keeps=True, early=early)
            rest = {} if self._turns else self._submit(sources, others, keeps=False)
            known = self._complete(sources, first, _collect_answers(begun), notify)
            # A turn beside the first works of others would take more memory than either.
            rest = rest or self._submit(sources, others, keeps=False)
            used = use_first(known)
            tell = partial(_tell_progress, make_patient(notify), len(sources))
            read = _collect_answers(rest, tell, self._replace_turn)
            late = self._complete(sources, others, read, notify)
        for pool in self._pools.values():
            pool.shutdown(wait=False)
        return [_join_answers(*pair) for pair in zip(known, late, strict=True)], used

    def _start_workers(self, sources: Sequence[ReportSource]) -> dict[str, ProcessPoolExecutor]:
        count = len(sources)
        turns = choose_turns(sources, count, _REPLAY_BYTES) if self._spares_memory else count
        self._turns = make_turns(turns, count)
        return {
            source.place: make_pool(1, count, self._turns, self._spares_memory)
            for source in sources
        }

    def _replace_turn(self) -> None:
        """A worker that dies in its turn does not end it, and the others would wait."""
        if self._turns:
            self._turns.release()

    @contextmanager
    def _workers_end_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            terminate_workers(*self._pools.values())
            raise

    def _submit(
        self,
        sources: Sequence[ReportSource],
        analyses: Sequence[Analysis],
        *,
        keeps: bool,
        early: tuple[Analysis, ...] = (),
    ) -> dict[Future[Answer], int]:
        """The index of the report of each answer to come, without those whose worker is dead."""
        do, futures = partial(do_work, forks=True, keeps=keeps), dict[Future[Answer], int]()
        for index, source in enumerate(sources if self._pools else ()):
            with suppress(BrokenProcessPool):
                work = Work(source, tuple(analyses), is_light=keeps, early_analyses=early)
                futures[self._pools[source.place].submit(do, work)] = index
        return futures

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
            read = collect_partials(
                unread,
                analyses,
                scheduler=self._scheduler,
                spares_memory=self._spares_memory,
                notify=notify,
            )
            answers.update(zip(missing, read, strict=True))
        return [answers[index] for index in range(len(sources))]


def _collect_answers(
    futures: Mapping[Future[Answer], int],
    tell: Callable[[int], None] = lambda count: None,
    on_death: Callable[[], None] = lambda: None,
) -> dict[int, Answer]:
    """The answers by report, without those whose worker died; `tell` gets how many there are."""
    answers = dict[int, Answer]()
    for future in as_completed(futures):
        try:
            answers[futures[future]] = future.result()
        except BrokenProcessPool:
            on_death()
        tell(len(answers))
    return answers


def _tell_progress(notify: Notify, count: int, read: int) -> None:
    notify(f"{read} of {count} reports read")


def _join_answers(first: Answer, others: Answer) -> Answer:
    """The partials of two works of one report; the error of the first one that has one."""
    if isinstance(first, GpuProfileError) or isinstance(others, GpuProfileError):
        return first if isinstance(first, GpuProfileError) else others
    joined = Partials([*first, *others])
    joined.notes = tuple(dict.fromkeys((*others.notes, *first.notes)))
    return joined
