"""Tell from a command's words what kind of program it is. Python 3.8, stdlib only."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SYSTEM = {"/bin", "/usr/bin", "/sbin", "/usr/sbin"}
_PYTHON = re.compile(r"(python|pypy)[\d.]*")
_STARTERS = {
    *("bash", "sh", "dash", "zsh", "ksh", "env", "perl", "ruby", "julia", "Rscript", "java"),
    *("node", "srun", "sudo", "unshare"),
    *("torchrun", "accelerate", "deepspeed", "horovodrun", "mpirun", "mpiexec", "orterun"),
    *("numactl", "taskset", "nice", "ionice", "time", "timeout", "stdbuf", "setsid", "xargs"),
}
"""Programs that are installed with the system and start those of users."""
_INITS = {"tini", "tini-static", "docker-init", "dumb-init", "catatonit"}
_INIT_VALUES = {"-p", "-e", "-r", "--rewrite"}
"""Options of tini and dumb-init that another word follows."""
_OF_CONTAINERS = {"apptainer", "singularity", "docker", "podman", "enroot", "shifter", "sarus"}
_TORCHRUN_MODULES = {"torch.distributed.run", "torch.distributed.launch"}


def is_of_the_system(program: str) -> bool:
    """Return whether a program is one of the machine's own that starts no other, as `hostname`."""
    path = Path(shutil.which(program) or program)
    if _PYTHON.fullmatch(path.name) or path.name in _STARTERS:
        return False
    return str(path.parent) in _SYSTEM


def find_program(words: Sequence[str]) -> int:
    """Return where the program stands: after the inits (`tini -g --`) and entrypoint scripts.

    A script named *.sh before another word is taken for an entrypoint that ends with `exec "$@"`.
    """
    place = 0
    while place + 1 < len(words):
        name = Path(words[place]).name
        if name in _INITS:
            place = _skip_options(words, place + 1)
        elif name.endswith(".sh") and is_torchrun(words[place + 1 :]):
            place += 1
        else:
            break
    return place if place < len(words) else 0


def _skip_options(words: Sequence[str], place: int) -> int:
    while place < len(words) and words[place].startswith("-"):
        if words[place] == "--":
            return place + 1
        place += 2 if words[place] in _INIT_VALUES else 1
    return place


def prepare_for_init(words: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which a tini that is not process 1 reaps what it starts.

    Without TINI_SUBREAPER (any value) it prints three lines of warning, and leaves zombies to us.
    """
    is_tini = bool(words) and Path(words[0]).name in {"tini", "tini-static", "docker-init"}
    return {"TINI_SUBREAPER": "1", **environ} if is_tini else dict(environ)


def is_profiler(program: str) -> bool:
    return Path(program).name in {"nsys", "ncu", "compute-sanitizer", "cuda-gdb"}


def starts_container(program: str) -> bool:
    """Return whether a program starts another in a container, which has no nsys of the node's."""
    return Path(program).name in _OF_CONTAINERS


def is_torchrun(words: Sequence[str]) -> bool:
    """Return whether the words are `torchrun …` or `python -m torch.distributed.run …`."""
    name = Path(words[0]).name if words else ""
    if name == "torchrun":
        return True
    module = words[words.index("-m") + 1 :][:1] if "-m" in words else []
    return bool(_PYTHON.fullmatch(name)) and bool(set(module) & _TORCHRUN_MODULES)
