"""Stand in for `mpirun` or for torchrun's `python`, so that each rank is started under nsys.

run_container.py writes programs of these names in a directory of its own, which call `main` here,
with `settings.json` beside them. A program's name says what it stands in for. Python 3.8, stdlib
only.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MPI_PROGRAMS = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun")
RANK_PYTHON = "rank-python"
SETTINGS_FILE = "settings.json"

# How many words follow an option of mpirun: man pages of Open MPI 4.1 and 5.0, of Hydra 4 (MPICH,
# Intel MPI). Of an option that is not here: the words that are neither options nor programs.
_TWO = {"mca", "gmca", "pmca", "omca", "prtemca", "pmixmca", "genv", "env", "tv"}
_ONE = {
    *("c", "n", "np", "N", "npernode", "npersocket", "ppn", "perhost", "H", "host", "hosts", "f"),
    *("hostfile", "machinefile", "default-hostfile", "rankfile", "rf", "x", "wdir", "wd", "path"),
    *("bind-to", "map-by", "rank-by", "output", "output-filename", "timeout", "prefix", "am"),
    *("tune", "app", "genvlist", "envlist", "launcher", "rmk", "iface", "hosts-file", "dir"),
    *("launcher-exec", "launch-agent", "personality", "runtime-options", "display", "stdin"),
    *("cpu-set", "cpu-list", "server-wait-time", "ompi-server", "mem-bind", "membind", "gtool"),
    *("bootstrap", "configfile", "cpus-per-proc", "cpus-per-rank", "max-restarts", "slot-list"),
}
_NONE = {
    *("allow-run-as-root", "oversubscribe", "nooversubscribe", "tag-output", "quiet", "verbose"),
    *("v", "q", "nolocal", "novm", "report-bindings", "display-map", "display-allocation"),
    *("bynode", "byslot", "bind-to-core", "bind-to-none", "bind-to-socket", "continuous", "l"),
    *("use-hwthread-cpus", "enable-recovery", "disable-recovery", "genvall", "genvnone", "d"),
    *("timestamp-output", "merge-stderr-to-stdout", "do-not-launch", "prepend-rank", "debug"),
}


def find_program(words: Sequence[str]) -> int:
    """Return where the program stands in mpirun's words; their number where none stands there."""
    place = 0
    while place < len(words):
        if not words[place].startswith("-"):
            return place
        place += 1 + _count_values(words[place], words[place + 1 :])
    return place


def _count_values(option: str, after: Sequence[str]) -> int:
    """Return how many words of `after` belong to the option: 2 for `--mca btl tcp,self`."""
    name = option.lstrip("-")
    if "=" in name or name in _NONE:
        return 0
    if name in _TWO or name in _ONE:
        return 2 if name in _TWO else 1
    values = 0
    while values < len(after) and not after[values].startswith("-") and not _runs(after[values]):
        values += 1
    return values


def _runs(word: str) -> bool:
    return shutil.which(word) is not None or word.endswith(".py")


def wrap_mpi_words(words: Sequence[str], rank_words: Sequence[str]) -> list[str]:
    """Return mpirun's words with `rank_words` before each program; ` : ` separates programs."""
    wrapped: list[str] = []
    for part in _split(words):
        place = find_program(part)
        ours = rank_words if place < len(part) else ()
        if wrapped:
            wrapped.append(":")
        wrapped += [*part[:place], *ours, *part[place:]]
    return wrapped


def _split(words: Sequence[str]) -> Iterator[Sequence[str]]:
    if ":" not in words:
        yield words
        return
    colon = list(words).index(":")
    yield words[:colon]
    yield from _split(words[colon + 1 :])


def find_real(name: str, shims: str, environ: Mapping[str, str]) -> str:
    """Return the program of this name that is after our shims in PATH."""
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(folder for folder in folders if folder != shims)
    return shutil.which(name, path=path) or name


def main(shim: str, *arguments: str) -> int:
    """Become the real program, or the wrapper of a rank. Returns 127 if there is none."""
    shims, name = os.path.split(shim)
    settings = json.loads(Path(shims, SETTINGS_FILE).read_text(encoding="utf-8"))
    if name == RANK_PYTHON:
        argv = [*settings["rank"], settings["python"], *arguments]
    else:
        real = settings["real"] if name == settings["name"] else find_real(name, shims, os.environ)
        argv = [real, *wrap_mpi_words(arguments, settings["rank"])]
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        print(f"gpu-profile: {argv[0]}: {error.strerror}", file=sys.stderr, flush=True)
    return 127
