"""Events of CUDA that nsys took from the program and failed to import."""

import re
from collections.abc import Sequence

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import (
    CUDA_EVENT,
    GPU_TABLES,
    OVERHEAD,
    RUNTIME,
    SYNCHRONIZATION,
)

# nsys 2025.3.1 with JAX 0.11. Five of eleven such recordings lack no events, but a name.
FAILED = "Error when processing events"
FAILED_IMPORT = "nsys failed to import"
_PRODUCED = re.compile(r"Number of CUPTI events produced:\s*(\d+)")
_TABLES = (*GPU_TABLES, RUNTIME, SYNCHRONIZATION, CUDA_EVENT, OVERHEAD, "CUDA_GRAPH_EVENTS")
"""With a row for each event of CUPTI."""
# Of those eleven, five lack 0.1 % at most and six lack 4 % or more.
LOST_SHARE = 0.01


def tell_failed_import(database: Database, texts: Sequence[str]) -> str:
    """How many events nsys lost while it imported them, by its diagnostics; "" for none.

    It counts the events without such an error, too, and more kinds than it exports.
    """
    if not any(text.startswith(FAILED) for text in texts):
        return ""
    produced = sum(int(match[1]) for text in texts if (match := _PRODUCED.search(text)))
    lost = produced - sum(database.count(table) for table in _TABLES)
    if lost <= LOST_SHARE * produced:
        return ""
    return f"{FAILED_IMPORT} {lost} of {produced} events of CUDA"
