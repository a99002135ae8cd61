"""The threads that read a report: one for each core (at most 8), shared by the worker processes."""

import os
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

COUNT = min(8, os.cpu_count() or 1)


def restrict_to_share(processes: int) -> None:
    """Set COUNT for one of `processes` worker processes: 8 cores and 4 processes give 2 threads
    each. Four processes and more have at most 2 each: with 4 they took 5 % longer on 16 cores.
    """
    global COUNT
    most = 2 if processes >= 4 else 8
    COUNT = max(1, min(most, (os.cpu_count() or 1) // processes))


def map_ahead(
    function: Callable[[Item], Result], items: Sequence[Item]
) -> Generator[Result, None, None]:
    """Yield function(item) in the order of the items; at most COUNT + 1 results wait in memory.

    Executor.map() would submit all items at once, and so hold a whole table. An error of the
    function is raised in its item's place. numpy releases the GIL.
    """
    if COUNT == 1 or len(items) < 2:
        yield from map(function, items)
        return
    # This import takes 6 ms, because it imports logging; most tables are one block.
    from concurrent.futures import Future, ThreadPoolExecutor

    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(COUNT) as pool:
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                if len(pending) > COUNT:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
