"""Parse the output of `nsys profile --help` for the options of one nsys.

Names and values of options moved between versions. So the help text of the nsys that will run
decides, not its version number.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from gpu_profile.errors import SettingsError

Options: TypeAlias = Mapping[str, str]
"""Help text by option name without dashes: `trace`, and `t` for the short form."""

_OPTION = re.compile(
    r"^[ \t]{0,4}(?:\([^)]*\)[ \t]*)?(?:-(?P<short>\w),[ \t]*)?"
    r"--(?P<name>[a-z][a-z0-9-]*(?:\[[a-z|]+\])?)(?=[=\[<\s]|$)",
    re.MULTILINE,
)


_SHORT = {"sample": "s", "capture-range": "c", "delay": "y", "duration": "d"}
_TYPICAL = """
backtrace capture-range capture-range-end command-file cpu-core-events cpuctxsw cuda-event-trace
cuda-flush-interval cuda-memory-usage cudabacktrace delay discard-environment duration enable
env-var event-sample export flush-on-cudaprofilerstop force-overwrite ftrace gpu-metrics-devices
gpu-metrics-frequency gpu-metrics-set gpuctxsw inherit-environment kill mpi-impl nic-metrics
nvtx-capture nvtx-domain-exclude nvtx-domain-include osrt-threshold output python-backtrace
python-functions-trace python-sampling python-sampling-frequency pytorch resolve-symbols sample
samples-per-backtrace sampling-frequency session-new show-output stats stop-on-exit wait
"""
TYPICAL_HELP = "".join(
    f"-{_SHORT[name]}, --{name}=\n" if name in _SHORT else f"--{name}=\n"
    for name in _TYPICAL.split()
) + (
    "--cuda-graph-trace=<granularity>[:host-only]\n"
    "-t, --trace= 'cuda' 'nvtx' 'osrt' 'cublas' 'cudnn' 'mpi' 'ucx'\n"
)
"""Help text for --dry-run, which runs no nsys: the option names of a recent version."""


def parse_options(help_text: str) -> Options:
    """Return each option with its part of the help text. Raises SettingsError if there is none."""
    matches = list(_OPTION.finditer(help_text))
    if not matches:
        raise SettingsError(
            "`nsys profile --help` lists no options",
            "Check that NSYS names a working nsys, or bring ours by --carry",
        )
    ends = [match.start() for match in matches[1:]] + [len(help_text)]
    options: dict[str, str] = {}
    for match, end in zip(matches, ends, strict=True):
        for name in _split_names(match):
            options.setdefault(name, help_text[match.start() : end])
    return options


def _split_names(match: re.Match[str]) -> Iterator[str]:
    """Return the names in one line: `--nvtx-domain-[include|exclude]=` has two options."""
    stem, bracket, choices = match["name"].partition("[")
    yield from (stem + choice for choice in choices.rstrip("]").split("|")) if bracket else (stem,)
    if match["short"]:
        yield match["short"]


def list_values(has: Options, option: str) -> tuple[str, ...]:
    """Return the values in an option's help, in their order: quoted ones, or a plain list."""
    listed = re.split(r"Default|Select the|If |When ", has.get(option, ""), maxsplit=1)[0]
    quoted = re.findall(r"'([\w.:\[\]-]+)'", listed)
    plain = re.search(r"(?:values|formats) are:?([^\n.]+)", listed)
    words = quoted or re.findall(r"[\w-]+", plain[1] if plain else "")
    return tuple(dict.fromkeys(word for word in words if word not in {"or", "and"}))


def check_value(has: Options, option: str, value: str) -> str:
    """Return `value`. Raises SettingsError with the valid ones if this nsys does not have it."""
    listed = list_values(has, option)
    for word in value.split(",") if listed else ():
        if word and word not in listed:
            raise SettingsError(
                f"this nsys has no --{option}={word}", f"It has {', '.join(listed)}"
            )
    return value


def find_spelling(has: Options, *names: str, must: bool | None) -> str:
    """Return the first of `names` that this nsys has, or "". With `must`, raises SettingsError."""
    for name in names:
        if name in has:
            return name
    if not must:
        return ""
    # Short forms (`t`) are keys, too, and resemble nothing.
    near = difflib.get_close_matches(names[0], [name for name in has if len(name) > 1])
    raise SettingsError(
        f"this nsys has no --{names[0]}",
        f"The nearest it has: {', '.join(f'--{name}' for name in near) or 'none'}",
    )


def list_given_options(has: Options, nsys_args: Sequence[str]) -> frozenset[str]:
    """Return the long names of the options in the user's --nsys-args. Refuses unknown ones."""
    names: set[str] = set()
    for word in nsys_args:
        if word.startswith("-"):
            name = word[2:].partition("=")[0] if word.startswith("--") else word[1:2]
            find_spelling(has, name, must=True)
            names |= {long for long in has if has[long] == has[name]}
    return frozenset(names)
