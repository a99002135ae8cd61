"""Have each rank that a user's sbatch script starts run under nsys. Python 3.8, stdlib only.

    batch_shims.py --output DIR [--nsys PATH] [--python PATH] [--mount DIR]… [PROFILE_OPTION…]
                   -- SCRIPT [WORD…]

Writes shims of srun, mpirun and torchrun's Python into DIR/.shims, and becomes the script, which
finds them first. PROFILE_OPTIONs are those of profile_ranks.py. The programs after srun get its
wrapper; what an option of srun is stands in srun_words.py.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import find_nsys
from captured_output import is_captured
from program_kind import is_of_the_system, is_profiler, is_torchrun, starts_container
from shim import MPI_PROGRAMS, RANK_PYTHON, SETTINGS_FILE, find_real, wrap_mpi_words
from shim_files import write_shims
from srun_words import Part, split_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_AGENT = Path(__file__).resolve().parent
_STEP = "GPU_PROFILE_STEP"
"""Of the tasks of `srun torchrun`: the number of the start, and nsys."""
# claim_number tries the numbers from 1 on, so that each start of an endless script takes longer.
_MOST_STEPS = 1000
# 128 + SIGTERM, as a shell says of a program that was told to end.
_STOPPED = 143
_ENTER = """\
{original}
PATH={shims}:$PATH
"""
"""BASH_ENV of the script, for a log-in shell sets PATH anew, and `module load openmpi` puts its own
folder first: functions come before both."""


class ShimSettings(NamedTuple):
    """How ranks are started, as `settings.json` beside the shims says.

    `nsys` is empty where each node looks for one.
    """

    output: str
    nsys: str
    python: str
    mounts: Sequence[str]
    options: Sequence[str]

    def make_rank_words(self, number: int, nsys: str, *, inside: bool) -> list[str]:
        """Return the words before a rank's command. `inside`: in a container of the user's."""
        # A container has files of its own: the path of this Python means nothing there.
        python = [self.python if inside else sys.executable]
        window = [f"--window={number}"] if number > 1 else []
        # --bare: srun, mpirun and torchrun have set the variables of the rank.
        ours = ["--bare", "--shelter", f"--output={self.output}", f"--nsys={nsys}", *window]
        # -E: PYTHONPATH and PYTHONHOME are for the user's Python, which need not be this one.
        return [*python, "-E", str(_AGENT / "profile_ranks.py"), *ours, *self.options, "--"]

    def find_nsys(self) -> str:
        """Return the nsys of this node, or "" where there is none. torch.profiler needs none."""
        if "--with=torch" in self.options:
            return "nsys"
        named = self.nsys if self.nsys.startswith("/") else ""
        if named and Path(named).exists():
            return named
        copy = find_nsys.choose_copy(find_nsys.find_copies(self.nsys))
        return copy.path if copy else ""

    def claim_number(self, key: str) -> int:
        """Return the number of a start of ranks, from 1; the same for all that say one key.

        A link is made with its content at once: two starts never share a number.
        """
        for number in range(1, _MOST_STEPS):
            link = Path(self.output, f".step-{number}")
            try:
                link.symlink_to(key)
            except FileExistsError:
                if os.readlink(link) != key:  # noqa: PTH115 - Path has it since 3.9
                    continue
            return number
        return 0

    def explain_unrecorded(self, number: int, nsys: str) -> str:
        """Return why a start of ranks is not recorded; "" where it is.

        Of a job that `record` records, only the first start is.
        """
        if not nsys:
            return "no nsys on this node"
        if not number:
            return f"{_MOST_STEPS - 1} starts came before it"
        if number > 1 and "--record=manual" in self.options:
            return "`invoke record` reaches the first start alone"
        return ""


def say(text: str) -> None:
    print(f"gpu-profile: {text}", file=sys.stderr, flush=True)


def main(shim: str, *arguments: str) -> int:
    """Become the program that a shim stands for, its ranks under nsys. Returns an exit code."""
    shims, name = os.path.split(shim)
    settings = ShimSettings(**json.loads(Path(shims, SETTINGS_FILE).read_text(encoding="utf-8")))
    if name == RANK_PYTHON:
        return _become(_start_rank(settings, arguments))
    if Path(settings.output, "ended").exists():
        say(f"{name}: the job is being stopped")
        return _STOPPED
    real = find_real(name, shims, os.environ)
    if name == "srun":
        return _become([real, *_wrap_srun(settings, shims, arguments)])
    return _become([real, *_wrap_mpirun(settings, arguments)])


def _become(argv: Sequence[str]) -> int:
    try:
        os.execvp(argv[0], list(argv))
    except OSError as error:
        say(f"{argv[0]}: {error.strerror}")
    return 127


def _start_rank(settings: ShimSettings, arguments: Sequence[str]) -> list[str]:
    """Return the words of a rank that torchrun starts, by the Python that runs torchrun."""
    python = _read_parent()
    # Removed: a torchrun that this rank starts is another start, with a number of its own.
    words = os.environ.pop(_STEP, "").split(" ", 1)
    if len(words) == 2:
        number, nsys = int(words[0]), words[1]
    else:  # torchrun stands in the script itself
        number, nsys = settings.claim_number(f"torchrun {os.getppid()}"), settings.find_nsys()
    if why := settings.explain_unrecorded(number, nsys):
        say(f"torchrun: not recorded: {why}")
        return [python, *arguments]
    return [*settings.make_rank_words(number, nsys, inside=False), python, *arguments]


def _read_parent() -> str:
    """Return the Python of the process that started this one, as its command line has it."""
    line = Path(f"/proc/{os.getppid()}/cmdline").read_bytes()
    return line.split(b"\0", 1)[0].decode(errors="surrogateescape") or "python3"


def _wrap_mpirun(settings: ShimSettings, arguments: Sequence[str]) -> list[str]:
    number, nsys = settings.claim_number(f"mpirun {os.getpid()}"), settings.find_nsys()
    if why := settings.explain_unrecorded(number, nsys):
        say(f"mpirun: not recorded: {why}")
        return list(arguments)
    return wrap_mpi_words(arguments, settings.make_rank_words(number, nsys, inside=False))


def _wrap_srun(settings: ShimSettings, shims: str, arguments: Sequence[str]) -> list[str]:
    """Return srun's words, with ours before each program whose ranks are recorded."""
    os.environ.pop("PYTHON_EXEC", None)  # a torchrun under nsys starts its ranks without another
    parts = list(split_words(arguments))
    if is_captured() or not any(part.program for part in parts):
        return list(arguments)
    for why in filter(None, map(_explain_plain, parts)):
        say(f"srun: not recorded: {why}")
        return list(arguments)
    number = settings.claim_number(f"srun {os.getpid()}")
    inside = any(part.has_container for part in parts)
    # The copies that this node has are not in the container: PATH there decides.
    nsys = (settings.nsys or "nsys") if inside else settings.find_nsys()
    if why := settings.explain_unrecorded(number, nsys):
        say(f"srun: not recorded: {why}")
        return list(arguments)
    wrapped: list[str] = []
    for part in parts:
        if wrapped:
            wrapped.append(":")
        wrapped += _wrap_part(settings, shims, part, number, nsys)
    return wrapped


def _explain_plain(part: Part) -> str:
    """Return why a part of srun's words stays as it is; "" where its ranks are recorded."""
    name = part.program[0] if part.program else ""
    if part.has_many_programs:
        return "--multi-prog: its programs stand in a file"
    if is_profiler(name):
        return f"{name} is a profiler itself"
    if starts_container(name):
        return f"{name}: nsys would record it, and not what runs in its container"
    if not part.has_container and is_of_the_system(name):
        return f"{name} is a program of the system"
    return ""


def _wrap_part(settings: ShimSettings, shims: str, part: Part, number: int, nsys: str) -> list[str]:
    inside = part.has_container
    if inside:
        part = part.mount(settings.mounts)
    if is_torchrun(part.program):
        step = f"{_STEP}={number} {nsys}"
        ours = ["env", f"PYTHON_EXEC={shims}/{RANK_PYTHON}", step]
    else:
        ours = settings.make_rank_words(number, nsys, inside=inside)
    return [*part.options, *ours, *part.program]


def _parse(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str], Sequence[str]]:
    parser = argparse.ArgumentParser(prog="batch_shims.py", usage=__doc__, allow_abbrev=False)
    parser.add_argument("--output", required=True)
    parser.add_argument("--nsys", default="")
    parser.add_argument("--python", default="python3")
    parser.add_argument("--mount", action="append", default=[])
    end = argv.index("--")
    options, profile_words = parser.parse_known_args(argv[:end])
    return options, profile_words, argv[end + 1 :]


def make_environment(shims: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the script's environment, in which our shims come first."""
    path = os.pathsep.join([shims, environ.get("PATH", os.defpath)])
    python = f"{shims}/{RANK_PYTHON}"
    # bash expands the value of BASH_ENV as between double quotes:
    # https://www.gnu.org/software/bash/manual/html_node/Bash-Variables.html
    enter = re.sub(r'([\\$`"])', r"\\\1", f"{shims}/enter.sh")
    return {**environ, "PATH": path, "PYTHON_EXEC": python, "BASH_ENV": enter}


def _write_enter(shims: str, environ: Mapping[str, str]) -> None:
    """Write what a bash reads before the script: its own BASH_ENV, then our folder in PATH."""
    original = environ.get("BASH_ENV", "")
    # In double quotes, so that `$HOME` in it is expanded as bash would have done.
    source = '. "' + original.replace('"', r"\"") + '"'
    lines = [f"BASH_ENV={shlex.quote(original)}", source] if original else ["unset BASH_ENV"]
    quoted = shlex.quote(shims)
    functions = [f'{name}() {{ {quoted}/{name} "$@"; }}\n' for name in ("srun", *MPI_PROGRAMS)]
    text = _ENTER.format(original="\n".join(lines), shims=quoted) + "".join(functions)
    Path(shims, "enter.sh").write_text(text, encoding="utf-8")


def start(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Write the shims and become the script. Returns 127 where it cannot be started."""
    options, profile_words, script = _parse(argv)
    settings: dict[str, Any] = {
        "output": options.output,
        "nsys": options.nsys,
        "python": options.python,
        "mounts": options.mount,
        "options": profile_words,
    }
    shims = str(Path(options.output, ".shims"))
    write_shims(shims, ["srun", RANK_PYTHON, *MPI_PROGRAMS], settings, "batch_shims")
    _write_enter(shims, environ)
    try:
        os.execve(script[0], list(script), make_environment(shims, environ))
    except OSError as error:
        say(f"{script[0]}: {error.strerror}")
    return 127


if __name__ == "__main__":
    raise SystemExit(start(sys.argv[1:], os.environ))
