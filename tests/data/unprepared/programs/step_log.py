"""Write when each step of a program began and ended: the truth that a reader of the report must find.

Nothing is marked in the report itself. One JSON line a step in STEP_LOG_DIR/rank<N>.jsonl, in
nanoseconds since the epoch: {"begin": 1766000000000000000, "end": 1766000000100000000}.
"""

import atexit
import json
import os
import time

_LINES = []


def begin():
    _LINES.append([time.time_ns(), 0])


def end():
    _LINES[-1][1] = time.time_ns()


@atexit.register
def _write():
    folder = os.environ.get("STEP_LOG_DIR")
    if folder and _LINES:
        path = os.path.join(folder, f"rank{os.environ.get('RANK', '0')}.jsonl")
        with open(path, "w") as log:
            log.writelines(json.dumps({"begin": b, "end": e}) + "\n" for b, e in _LINES)
