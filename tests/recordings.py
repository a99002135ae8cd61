"""A recorded run of a few steps, for tests to which any real run will do.

Its four ranks are those of tests/data/h200x4-ddp until the end of the fourth of 20 steps: to
diagnose one of them takes 0.14 s of CPU, and 0.7 s a whole one.
"""

import gzip
import os
from pathlib import Path

from tests.written_database import write_database

STEPS = 4
_RECORDED = Path(__file__).parent / "data" / "h200x4-ddp"
_CUPTI = "CUPTI_ACTIVITY_KIND_"
_WORK = ("KERNEL", "MEMCPY", "MEMSET", "SYNCHRONIZATION", "CUDA_EVENT")


def make_short_run(folder: Path) -> Path:
    """Write rank0.sqlite to rank3.sqlite, unless another process of tests has. Returns `folder`."""
    if not folder.is_dir():
        draft = folder.with_name(f"{folder.name}.{os.getpid()}")
        draft.mkdir()
        for rank in range(4):
            _write_short_rank(_RECORDED / f"rank{rank}.sqlite.gz", draft / f"rank{rank}.sqlite")
        try:
            draft.rename(folder)
        # A rename onto a folder that is not empty fails, so one process' files are there, whole.
        except OSError:  # another process was first
            assert folder.is_dir()
    return folder


def _write_short_rank(recorded: Path, target: Path) -> None:
    """Keep what began before the next step, and the GPU's work for those calls."""
    target.write_bytes(gzip.decompress(recorded.read_bytes()))
    with write_database(target) as report:
        (end,) = report.execute(
            "SELECT start FROM NVTX_EVENTS WHERE text = 'step' ORDER BY start LIMIT 1 OFFSET ?",
            (STEPS,),
        ).fetchone()
        for table in ("NVTX_EVENTS", f"{_CUPTI}RUNTIME"):
            report.execute(f"DELETE FROM {table} WHERE start >= ?", (end,))
        calls = f"SELECT correlationId FROM {_CUPTI}RUNTIME"
        for kind in _WORK:
            report.execute(f"DELETE FROM {_CUPTI}{kind} WHERE correlationId NOT IN ({calls})")
        report.commit()  # VACUUM runs in no transaction
        report.execute("VACUUM")
