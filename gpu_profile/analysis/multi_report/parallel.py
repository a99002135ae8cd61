"""Analyse many reports in parallel: partial results of each report, merged in order.

The same functions run in this process, in a pool of processes, or on a Dask cluster. Partials are
merged in the order of the reports, so that the output bytes are the same in all three.
"""

import gc
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import active_children, parent_process
from multiprocessing.synchronize import Semaphore

from gpu_profile.analysis.multi_report.work import Answer, Notify, ReportSource, Work
from gpu_profile.analysis.multi_report.workers.count import choose_turns, choose_workers
from gpu_profile.analysis.multi_report.workers.memory import MEMORY, return_freed, set_malloc
from gpu_profile.analysis.multi_report.workers.server import make_worker_context
from gpu_profile.analysis.store import threads
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.errors import GpuProfileError, ReportError
from gpu_profile.table import Table

TRIES = 3  # a report whose worker died three times is named and left out
QUIET_S = 2.0
_SLICE_S = 0.5


@dataclass(frozen=True)
class Analysed:
    """`tables` by analysis name; `refusals`: the reports that could not be read, and why."""

    tables: Mapping[str, Table]
    refusals: tuple[tuple[ReportSource, GpuProfileError], ...] = ()


def collect_partials(
    sources: Sequence[ReportSource],
    analyses: Sequence[Analysis],
    *,
    scheduler: str = "",
    workers: int = 0,
    spares_memory: bool = False,
    notify: Notify = lambda line: None,
) -> list[Answer]:
    """One answer for each report, in order: its partials, or the error if it cannot be read.

    With `workers` 0 there is one worker for each core; `spares_memory` bounds them by memory too.
    """
    works = [Work(source, tuple(analyses)) for source in sources]
    notify = make_patient(notify)
    if scheduler:
        from gpu_profile.analysis.multi_report.dask_cluster import on_cluster

        return on_cluster(works, scheduler, notify)
    workers = min(workers or choose_workers(sources, spares_memory), len(works))
    turns = choose_turns(sources, workers) if spares_memory else workers
    if workers < 2:
        return [
            _log_answer(work.do(), index + 1, len(works), notify)
            for index, work in enumerate(works)
        ]
    do = partial(do_work, forks=not spares_memory)
    return _in_processes(works, do, workers, turns, spares_memory, notify)


def merge_answers(
    sources: Sequence[ReportSource], analyses: Sequence[Analysis], answers: Sequence[Answer]
) -> Analysed:
    """The tables of all reports that were read. Raises the first refusal if none was read."""
    refused = tuple(
        (source, answer)
        for source, answer in zip(sources, answers, strict=True)
        if isinstance(answer, GpuProfileError)
    )
    read = [answer for answer in answers if not isinstance(answer, GpuProfileError)]
    if refused and not read:
        raise refused[0][1]
    tables = {
        analysis.name: analysis.merge([answer[index] for answer in read])
        for index, analysis in enumerate(analyses)
    }
    return Analysed(tables, refused)


def _in_processes(
    works: Sequence[Work],
    do: Callable[[Work], Answer],
    workers: int,
    turns: int,
    spares_memory: bool,
    notify: Notify,
) -> list[Answer]:
    """Run the works in a pool of processes, up to TRIES times; `turns` of them analyse at a time.

    A worker that dies (out of memory, killed) breaks the whole pool. The works that it and the
    others had begun run again in a new pool; the last time each work has a pool of its own.
    """
    answers: dict[int, Answer] = {}

    def report() -> None:
        notify(f"{len(answers)} of {len(works)} reports read")

    for attempt in range(TRIES):
        missing = [index for index in range(len(works)) if index not in answers]
        if not missing:
            break
        last = attempt == TRIES - 1
        for group in [[index] for index in missing] if last else [missing]:
            tasks = {index: partial(do, works[index]) for index in group}
            processes = min(workers, len(group))
            pool = make_pool(processes, workers, make_turns(turns, processes), spares_memory)
            _pool_round(tasks, pool, answers, report)
    hint = "It may need more memory than there is; read it alone, or with --scheduler"
    for index in range(len(works)):
        died = ReportError(f"reading {works[index].source.place} killed its worker", hint)
        answers.setdefault(index, died)
    return [answers[index] for index in range(len(works))]


def _pool_round(
    tasks: Mapping[int, Callable[[], Answer]],
    pool: ProcessPoolExecutor,
    answers: dict[int, Answer],
    report: Callable[[], None],
) -> None:
    with pool:
        futures: dict[Future[Answer], int] = {}
        try:
            futures = {pool.submit(task): index for index, task in tasks.items()}
            pending = set(futures)
            while pending:
                done, pending = wait(pending, _SLICE_S, FIRST_COMPLETED)
                for future in done:
                    answers[futures[future]] = future.result()
                report()
        except BrokenProcessPool:
            _keep_finished(futures, answers)
        except BaseException:
            terminate_workers(pool)
            raise


def make_pool(
    processes: int, workers: int, turns: Semaphore | None = None, spares_memory: bool = False
) -> ProcessPoolExecutor:
    """A pool of so many processes, of all `workers` that share the cores and the turns."""
    return ProcessPoolExecutor(
        processes,
        mp_context=make_worker_context(),
        initializer=_start_worker,
        initargs=(workers, turns, spares_memory),
    )


def make_turns(count: int, processes: int) -> Semaphore | None:
    """The turns of processes of which so many analyse at a time; None for all of them."""
    return make_worker_context().Semaphore(count) if 0 < count < processes else None


def terminate_workers(*pools: ProcessPoolExecutor) -> None:
    """End the workers after SIGTERM, which reached this process only."""
    for pool in pools:
        pool.shutdown(wait=False, cancel_futures=True)
    for worker in active_children():
        worker.terminate()


def _start_worker(
    workers: int, turns: Semaphore | None = None, spares_memory: bool = False
) -> None:
    """Limit a worker to its share of the cores, let malloc keep freed memory, use small pages, and
    keep the loaded modules out of collections of garbage, which take 0.03 s longer with them.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    threads.restrict_to_share(workers)
    MEMORY.limit(turns, spares_memory)
    set_malloc(spares_memory)
    gc.freeze()
    with suppress(OSError, AttributeError):  # Windows
        os.nice(5)  # the page waits for the replay, which runs beside 24 such processes


def do_work(work: Work, forks: bool, keeps: bool = False) -> Answer:
    """Return what the report before has freed: the next one would fill only a part of its holes."""
    if not work.is_begun:
        return_freed()
    try:
        return work.do(forks and threads.COUNT > 1, keeps)
    finally:
        MEMORY.end_turn()


def _end_with_parent() -> None:
    """End this worker when the process that started it was killed: nobody reads its answer."""
    parent = parent_process()
    if parent:
        parent.join()
        # sys.exit() would end this thread alone.
        os._exit(1)


def _keep_finished(futures: Mapping[Future[Answer], int], answers: dict[int, Answer]) -> None:
    for future, index in futures.items():
        if future.done() and not future.cancelled() and future.exception() is None:
            answers[index] = future.result()


def make_patient(notify: Notify) -> Notify:
    """Wrap `notify` so that lines in the first two seconds (QUIET_S) are dropped, and repeated
    ones, each of which would be a line of its own where no terminal is.
    """
    started, last = time.monotonic(), ""

    def patient(line: str) -> None:
        nonlocal last
        if line != last and time.monotonic() - started > QUIET_S:
            last = line
            notify(line)

    return patient


def _log_answer(answer: Answer, done: int, total: int, notify: Notify) -> Answer:
    notify(f"{done} of {total} reports read")
    return answer
