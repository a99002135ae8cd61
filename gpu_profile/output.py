"""output.log: what a job said, kept whole and told in one line."""

import contextlib
import re
from pathlib import Path

from gpu_profile import redact
from gpu_profile.command import Result

_TAIL = 1 << 14
_PROFILER = re.compile(
    r"(\[\d+\] )?(Generat(ing|ed)\b|\[\d+/\d+\] \[|\s*/.+\.(nsys-rep|sqlite|qdstrm)$"
    r"|profile\.py: rank \d+ ended|nsys \d+\.\d+\S* from |srun: "
    r"|slurmstepd-(?!\S+ error: pyxis:\s+(\[ERROR\]|curl:|--container-)))"
)
"""Lines of nsys, profile.py and Slurm that stand around what the job said, with or without its
rank. Why its container did not start is what a job has to say that never was."""


def complete(log: Path, whole: Result) -> None:
    """Keep what was followed, in its order, unless the job's log has more; without credentials."""
    followed = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    logged = whole.stdout + whole.stderr if whole.returncode == 0 else ""
    if logged.startswith("No resources found"):  # kubectl's word for pods that were never there
        logged = ""
    longer = max(followed, logged, key=len)
    log.write_text(redact.text(longer), encoding="utf-8")


def last_line(log: Path) -> str:
    """The last line that the job itself said; nsys' own where it said none. Empty without any."""
    with contextlib.suppress(OSError):
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL))
            text = file.read().decode(errors="replace")
        lines = [line for line in re.split(r"[\r\n]+", text) if line.strip()]
        own = [line for line in lines if not _PROFILER.match(line)]
        return (own or lines or [""])[-1].strip()
    return ""
