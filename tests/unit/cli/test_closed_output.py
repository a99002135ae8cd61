"""The output of a command is closed, has no room, or its reader ends early."""

import os
import subprocess
import sys

import pytest

from gpu_profile.settings.places import ROOT

CONSOLE = (sys.executable, "-c", "from gpu_profile.cli.start import main; main()")
START = (sys.executable, "-m", "gpu_profile.cli.start")
LIST, HELP = (*CONSOLE, "--list"), (*START, "profile", "--help")
"""Invoke writes these, and our verbs write through Python's own stream."""


def of(*commands: tuple[str, ...]) -> pytest.MarkDecorator:
    """Each output meets Invoke's stream and ours, and both starts. A start takes 0.3 s of CPU."""
    return pytest.mark.parametrize("words", commands, ids=lambda words: " ".join(words[2:])[-20:])


def run_into(output: int, words: tuple[str, ...]) -> tuple[int, list[str]]:
    """The exit code and the lines of errors of a command that writes to a file descriptor."""
    done = subprocess.run(
        words, cwd=ROOT, stdout=output, stderr=subprocess.PIPE, text=True, check=False
    )
    lines = done.stderr.splitlines()
    return done.returncode, [line for line in lines if not line.startswith("settings file:")]


@of(LIST, (*START, "config"))
def test_a_reader_that_ends_early(words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    assert run_into(writer, words) == (0, [])
    os.close(writer)


def test_the_exit_code_stays_without_a_reader() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    code, lines = run_into(writer, (*START, "config", "--set", "SHM_SIZE=banana"))
    assert (code, len(lines)) == (2, 1)
    os.close(writer)


@of(HELP, (*CONSOLE, "config"))
def test_output_without_room(words: tuple[str, ...]) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    code, (line,) = run_into(full, words)
    assert (code, "No space left on device. Make room" in line) == (3, True)
    os.close(full)


@pytest.mark.further
def test_output_without_room_is_not_blamed_on_the_reports() -> None:
    report = f"--report={ROOT}/tests/data/annotated/gemm"
    full = os.open("/dev/full", os.O_WRONLY)
    code, (line,) = run_into(full, (*START, "stats", "--table=cuda_gpu_kern_sum", report))
    assert (code, line.partition(".")[0]) == (3, "error: the output: No space left on device")
    os.close(full)


LOCALE_C = ("LC_ALL=C", "PYTHONCOERCECLOCALE=0", "PYTHONUTF8=0")


@pytest.mark.parametrize("variables", [("PYTHONIOENCODING=ascii",), LOCALE_C])
def test_what_the_output_s_encoding_lacks_is_escaped(variables: tuple[str, ...]) -> None:
    code = "print('\\u2026')"
    program = f"from gpu_profile.cli import start; start._run(lambda: {code})"
    words = ("env", *variables, sys.executable, "-c", program)
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("\\u2026\n", "")


@of(LIST, (*START, "config"))
def test_no_output_at_all(words: tuple[str, ...]) -> None:
    shell = ("sh", "-c", '"$@" >&-', "sh")
    assert run_into(subprocess.DEVNULL, (*shell, *words)) == (0, [])
