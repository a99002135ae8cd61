"""The threads that read a report: one for each core (at most 8), divided by the worker processes.

map_ahead() does what concurrent.futures can do, whose import takes 6 ms: it imports logging. A
table of 2.4 million kernels takes 200 ms in all.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from queue import SimpleQueue
from typing import TypeAlias, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Reply: TypeAlias = "SimpleQueue[Result | _Failure]"

COUNT = min(8, os.cpu_count() or 1)


def restrict_to_share(processes: int) -> None:
    """Set COUNT for one of `processes` worker processes: 8 cores and 4 processes give 2 threads
    each.
    """
    global COUNT
    COUNT = max(1, min(8, (os.cpu_count() or 1) // processes))


class _Failure:
    """The error of a task."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def map_ahead(
    function: Callable[[Item], Result], items: Iterable[Item]
) -> Generator[Result, None, None]:
    """Yield function(item) in the order of the items; at most 2 * COUNT + 1 results wait in memory.

    An error of the function is raised in its item's place. numpy releases the GIL.
    """
    if COUNT == 1:
        yield from map(function, items)
        return
    tasks: SimpleQueue[tuple[Item, Reply[Result]] | None] = SimpleQueue()
    workers = [threading.Thread(target=_answer, args=(function, tasks)) for _ in range(COUNT)]
    for worker in workers:
        worker.start()
    pending: deque[Reply[Result]] = deque()
    try:
        for item in items:
            pending.append(SimpleQueue())
            tasks.put((item, pending[-1]))
            if len(pending) > 2 * COUNT:
                yield _wait(pending.popleft())
        while pending:
            yield _wait(pending.popleft())
    finally:
        for _ in workers:
            tasks.put(None)
        for worker in workers:
            worker.join()


def _answer(
    function: Callable[[Item], Result], tasks: "SimpleQueue[tuple[Item, Reply[Result]] | None]"
) -> None:
    """Do tasks until there is None."""
    while task := tasks.get():
        item, reply = task
        try:
            reply.put(function(item))
        except BaseException as error:
            reply.put(_Failure(error))


def _wait(reply: "Reply[Result]") -> Result:
    result = reply.get()
    if isinstance(result, _Failure):
        raise result.error
    return result
