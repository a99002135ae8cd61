#!/usr/bin/env python3
"""Run a command, each chosen rank of it under Nsight Systems. Python 3.8, stdlib only.

    profile.py [--processes N] [--ranks all|0,3] [--output DIR] [--nsys PATH] [--first=OPTION]…
               [--annotate LEVEL] [--steps A:B | --whole | --record manual] [--plain] [--shelter]
               [--with torch]
               [--rank N | --bare] [--window N] [--ncu=OPTION… --limit SECONDS]
               [NSYS_OPTION…] -- COMMAND…

Starts N ranks on this node with --processes; otherwise it is one rank of torchrun, mpirun, srun
or of its own --processes, and finds out which; --rank says it. With --bare the program gets no
variables of its rank but those it has. With --ncu the chosen rank runs under Nsight Compute, and
the others plain. A chosen rank's report is DIR/rank<N>.<host>.nsys-rep, or
DIR/rank<N>.<host>.2.nsys-rep with --window=2. --with torch has the program's own torch.profiler
write DIR/rank<N>.<host>.pt.trace.json.gz. Exits with the command's own exit code, 128+n where
signal n ended it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

# The sibling modules lie beside this file, also where it is a copy on another machine.
import start_ranks
from mpi_rank import continue_in_child, is_mpi_rank
from mpirun_watch import is_mpirun
from ncu_run import run_under_ncu
from node_directory import refuse_planted
from program_kind import prepare_for_init
from rank_call import USAGE, Call, RefusedError, parse_call
from rank_env import Place, place
from rank_processes import STOPPING, Child, exit_code, say
from rank_recording import Recording, wait_for
from torch_recording import record_with_torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOT_EXECUTABLE, NOT_FOUND = 126, 127
_RANKS = re.compile(r"(\d+)(?:-(\d+))?$")  # 3 or 0-3


def check_ranks(ranks: str) -> None:
    """Raise RefusedError unless `ranks` is a list of ranks: all, 0,3 or 0-3."""
    for part in ranks.split(","):
        if part.strip() != "all" and not _RANKS.match(part.strip()):
            raise RefusedError(f"--ranks {ranks!r} is not a list of ranks: use all, 0,3 or 0-3")


def is_chosen(ranks: str, rank: int) -> bool:
    """Return whether the list `ranks` contains `rank`. Raises RefusedError as check_ranks does."""
    check_ranks(ranks)
    matches = (_RANKS.match(part.strip()) for part in ranks.split(","))
    is_named = any(int(m[1]) <= rank <= int(m[2] or m[1]) for m in matches if m)
    return is_named or ranks.strip() == "all"


def resolve_command(command: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return the command with the absolute path of its program, found in PATH.

    nsys does not search PATH as a shell does.
    """
    path = shutil.which(command[0], path=environ.get("PATH", os.defpath))
    if path:
        return [path, *command[1:]]
    if Path(command[0]).is_file():
        raise RefusedError(f"{command[0]} is not executable", NOT_EXECUTABLE)
    raise RefusedError(f"{command[0]}: command not found", NOT_FOUND)


def run_rank(call: Call, here: Place, environ: Mapping[str, str]) -> int:
    """Run the command as this rank, under nsys if the rank is in --ranks. Returns its exit code."""
    env = {**prepare_for_init(call.command, environ), **here.environment(environ)}
    is_recorded = not call.options.plain and is_chosen(call.options.ranks, here.rank)
    refuse_planted(Path(call.options.output).absolute())
    command = resolve_command(call.command, env)
    recording = Recording(call, here)
    if is_recorded and call.options.tool == "torch":
        return record_with_torch(call, here, command, env)
    if call.options.ncu and is_chosen(call.options.ranks, here.rank):
        ours = call.options
        return run_under_ncu(command, env, ours.ncu, Path(ours.output), here.rank, ours.limit)
    if is_recorded:
        if is_mpi_rank(environ):
            code = continue_in_child(STOPPING)
            if code is not None:
                return exit_code(code)
        return recording.run(command, env)
    if call.options.plain and call.options.annotate != "none":
        env = recording.make_timed_environment(env)
    # As process 1 of a container the command would get no SIGTERM unless it installs a handler
    # (https://man7.org/linux/man-pages/man7/pid_namespaces.7.html): run it as a child instead.
    if os.name == "posix" and os.getpid() != 1 and not is_mpirun(command):
        # execve drops what is buffered.
        sys.stdout.flush()
        os.execve(command[0], command, env)
    return wait_for(Child(command, env, call.options.grace), call)


def _choose_place(call: Call, environ: Mapping[str, str]) -> Place:
    """Return the place of --rank, which gives the program no variables, or of the environment."""
    rank = call.options.rank
    here = place(environ) if rank is None else Place(rank)
    return here._replace(started=False) if call.options.bare else here


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    try:
        call = parse_call(argv, __doc__ or "")
        if call.options.processes > 0:
            check_ranks(call.options.ranks)
            resolve_command(call.command, environ)  # refuse once what each rank would refuse
            argv = call.of_a_rank()
            ours = call.options
            output = Path(ours.output).absolute()
            code = start_ranks.start(argv, ours.processes, environ, ours.grace, output)
        else:
            code = run_rank(call, _choose_place(call, environ), environ)
    except (RefusedError, ValueError) as error:
        say(str(error))
        return error.code if isinstance(error, RefusedError) else USAGE
    except OSError as error:
        say(f"{error.filename or 'the command'}: {error.strerror}")
        return exit_code(NOT_EXECUTABLE)
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], os.environ))
