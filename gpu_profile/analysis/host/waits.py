"""In which calls of the operating system a thread waited (nsys --trace=osrt), by what for."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.arrays.columns import is_among, list_distinct
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import OSRT

# Python's queues and pipes wait in these: a lock with a timeout is sem_clockwait, a pipe poll.
WAITS = {
    "a queue, a pipe or another process": re.compile(
        r"p?poll$|p?select$|epoll_p?wait|sem_(timed|clock)?wait|pthread_cond_(timed|clock)?wait"
        r"|futex|read$|recv|waitpid|wait4|mq_"
    ),
    "the clock (a sleep)": re.compile(r"(clock_)?nanosleep|u?sleep$"),
    "files": re.compile(r"f?open|fopen|fread|pread|pwrite|fwrite|write$|fsync|fdatasync|stat|mmap"),
}
QUEUE, SLEEP, FILES = WAITS
# Threads and processes of PyTorch's DataLoader name themselves since 2.3.
_LOADER_THREAD = re.compile(r"pt_data_|DataLoader|QueueFeeder")
# Shorter calls are work in passing (a lock of Python's takes some microseconds).
LEAST_NS = 100_000


@dataclass(frozen=True, eq=False)
class HostWaits:
    """`by_thread`: for each globalTid, when it waited for each kind in WAITS. `has_loader`:
    threads of a data loader are in the report."""

    by_thread: Mapping[int, Mapping[str, Intervals]]
    has_loader: bool = False


NO_WAITS = HostWaits({})


@once_each
def load_waits(database: Database) -> HostWaits:
    """Every long wait of a report; none where the operating system was not traced."""
    rows = database.load(OSRT, "start", "end", "globalTid", "nameId", sort=False)
    long = rows["end"] - rows["start"] >= LEAST_NS
    rows = {name: values[long] for name, values in rows.items()}
    names = database.names(rows["nameId"])
    waits: dict[int, dict[str, Intervals]] = {}
    for kind, pattern in WAITS.items():
        mine = is_among(rows["nameId"], [key for key, name in names.items() if pattern.match(name)])
        for thread in list_distinct(rows["globalTid"][mine]):
            chosen = mine & (rows["globalTid"] == thread)
            pieces = Intervals.union(rows["start"][chosen], rows["end"][chosen])
            waits.setdefault(thread, {})[kind] = pieces
    return HostWaits(waits, _has_loader(database))


def _has_loader(database: Database) -> bool:
    ids = [int(str(name)) for (name,) in database.rows("ThreadNames", "nameId") if name is not None]
    names = database.names(np.array(ids, np.int64))
    return any(_LOADER_THREAD.search(name) for name in names.values())
