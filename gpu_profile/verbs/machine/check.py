"""check: lint, type checks and tests of this project."""

import hashlib
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpu_profile import process
from gpu_profile.cli.options.machine import CheckOptions
from gpu_profile.command import Command, Result
from gpu_profile.errors import GateError
from gpu_profile.process import find_program
from gpu_profile.settings.places import ROOT

_SHELL = ("actions", "inv", ".ci", "Container-Root", "tests/image", "tests/live")
_NO_SHELL = {".py", ".pyc"}
_PARALLEL = ("-p", "tests.forked_workers", "--forks=auto")
_SIDE_BY_SIDE = ("--numprocesses=auto", "--dist=loadscope", "--no-loadscope-reorder")
"""For pytest-xdist. tests/live/conftest.py says in how many processes live tests run, and which of
them run one after the other."""
_UNIT = "pytest tests/unit tests/fuzz"
_LIVE = "pytest tests/image tests/live"
_QUICK = ("-m", "not recorded and not further")
"""Tests that replay whole recordings, or prove once more what others prove, are left to CI."""
_PASSED = ROOT / ".shellcheck_cache"
"""The hash of the scripts that shellcheck has passed: it has no cache, and takes 4 s of CPU."""
_NOTHING_SELECTED = 5
"""pytest's exit code if its words select no test."""


def check(options: CheckOptions) -> None:
    """Run all checks, print what they print, and at the end the seconds of each.

    Raises GateError that names the failed ones.
    """
    began = time.monotonic()
    ended = {name: _run_here(name, command) for name, command in first_checks().items()}
    beside, scripts = checks_beside(), hash_scripts(ROOT)
    if has_passed(scripts):
        del beside["shellcheck"]
    with ThreadPoolExecutor(len(beside)) as pool:
        pending = {name: pool.submit(_run_beside, command) for name, command in beside.items()}
        tests = list_test_commands(options.require, options.words, live=options.live)
        ended |= {name: _run_here(name, command) for name, command in tests.items()}
        for name, outcome in pending.items():
            result, seconds = outcome.result()
            print(f"== {name}\n{result.stdout}{result.stderr}", end="", flush=True)
            ended[name] = (result.returncode, seconds)
    codes = {name: code for name, (code, _) in ended.items()}
    if not codes.get("shellcheck", 0):
        _PASSED.write_text(scripts)
    print(name_tests_left_out(tests), end="")
    print(list_seconds(ended, time.monotonic() - began), end="")
    if failed := failed_checks(codes):
        raise GateError(f"{' and '.join(failed)} failed", "The reasons are above")


def failed_checks(codes: Mapping[str, int]) -> list[str]:
    """Return the names of the failed checks.

    `-- -k slurm` may select tests of one pytest run only; it is a failure if no run has any.
    """
    tests = [code for name, code in codes.items() if name.startswith("pytest")]
    harmless = {0, _NOTHING_SELECTED} if set(tests) != {_NOTHING_SELECTED} else {0}
    return [name for name, code in codes.items() if code not in harmless]


def first_checks() -> dict[str, Command]:
    """Return the checks that take less than a second."""
    ruff = (sys.executable, "-m", "ruff")
    return {
        "ruff check": Command(argv=(*ruff, "check", str(ROOT))),
        "ruff format": Command(argv=(*ruff, "format", "--check", str(ROOT))),
    }


def checks_beside() -> dict[str, Command]:
    """Return the checks that run beside the tests."""
    shellcheck = find_program("shellcheck") or str(Path(sys.executable).with_name("shellcheck"))
    return {
        "mypy": Command(argv=(sys.executable, "-m", "mypy")),
        "shellcheck": Command(argv=(shellcheck, "-x", *_find_scripts())),
    }


def list_test_commands(
    required: Sequence[str], words: Sequence[str], *, live: bool
) -> dict[str, Command]:
    """Return the unit tests on all CPUs, then, if asked for, those of real parts side by side.

    The latter take minutes: they and the unit tests of recordings run where `live` says so or a
    part is required. Words that name files or folders choose the tests themselves: one run.
    """
    tail = (*(f"--require={part}" for part in required), *words)
    if paths := _find_paths(words):
        return {"pytest": _make_pytest(*_choose_processes(paths), *tail)}
    unit = ("tests/unit", "tests/fuzz", *_PARALLEL)
    if not live and not required:
        return {_UNIT: _make_pytest(*unit, *_QUICK, *tail)}
    live_tests = _make_pytest("tests/image", "tests/live", *_SIDE_BY_SIDE, *tail)
    return {_UNIT: _make_pytest(*unit, *tail), _LIVE: live_tests}


def name_tests_left_out(commands: Mapping[str, Command]) -> str:
    """Return a line on the tests that nobody left out by naming files or folders."""
    if _UNIT not in commands or _LIVE in commands:
        return ""
    parts = "tests/image, tests/live and the tests marked recorded or further"
    return f"== not run: {parts}; ./inv check --live runs what can run here\n"


def _find_paths(words: Sequence[str]) -> list[Path]:
    """Return the files and folders that words for pytest name."""
    paths = [Path(word.partition("::")[0]) for word in words if not word.startswith("-")]
    return [path for path in paths if path.exists()]


def _choose_processes(paths: Sequence[Path]) -> tuple[str, ...]:
    """Return the words that run folders on all CPUs. One file takes less than the processes do."""
    if len(paths) == 1 and paths[0].is_file():
        return ()
    tops = (ROOT / "tests/unit", ROOT / "tests/fuzz")
    units = [path for path in paths if any(path.absolute().is_relative_to(top) for top in tops)]
    return _PARALLEL if len(units) == len(paths) else _SIDE_BY_SIDE


def _make_pytest(*words: str) -> Command:
    """Return a call of pytest that may keep bytecode.

    Without it each process of tests compiles 800 modules again: 3 s of CPU, and 1 s a Python that
    a test starts.
    """
    argv = (sys.executable, "-m", "pytest", *words)
    return Command(argv=argv, env={"PYTHONDONTWRITEBYTECODE": ""})


def list_seconds(ended: Mapping[str, tuple[int, float]], total: float) -> str:
    """Return a line on the seconds of each part. Those beside the tests have shares of the CPUs."""
    parts = ", ".join(f"{name} {seconds:.0f} s" for name, (_, seconds) in ended.items())
    return f"== {parts}: {total:.0f} s in all\n"


def _run_here(name: str, command: Command) -> tuple[int, float]:
    """Run a check on our terminal. Returns its exit code and seconds."""
    print(f"== {name}", flush=True)
    began = time.monotonic()
    code = process.run_attached(command)
    return code, time.monotonic() - began


def _run_beside(command: Command) -> tuple[Result, float]:
    """Run a check and keep its output. Returns its result and seconds."""
    began = time.monotonic()
    return process.run(command), time.monotonic() - began


def has_passed(scripts: str) -> bool:
    """Return whether shellcheck has passed scripts of this hash, and say so."""
    if not _PASSED.exists() or _PASSED.read_text() != scripts:
        return False
    print("== shellcheck: passed, and no script has changed since", flush=True)
    return True


def hash_scripts(top: Path) -> str:
    """Return a hash of what shellcheck reads: scripts may source any file beside them."""
    places = [top / place for place in (*_SHELL, ".shellcheckrc", "requirements-dev.txt")]
    files = [path for place in places for path in (place, *place.rglob("*")) if path.is_file()]
    digest = hashlib.sha256()
    for path in sorted(path for path in files if path.suffix not in _NO_SHELL):
        digest.update(f"{path.relative_to(top)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


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
