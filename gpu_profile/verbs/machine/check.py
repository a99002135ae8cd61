"""check: lint, types and tests of this project."""

import sys

from gpu_profile import process
from gpu_profile.cli.paths import ROOT
from gpu_profile.cli.table import Options, Verb
from gpu_profile.command import Command
from gpu_profile.errors import GateError
from gpu_profile.process import which

_SHELL = ("inv", ".ci", "Container-Root", "tests/image", "tests/live")


def check(_verb: Verb, options: Options) -> None:
    failed = [name for name, command in _checks(options).items() if _fails(name, command)]
    if failed:
        raise GateError(f"{' and '.join(failed)} failed", "The reasons are above")


def _checks(options: Options) -> dict[str, Command]:
    python = (sys.executable, "-m")
    required = [f"--require={part}" for part in options["require"]]
    return {
        "ruff check": Command(argv=(*python, "ruff", "check", str(ROOT))),
        "ruff format": Command(argv=(*python, "ruff", "format", "--check", str(ROOT))),
        "mypy": Command(argv=(*python, "mypy")),
        "shellcheck": Command(argv=(*_shellcheck(), *_scripts())),
        "pytest": Command(argv=(*python, "pytest", *required, *options["words"])),
    }


def _fails(name: str, command: Command) -> bool:
    print(f"== {name}", flush=True)
    return process.run_attached(command) != 0


def _shellcheck() -> tuple[str, ...]:
    from pathlib import Path

    return (which("shellcheck") or str(Path(sys.executable).with_name("shellcheck")), "-x")


def _scripts() -> list[str]:
    """Every shell script, by its first line."""
    found = []
    for top in _SHELL:
        path = ROOT / top
        for file in sorted(path.rglob("*") if path.is_dir() else [path]):
            if file.is_file() and file.read_bytes()[:40].startswith(
                (b"#!/usr/bin/env bash", b"#!/bin/bash")
            ):
                found.append(str(file))
    return found
