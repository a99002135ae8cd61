"""GPU operations with the API calls that launched them."""

import re
from collections.abc import Iterable, Sequence

import numpy as np

from gpu_profile.analysis.database import Columns, Database
from gpu_profile.analysis.schema import GPU_TABLES, MISSING, RUNTIME, IntArray, Places, pid_of
from gpu_profile.analysis.values import places, present

# Half of all API calls launch nothing; those with such names nearly always do.
LAUNCHING = re.compile(r"^cu.*(Launch|Memcpy|Memset)")


def launched(
    database: Database,
    tables: Iterable[str] = GPU_TABLES,
    columns: Sequence[str] = (),
    unmatched: bool = False,
    named: bool = False,
) -> Columns:
    """Operations whose call was recorded, with `columns` of their own.

    The keys: start, end (on the GPU), the given columns, and of the call: api_start, api_end,
    thread (its globalTid) and, if `named`, api (its name's id). correlationId is unique in a
    process only, so the process is part of what is compared. `unmatched` keeps operations
    without a call, whose keys of the call are MISSING.
    """
    keys = ("start", "end", "correlationId", "globalPid", *columns)
    parts = [database.load(table, *keys, sort=False) for table in tables]
    ops = {name.rstrip("?"): _joined(parts, name.rstrip("?")) for name in keys}
    wanted = [key for name, key in _API_KEYS if named or name != "api"]
    calls, place = _calls(database, ops.pop("correlationId"), ops.pop("globalPid"), wanted)
    found = place >= 0
    if not found.all() and not unmatched:
        place = place[found]
        ops = {name: values[found] for name, values in ops.items()}
    for name, key in _API_KEYS[: len(wanted)]:
        values = calls.pop(key)
        ops[name] = values[place] if len(values) else np.full(len(place), MISSING)
        if unmatched:
            ops[name][~found] = MISSING
    return ops


_API_KEYS = (("api_start", "start"), ("api_end", "end"), ("thread", "globalTid"), ("api", "nameId"))


def _joined(parts: list[Columns], name: str) -> IntArray:
    """One column of all parts, which give theirs up at once: they are large."""
    arrays = [part.pop(name) for part in parts]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _calls(
    database: Database, correlation: IntArray, process: IntArray, wanted: Sequence[str]
) -> tuple[Columns, Places]:
    """API calls, and which of them each operation's is (-1: none)."""
    only = {"nameId": database.ids(LAUNCHING)}
    columns = (*wanted, "correlationId")
    calls = database.load(RUNTIME, *columns, only=only, sort=False)
    place = _matched(calls, correlation, process)
    if (place < 0).any():
        calls = database.load(RUNTIME, *columns, sort=False)
        place = _matched(calls, correlation, process)
    return calls, place


def _matched(calls: Columns, correlation: IntArray, process: IntArray) -> Places:
    """The call of each operation, or -1; takes correlationId out of the calls."""
    theirs = calls.pop("correlationId")
    if len(_ends(process) | _ends(calls["globalTid"])) < 2:
        return places(correlation, theirs)
    pids = np.array(present(pid_of(process)), np.int64)
    highest = max((int(part.max()) for part in (correlation, theirs) if len(part)), default=0) + 1
    keys = _keys(pids, process, correlation, highest)
    return places(keys, _keys(pids, calls["globalTid"], theirs, highest))


def _ends(owner: IntArray) -> set[int]:
    """The first and the last of the processes: one where there is only one."""
    return {int(owner.min()) >> 24, int(owner.max()) >> 24} if len(owner) else set()


def _keys(pids: IntArray, owner: IntArray, correlation: IntArray, highest: int) -> IntArray:
    """One number a (process, correlation); other processes' calls get ones of nobody's."""
    mine = pid_of(owner)
    place = np.minimum(np.searchsorted(pids, mine), len(pids) - 1)
    return np.where(pids[place] == mine, place * highest + correlation, -1)
