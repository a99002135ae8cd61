"""The CUDA API calls of a report, in narrow columns."""

import numpy as np

from gpu_profile.analysis.activity.activity import Calls
from gpu_profile.analysis.activity.serving.processes import list_callers
from gpu_profile.analysis.arrays.columns import Index, list_distinct, narrow_column, shrink_column
from gpu_profile.analysis.arrays.ends import measure_lengths
from gpu_profile.analysis.arrays.numbers import Numbers, narrow_numbers
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.store.columns import Made
from gpu_profile.analysis.store.database import Columns, Database, sort_columns
from gpu_profile.analysis.store.schema import RUNTIME, process_of

_COLUMNS = ("start", "end", "globalTid", "correlationId", "nameId")


def load_calls(database: Database) -> tuple[dict[int, Calls], dict[int, Index]]:
    """The calls of each process (globalPid), sorted by start, and the index of their correlation
    ids, which nothing needs when the operations are loaded.
    """
    numbers = Numbers()

    def narrow(rows: Columns) -> Made:
        return {
            "start": rows["start"],
            "length": measure_lengths(rows["start"], rows["end"]),
            "thread": numbers.encode(rows["globalTid"]),
            "correlation": narrow_column(rows["correlationId"]),
            "name": shrink_column(rows["nameId"]),
        }

    calls, threads = database.gather(RUNTIME, _COLUMNS, narrow), numbers.values
    with database.lend(RUNTIME, {"globalTid": threads}):
        list_callers(database)  # else it reads the threads of all calls once more
    of_process = process_of(threads)
    made = {
        process: _make_calls(calls, threads, of_process == process)
        for process in list_distinct(of_process)
    }
    return (
        {process: calls for process, (calls, _) in made.items()},
        {process: index for process, (_, index) in made.items()},
    )


def _make_calls(columns: Made, threads: IntArray, chosen: Flags) -> tuple[Calls, Index]:
    """The calls of the chosen threads, and the index of their correlation ids."""
    if not chosen.all():
        rows = chosen[columns["thread"]]
        columns = {key: values[rows] for key, values in columns.items()}
    ordered = sort_columns(columns, "start", "length")
    index = Index(ordered.pop("correlation"))
    kept = np.sort(threads[chosen])
    ordered["thread"] = narrow_numbers(np.searchsorted(kept, threads))[ordered["thread"]]
    return Calls(**ordered, threads=kept), index


def make_no_calls() -> Calls:
    """The calls of a process without any."""
    none = np.empty(0, np.int64)
    return Calls(none, none, narrow_numbers(none), none, none)
