"""Turn the spec of a launcher into the job's command line with absolute paths. See job.py."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import find_nsys
from job_state import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).resolve().parent
_PROGRAMS = "Scripts" if os.name == "nt" else "bin"
_LOCK_OF_INV = "requirements.txt"  # ./inv copies the lock file that it installed into its .venv


def complete_spec(spec: Mapping[str, Any], job: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the command, directory and environment to run, and the nsys that the job uses."""
    arguments: list[str] = spec["arguments"]
    cwd = Path(spec.get("cwd") or ".").expanduser().absolute()
    if not cwd.is_dir():
        raise RefusedError(f"the working directory {cwd} does not exist")
    at = arguments.index("--") + 1
    env: dict[str, str] = spec.get("env") or {}
    words = [_sample(word) for word in arguments[at:]]
    command = [find_job_program(words[0], cwd, {**os.environ, **env}), *words[1:]]
    is_without = {"--plain", "--with=torch"} & set(arguments[:at])
    nsys = {} if is_without else find_nsys_of(spec.get("nsys", ""))
    nsys_words = ["--nsys", nsys["path"]] if nsys else []
    rank_words = [_below(job, word) for word in arguments[:at]]
    agent = [sys.executable, "-u", str(HERE / "profile_ranks.py")]
    argv = [*agent, *nsys_words, *rank_words, *command]
    return {"argv": argv, "cwd": str(cwd), "env": env}, nsys


def _sample(word: str) -> str:
    """Return the path of our sample script for `/train.py`, its path inside our image.

    Outside the image the samples lie beside this file or in `../samples`.
    """
    path = Path(word)
    if path.parent != Path("/") or path.suffix != ".py" or path.exists():
        return word
    copies = (HERE / path.name, HERE.parent / "samples" / path.name)
    return next((str(copy) for copy in copies if copy.exists()), word)


def _below(job: Path, word: str) -> str:
    flag, _, value = word.partition("=")
    return f"{flag}={job / value}" if flag == "--output" else word


def find_job_program(word: str, cwd: Path, environ: Mapping[str, str]) -> str:
    """Return the absolute path of a program; that of a virtual or conda environment comes first.

    nsys does not search these environments, and a command over ssh does not get the PATH of a
    log-in shell. Without an active environment it is `.venv` or `venv` of the job's directory:
    whoever works there would activate it. Raises RefusedError (exit code 5) if there is none.
    """
    if "/" in word or os.sep in word:
        path = shutil.which(str(cwd / Path(word).expanduser()))
    else:
        places = [str(Path(p) / _PROGRAMS) for p in list_environments(cwd, environ)]
        path = shutil.which(word, path=os.pathsep.join([*places, environ.get("PATH", os.defpath)]))
    if path is None:
        other = "Use python3" if word == "python" else "Name it by its path"
        raise RefusedError(f"there is no program {word!r} on this machine. {other}", 5)
    return str(Path(path).absolute())


def list_environments(cwd: Path, environ: Mapping[str, str]) -> list[str]:
    """Return the folders of the active environments, otherwise of those in the job's directory.

    The one that ./inv made for gpu-profile itself, in its clone, holds no program's packages.
    """
    active = [environ.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    folders = (cwd / ".venv", cwd / "venv")
    environments = [folder for folder in folders if (folder / "pyvenv.cfg").is_file()]
    others = [str(folder) for folder in environments if not (folder / _LOCK_OF_INV).is_file()]
    return [folder for folder in active if folder] or others


def find_nsys_of(path: str) -> dict[str, str]:
    copy = find_nsys.choose_copy(find_nsys.find_copies(path))
    if copy is None:
        raise RefusedError(find_nsys.explain_missing(path), 3)
    if not copy.importer:
        print(find_nsys.describe_copy(copy), file=sys.stderr)
    return dict(copy._asdict())
