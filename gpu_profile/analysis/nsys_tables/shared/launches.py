"""Read GPU operations together with the API calls that launched them."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.types import IntArray, Places
from gpu_profile.analysis.nsys_tables.shared.call_index import CallIndex
from gpu_profile.analysis.store.database import Columns, Database
from gpu_profile.analysis.store.schema import KERNEL, MEMCPY, MEMSET, MISSING, RUNTIME

# Half of all API calls launch nothing, so calls with these names are read first; nearly all
# operations come from them.
LAUNCHING = re.compile(r"^cu.*(Launch|Memcpy|Memset)")


# nsys does not project graphs that were traced as a whole (CUPTI_ACTIVITY_KIND_GRAPH_TRACE).
PROJECTED = (KERNEL, MEMCPY, MEMSET)
NO_END = int(np.iinfo(np.int64).min)  # marks a call that launched nothing

Calls = dict[str, NDArray[Any]]  # columns of one length


def load_launched(
    database: Database,
    tables: Iterable[str],
    columns: Sequence[str] = (),
    unmatched: bool = False,
    with_api: bool = False,
) -> Columns:
    """Operations whose call was recorded, with the given `columns` of the operations.

    The result has the keys start, end (on the GPU), the given columns, and of the call api_start,
    api_end, thread (its globalTid) and, if `with_api`, api (the id of its name). Correlation ids
    are unique only within a process, so the process is compared too. `unmatched` also keeps
    operations without a call; their call's columns are MISSING.
    """
    keys = ("start", "end", "correlationId", "globalPid", *columns)
    parts = [database.load(table, *keys, sort=False) for table in tables]
    ops = {name.rstrip("?"): _join_column(parts, name.rstrip("?")) for name in keys}
    call_columns = [key for name, key in _API_KEYS if with_api or name != "api"]
    calls, place = _load_calls(
        database, ops.pop("correlationId"), ops.pop("globalPid"), call_columns
    )
    has_call = place >= 0
    if not has_call.all() and not unmatched:
        place = place[has_call]
        ops = {name: values[has_call] for name, values in ops.items()}
    for name, key in _API_KEYS[: len(call_columns)]:
        values = calls.pop(key)
        ops[name] = values[place] if len(values) else np.full(len(place), MISSING)
        if unmatched:
            ops[name][~has_call] = MISSING
    return ops


def load_launching_calls(database: Database, tables: Sequence[str] = PROJECTED) -> Calls:
    """API calls that launched operations, in the file's order: thread, api_start, api_end, and the
    first start and last end of the operations (many for a graph that was traced by node).

    To save memory the operations are read in parts and reduced to these two times.
    """
    for only in ({"nameId": database.ids(LAUNCHING)}, None):
        rows = database.load(
            RUNTIME, "start", "end", "globalTid", "correlationId", only=only, sort=False
        )
        index = CallIndex(rows["globalTid"], rows.pop("correlationId"))
        calls: Calls = {"thread": rows.pop("globalTid"), "api_start": rows.pop("start")}
        calls["api_end"] = rows.pop("end")
        if _add_operations(database, tables, index, calls) or only is None:
            break
    launched = calls["end"] > NO_END
    # Columns are replaced one by one: two copies of all of them would be the peak of the memory.
    return calls if launched.all() else {name: calls.pop(name)[launched] for name in list(calls)}


def _add_operations(
    database: Database, tables: Sequence[str], index: CallIndex, calls: Calls
) -> bool:
    """Set start and end of the calls by their operations; return whether every operation had a
    call.
    """
    size, is_complete = len(calls["thread"]), True
    calls["start"] = np.full(size, np.iinfo(np.int64).max)
    calls["end"] = np.full(size, NO_END)
    for table in tables:
        for ops in database.parts(table, "start", "end", "correlationId", "globalPid"):
            place = index.places(ops["correlationId"], ops["globalPid"]).astype(np.int64)
            start, end, has_call = ops["start"], ops["end"], place >= 0
            if not has_call.all():
                place, start, end, is_complete = (
                    place[has_call],
                    start[has_call],
                    end[has_call],
                    False,
                )
            np.minimum.at(calls["start"], place, start)
            np.maximum.at(calls["end"], place, end)
    return is_complete


_API_KEYS = (("api_start", "start"), ("api_end", "end"), ("thread", "globalTid"), ("api", "nameId"))


def _join_column(parts: list[Columns], name: str) -> IntArray:
    """Concatenate one column of all parts, and remove it from them at once to save memory."""
    arrays = [part.pop(name) for part in parts]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _load_calls(
    database: Database, correlation: IntArray, process: IntArray, call_columns: Sequence[str]
) -> tuple[Columns, Places]:
    """(calls, index of each operation's call, -1: none)."""
    only = {"nameId": database.ids(LAUNCHING)}
    columns = (*call_columns, "correlationId")
    calls = database.load(RUNTIME, *columns, only=only, sort=False)
    place = _match_calls(calls, correlation, process)
    if (place < 0).any():
        calls = database.load(RUNTIME, *columns, sort=False)
        place = _match_calls(calls, correlation, process)
    return calls, place


def _match_calls(calls: Columns, correlation: IntArray, process: IntArray) -> Places:
    """The index of each operation's call, or -1. Removes correlationId from `calls`."""
    return CallIndex(calls["globalTid"], calls.pop("correlationId")).places(correlation, process)
