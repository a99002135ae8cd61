"""Spellings of Slurm: quoted words of an #SBATCH line, and time limits such as 1-12:30:00."""

import re

from gpu_profile.errors import SettingsError

# Slurm may send --signal up to 60 s early: shorter jobs get its own SIGTERM only.
# https://slurm.schedmd.com/sbatch.html#OPT_signal
_SHORTEST_WARNED_S = 600


def quote_directive(value: str) -> str:
    """Return a word for an #SBATCH line.

    Slurm knows quotes and backslashes there, and # begins a comment. Raises SettingsError for a
    line break.
    """
    if "\n" in value or "\0" in value:
        raise SettingsError(f"{value!r} holds a line break", "An #SBATCH line holds none")
    if re.fullmatch(r"[\w@%+=:,./-]+", value):
        return value
    return '"' + re.sub(r'([\\"#])', r"\\\1", value) + '"'


def parse_time_limit(limit: str) -> int:
    """Return the seconds of Slurm's minutes, m:s, h:m:s, d-h, d-h:m or d-h:m:s; 0 for others."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", limit)
    if match is None:
        return 0
    days, first, second, third = (int(part or 0) for part in match.groups())
    if match[1] is not None or match[4] is not None:
        return days * 86400 + first * 3600 + second * 60 + third
    return first * 60 + second


def ask_warning(limit: str) -> str:
    """Return the option by which Slurm tells a script that its time limit is near.

    nsys gets 5 % of the limit, at least 120 s and at most 900. Empty for a short limit, or none.
    """
    seconds = parse_time_limit(limit)
    if seconds < _SHORTEST_WARNED_S:
        return ""
    return f"--signal=B:USR1@{min(max(seconds // 20, 120), 900)}"
