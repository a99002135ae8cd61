"""Times at which a thread waited in operating system calls (nsys --trace=osrt), by kind of wait."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.arrays.columns import is_among, list_distinct
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.store.cells import integer_or_none
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.records import read_records
from gpu_profile.analysis.store.schema import OSRT

# Python waits for a queue or lock with a timeout in sem_clockwait, for a pipe in poll:
# https://github.com/python/cpython/blob/3.12/Python/thread_pthread.h
WAITS = {
    "a queue, a pipe or another process": re.compile(
        r"p?poll$|p?select$|epoll_p?wait|sem_(timed|clock)?wait|pthread_cond_(timed|clock)?wait"
        r"|futex|read$|recv|waitpid|wait4|mq_"
    ),
    "the clock (a sleep)": re.compile(r"(clock_)?nanosleep|u?sleep$"),
    "files": re.compile(r"f?open|fopen|fread|pread|pwrite|fwrite|write$|fsync|fdatasync|stat|mmap"),
}
QUEUE, SLEEP, FILES = WAITS
# PyTorch names its DataLoader's threads and processes since version 2.3.
_LOADER_THREAD = re.compile(r"pt_data_|DataLoader|QueueFeeder")
# Shorter calls are no waits: a Python lock takes some microseconds.
LEAST_NS = 100_000


@dataclass(frozen=True, eq=False)
class HostWaits:
    """`by_thread`: for each globalTid, the time in each kind of WAITS. `has_loader`: the report
    has threads of a data loader.
    """

    by_thread: Mapping[int, Mapping[str, Intervals]]
    has_loader: bool = False


NO_WAITS = HostWaits({})


@once_each
def load_waits(database: Database) -> HostWaits:
    """The waits of at least LEAST_NS in a report; empty without --trace=osrt."""
    rows = database.load(OSRT, "start", "end", "globalTid", "nameId", sort=False)
    long = rows["end"] - rows["start"] >= LEAST_NS
    rows = {name: values[long] for name, values in rows.items()}
    names = database.names(rows["nameId"])
    waits: dict[int, dict[str, Intervals]] = {}
    for kind, pattern in WAITS.items():
        of_kind = is_among(
            rows["nameId"], [key for key, name in names.items() if pattern.match(name)]
        )
        for thread in list_distinct(rows["globalTid"][of_kind]):
            chosen = of_kind & (rows["globalTid"] == thread)
            pieces = Intervals.union(rows["start"][chosen], rows["end"][chosen])
            waits.setdefault(thread, {})[kind] = pieces
    return HostWaits(waits, _has_loader(database))


def _has_loader(database: Database) -> bool:
    rows = read_records(database, "ThreadNames", integer_or_none("nameId"))
    ids = [name for (name,) in rows if name is not None]
    names = database.names(np.array(ids, np.int64))
    return any(_LOADER_THREAD.search(name) for name in names.values())
