"""Many reports: each one's small partial results made side by side, then merged exactly.

The same functions run in this process, in a pool of processes, or on a Dask cluster; partials
are merged in the reports' order, so that the bytes that come out do not tell which.
"""

import ctypes
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import forkserver, get_all_start_methods, get_context
from multiprocessing.context import BaseContext

from gpu_profile.analysis.multi_report.work import Answer, ReportSource, Tell, Work
from gpu_profile.analysis.store import threads
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.errors import GpuProfileError, ReportError
from gpu_profile.table import Table

TRIES = 3  # a report whose worker died that often is named and left out
QUIET_S = 2.0
_SLICE_S = 0.5
_FORKSERVER = "forkserver"
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h


@dataclass(frozen=True)
class Analysed:
    """`tables` by analysis name; `refused` are the reports that could not be read, and why."""

    tables: Mapping[str, Table]
    refused: tuple[tuple[ReportSource, GpuProfileError], ...] = ()


def analyse_reports(
    sources: Sequence[ReportSource],
    analyses: Sequence[Analysis],
    *,
    scheduler: str = "",
    workers: int = 0,
    tell: Tell = lambda line: None,
) -> Analysed:
    """Every analysis over all reports.

    `scheduler`: a Dask scheduler's address ("tcp://host:8786"), default processes of our own, as
    many as there are cores (or `workers`). A report that cannot be read is in `refused`; raises
    the first such refusal when none could be read, and ToolError when the cluster is not there.
    """
    answers = collect_partials(sources, analyses, scheduler=scheduler, workers=workers, tell=tell)
    return merge_answers(sources, analyses, answers)


def collect_partials(
    sources: Sequence[ReportSource],
    analyses: Sequence[Analysis],
    *,
    scheduler: str = "",
    workers: int = 0,
    tell: Tell = lambda line: None,
) -> list[Answer]:
    """One answer a report, in the reports' order: its partials, or why it cannot be read."""
    works = [Work(source, tuple(analyses)) for source in sources]
    tell = _make_patient(tell)
    if scheduler:
        from gpu_profile.analysis.multi_report.dask_cluster import on_cluster

        return on_cluster(works, scheduler, tell)
    workers = min(workers or _count_cores(), len(works))
    if workers < 2:
        return [
            _log_answer(work.do(), index + 1, len(works), tell) for index, work in enumerate(works)
        ]
    return _in_processes(works, workers, tell)


def merge_answers(
    sources: Sequence[ReportSource], analyses: Sequence[Analysis], answers: Sequence[Answer]
) -> Analysed:
    """The tables of all reports that were read."""
    refused = tuple(
        (source, answer)
        for source, answer in zip(sources, answers, strict=True)
        if isinstance(answer, GpuProfileError)
    )
    read = [answer for answer in answers if not isinstance(answer, GpuProfileError)]
    if refused and not read:
        raise refused[0][1]
    tables = {
        one.name: one.merge([answer[index] for answer in read])
        for index, one in enumerate(analyses)
    }
    return Analysed(tables, refused)


def _in_processes(works: Sequence[Work], workers: int, tell: Tell) -> list[Answer]:
    """A worker that dies (out of memory, killed) breaks the whole pool: what it and its
    neighbours had in hand is done again by a new one, alone the last time."""
    answers: dict[int, Answer] = {}
    for attempt in range(TRIES):
        missing = [index for index in range(len(works)) if index not in answers]
        if not missing:
            break
        last = attempt == TRIES - 1
        for group in [[index] for index in missing] if last else [missing]:
            _pool_round(works, group, min(workers, len(group)), answers, tell)
    hint = "It may need more memory than there is; read it alone, or with --scheduler"
    for index in range(len(works)):
        died = ReportError(f"reading {works[index].source.place} killed its worker", hint)
        answers.setdefault(index, died)
    return [answers[index] for index in range(len(works))]


def _pool_round(
    works: Sequence[Work], group: list[int], workers: int, answers: dict[int, Answer], tell: Tell
) -> None:
    with ProcessPoolExecutor(
        workers, mp_context=_make_worker_context(), initializer=_start_worker, initargs=(workers,)
    ) as pool:
        futures: dict[Future[Answer], int] = {}
        try:
            futures = {pool.submit(works[index].do): index for index in group}
            pending = set(futures)
            while pending:
                done, pending = wait(pending, _SLICE_S, FIRST_COMPLETED)
                for future in done:
                    answers[futures[future]] = future.result()
                tell(f"{len(answers)} of {len(works)} reports read")
        except BrokenProcessPool:
            _keep_finished(futures, answers)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _make_worker_context() -> BaseContext:
    """Workers forked from a server that has our modules loaded: it starts once, they at once. A
    fork of this process could inherit a lock that one of its threads holds. Windows has none."""
    if _FORKSERVER not in get_all_start_methods():
        return get_context("spawn")
    context = get_context(_FORKSERVER)
    context.set_forkserver_preload(["gpu_profile.analysis.page"])
    return context


def prepare_workers() -> None:
    """Start the workers' server before there is work: it loads our modules while we load them."""
    if _make_worker_context().get_start_method() == _FORKSERVER:
        forkserver.ensure_running()


def _start_worker(workers: int) -> None:
    """A worker takes its part of the cores, and keeps its memory: large arrays come and go, and
    the C library would have each one's pages zeroed anew, a fifth of all time."""
    threads.restrict_to_share(workers)
    with suppress(OSError, AttributeError):  # no glibc
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, 1 << 25)
        library.mallopt(M_TRIM_THRESHOLD, 1 << 30)


def _keep_finished(futures: Mapping[Future[Answer], int], answers: dict[int, Answer]) -> None:
    for future, index in futures.items():
        if future.done() and not future.cancelled() and future.exception() is None:
            answers[index] = future.result()


def _make_patient(tell: Tell) -> Tell:
    """Say nothing of what is done within two seconds."""
    started = time.monotonic()

    def patient(line: str) -> None:
        if time.monotonic() - started > QUIET_S:
            tell(line)

    return patient


def _log_answer(answer: Answer, done: int, total: int, tell: Tell) -> Answer:
    tell(f"{done} of {total} reports read")
    return answer


def _count_cores() -> int:
    """The cores that this process may use, not all that the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
