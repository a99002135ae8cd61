"""Tell from the words of a command what starts its ranks. Text for a shell is not parsed."""

import re
from collections.abc import Sequence
from enum import Enum
from pathlib import PurePosixPath

_MPI = {"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun"}
_TORCHRUN_MODULES = {"torch.distributed.run", "torch.distributed.launch"}
_PYTHON = re.compile(r"python[\d.]*")
# https://docs.pytorch.org/docs/stable/elastic/run.html
_PROCESSES = re.compile(r"--nproc[-_]per[-_]node(?:=(?P<number>\d+))?")
_INITS = {"tini", "tini-static", "docker-init", "dumb-init", "catatonit"}
_INIT_VALUES = {"-p", "-e", "-r", "--rewrite"}
"""Options of tini and dumb-init that another word follows."""
_RANKS = ("-np", "-n", "--np", "--n", "-c")


class Starter(Enum):
    """What starts a container's ranks: the value of run_container.py's --by."""

    TORCHRUN = "torchrun"
    MPIRUN = "mpirun"
    CONTAINER = "container"

    @property
    def says(self) -> str:
        return _SAYS[self]


_SAYS = {
    Starter.TORCHRUN: "one report a rank, which torchrun starts",
    Starter.MPIRUN: "one report a rank, which mpirun starts",
    Starter.CONTAINER: "one report of all its processes, whose ranks nsys does not tell apart",
}


def find_starter(words: Sequence[str]) -> Starter:
    """Return what starts the ranks: TORCHRUN for `torchrun …`, `python -m torch.distributed.run`.

    CONTAINER for all else: a program that is one rank itself, `accelerate launch`, `bash -c`.
    """
    words = skip_inits(words)
    program = PurePosixPath(words[0]).name if words else ""
    if program in _MPI:
        return Starter.MPIRUN
    if program == "torchrun":
        return Starter.TORCHRUN
    if _PYTHON.fullmatch(program) and "-m" in words:
        module = words[words.index("-m") + 1 :][:1]
        return Starter.TORCHRUN if set(module) & _TORCHRUN_MODULES else Starter.CONTAINER
    return Starter.CONTAINER


def skip_inits(words: Sequence[str]) -> Sequence[str]:
    """Return the words from the program on: after `tini -g --`, and after entrypoint scripts.

    A script that is named *.sh is taken for one before a torchrun. program_kind.py of the agent
    does the same in the container.
    """
    while len(words) > 1:
        name = PurePosixPath(words[0]).name
        if name in _INITS:
            words = _skip_options(words[1:])
        elif name.endswith(".sh") and find_starter(words[1:]) is Starter.TORCHRUN:
            words = words[1:]
        else:
            break
    return words


def _skip_options(words: Sequence[str]) -> Sequence[str]:
    while words and words[0].startswith("-"):
        if words[0] == "--":
            return words[1:]
        words = words[2:] if words[0] in _INIT_VALUES else words[1:]
    return words


def count_ranks(words: Sequence[str], starter: Starter) -> int:
    """Return how many ranks the words ask for at least; 1 where they leave it open."""
    if starter is Starter.MPIRUN:
        return next((_read(words, n + 1) for n, word in enumerate(words) if word in _RANKS), 1)
    if starter is Starter.TORCHRUN:
        for number, word in enumerate(words):
            match = _PROCESSES.fullmatch(word)
            if match:
                return int(match["number"] or _read(words, number + 1))
    return 1


def _read(words: Sequence[str], number: int) -> int:
    """Return the number that stands at a position, or 1: `auto` and `gpu` are known in the pod."""
    text = words[number] if number < len(words) else ""
    return int(text) if text.isdecimal() and int(text) else 1
