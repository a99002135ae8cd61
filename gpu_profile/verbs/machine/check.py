"""check: lint, type checks and tests of this project."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpu_profile import process
from gpu_profile.cli.options.machine import CheckOptions
from gpu_profile.command import Command
from gpu_profile.errors import GateError
from gpu_profile.process import find_program
from gpu_profile.settings.places import ROOT

_SHELL = ("inv", ".ci", "Container-Root", "tests/image", "tests/live")
_SIDE_BY_SIDE = ("--numprocesses=auto", "--dist=loadscope", "--no-loadscope-reorder")
"""For pytest-xdist. tests/live/conftest.py says in how many processes live tests run, and which of
them run one after the other."""
_NOTHING_SELECTED = 5
"""pytest's exit code if its words select no test."""


def check(options: CheckOptions) -> None:
    """Run all checks and print the seconds of each.

    Raises GateError that names the failed ones.
    """
    codes = {name: _exit_code(name, command) for name, command in check_commands(options).items()}
    failed = failed_checks(codes)
    if failed:
        raise GateError(f"{' and '.join(failed)} failed", "The reasons are above")


def failed_checks(codes: Mapping[str, int]) -> list[str]:
    """Return the names of the failed checks.

    `-- -k slurm` may select tests of one pytest run only; it is a failure if no run has any.
    """
    tests = [code for name, code in codes.items() if name.startswith("pytest")]
    harmless = {0, _NOTHING_SELECTED} if set(tests) != {_NOTHING_SELECTED} else {0}
    return [name for name, code in codes.items() if code not in harmless]


def check_commands(options: CheckOptions) -> dict[str, Command]:
    """Return the checks by name, in their order."""
    python = (sys.executable, "-m")
    return {
        "ruff check": Command(argv=(*python, "ruff", "check", str(ROOT))),
        "ruff format": Command(argv=(*python, "ruff", "format", "--check", str(ROOT))),
        "mypy": Command(argv=(*python, "mypy")),
        "shellcheck": Command(argv=(*_list_shellcheck_words(), *_find_scripts())),
        **_test_commands(options.require, options.words),
    }


def _test_commands(required: Sequence[str], words: Sequence[str]) -> dict[str, Command]:
    """Return the unit tests on all CPUs, then the tests of engines and clusters side by side.

    Words that name a file or folder choose the tests themselves: one serial run.
    """
    pytest = (sys.executable, "-m", "pytest")
    tail = (*(f"--require={part}" for part in required), *words)
    if any(Path(word.partition("::")[0]).exists() for word in words if not word.startswith("-")):
        return {"pytest": Command(argv=(*pytest, *tail))}
    parallel = ("--numprocesses=auto", "--dist=worksteal")
    return {
        "pytest tests/unit tests/fuzz": Command(
            argv=(*pytest, "tests/unit", "tests/fuzz", *parallel, *tail)
        ),
        "pytest tests/image tests/live": Command(
            argv=(*pytest, "tests/image", "tests/live", *_SIDE_BY_SIDE, *tail)
        ),
    }


def _exit_code(name: str, command: Command) -> int:
    print(f"== {name}", flush=True)
    began = time.monotonic()
    code = process.run_attached(command)
    print(f"== {name}: {time.monotonic() - began:.0f} s", flush=True)
    return code


def _list_shellcheck_words() -> tuple[str, ...]:
    return (find_program("shellcheck") or str(Path(sys.executable).with_name("shellcheck")), "-x")


def _find_scripts() -> list[str]:
    """Return every shell script, found by its first line."""
    paths = []
    for top in _SHELL:
        path = ROOT / top
        for file in sorted(path.rglob("*") if path.is_dir() else [path]):
            if file.is_file() and file.read_bytes()[:40].startswith(
                (b"#!/usr/bin/env bash", b"#!/bin/bash")
            ):
                paths.append(str(file))
    return paths
