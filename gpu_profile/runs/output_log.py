"""output.log: what a job said, kept whole and told in one line."""

import contextlib
import re
from pathlib import Path

from gpu_profile import redact
from gpu_profile.command import Result

_TAIL = 1 << 14
_FROM = r"(\[(\d+|pod/\S+)\] )*"
"""Which rank and which pod said the rest of a line."""
_NSYS = re.compile(
    rf"{_FROM}(Generat(ing|ed)\b|\[\d+/\d+\] \[|\s*/.+\.(nsys-rep|sqlite|qdstrm)$"
    r"|nsys \d+\.\d+\S* from )"
)
"""What nsys says of a report that it writes."""
_STARTER = re.compile(
    rf"{_FROM}(profile\.py: rank \d+ ended|gpu-profile: \S+ ended with \d+; )|srun: "
    r"|slurmstepd-(?!\S+ error: pyxis:\s+(\[ERROR\]|curl:|--container-))"
)
"""What profile.py, a pod's script and Slurm say around a job's own words. Why its container did
not start is what a job has to say that never was."""


def complete(log: Path, whole: Result) -> None:
    """Keep what was followed, in its order, unless the job's log has more; without credentials."""
    followed = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    logged = whole.stdout + whole.stderr if whole.returncode == 0 else ""
    if logged.startswith("No resources found"):  # kubectl's word for pods that were never there
        logged = ""
    longer = max(followed, logged, key=len)
    log.write_text(redact.text(longer), encoding="utf-8")


def last_line(log: Path) -> str:
    """The last line that the job itself said; its starter's where it said none, or empty."""
    with contextlib.suppress(OSError):
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL))
            text = file.read().decode(errors="replace")
        lines = [
            line for line in re.split(r"[\r\n]+", text) if line.strip() and not _NSYS.match(line)
        ]
        own = [line for line in lines if not _STARTER.match(line)]
        return (own or lines or [""])[-1].strip()
    return ""
