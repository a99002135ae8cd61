"""BatchScript: a user's own sbatch script, and what its #SBATCH lines ask for."""

import argparse
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from gpu_profile.errors import SettingsError

_GPUS = re.compile(r"\bgpu(?::[^:,()\d][^:,()]*)?(?::(\d+))?(?=[,(]|$)")


class _Parser(argparse.ArgumentParser):
    """A parser that leaves what it cannot read to sbatch, whose own words say it better."""

    def error(self, message: str) -> NoReturn:
        raise SettingsError(message)


def _make_parser(mark: str) -> _Parser:
    parser = _Parser(prog=mark, add_help=False)
    for short, name in (
        *(("-N", "nodes"), ("-t", "time"), ("-a", "array"), ("-o", "output"), ("-e", "error")),
        *(("-G", "gpus"), ("", "gpus-per-node"), ("", "gres"), ("", "gpus-per-task")),
        *(("", "comment"), ("", "signal")),
    ):
        parser.add_argument(*filter(None, (short, f"--{name}")), dest=name, default="")
    return parser


@dataclass(frozen=True, kw_only=True)
class BatchScript:
    """A script for a scheduler. `mark` begins the lines that its scheduler reads: `#SBATCH`.

    `text` is the file's, byte for byte; `words` stand after it on the command line.
    """

    name: str
    text: str
    mark: str
    words: tuple[str, ...] = ()

    @property
    def header(self) -> tuple[str, ...]:
        """The lines before the first command, which are all that the scheduler reads."""
        return tuple(_take_header(self.text))

    @property
    def directives(self) -> tuple[str, ...]:
        """The words of the lines with the mark: `("--nodes=2", "-t", "30")`."""
        lines = (line for line in self.header if line.startswith(self.mark))
        words: list[str] = []
        for line in lines:
            try:
                words += shlex.split(line.removeprefix(self.mark), comments=True)
            except ValueError:  # an open quote: sbatch refuses it
                continue
        return tuple(words)

    def find_option(self, name: str) -> str:
        """Return the value of an option such as `nodes`; empty where the header has none."""
        try:
            options, _ = _make_parser(self.mark).parse_known_args(self.directives)
        except SettingsError:
            return ""
        return str(getattr(options, name))

    def count_nodes(self) -> int:
        """Return how many nodes it asks for at least: 2 of `--nodes=2-4`."""
        match = re.match(r"\d+", self.find_option("nodes"))
        return max(1, int(match[0])) if match else 1

    def count_gpus(self) -> int | None:
        """Return how many GPUs a node has for it, at least; None where it does not say."""
        for name in ("gpus-per-node", "gpus", "gpus-per-task"):
            match = re.search(r"(\d+)$", self.find_option(name))
            if match:
                return int(match[1])
        gres = self.find_option("gres")
        match = _GPUS.search(gres)
        return int(match[1] or 1) if match else (0 if gres else None)

    def check(self) -> None:
        """Raise SettingsError for a script that cannot be profiled, in one line."""
        if not self.text.startswith("#!"):
            what = f"the first line of {self.name} names no interpreter"
            raise SettingsError(what, "sbatch wants one there: #!/bin/bash")
        if "\r\n" in self.text:
            what = f"the lines of {self.name} end as on Windows, which sbatch refuses"
            raise SettingsError(what, f"sed -i 's/\\r$//' {self.name} mends them")
        if self.find_option("array"):
            what = f"{self.name} is an array: its tasks would write the same reports"
            hint = "Profile one task: a copy without --array, which sets SLURM_ARRAY_TASK_ID"
            raise SettingsError(what, hint)
        if any(word in {"hetjob", "packjob"} for word in self.directives):
            what = f"{self.name} is a heterogeneous job, whose parts have options of their own"
            raise SettingsError(what, "Profile a copy with one part")


def has_mark(text: str, mark: str) -> bool:
    """Return whether a scheduler reads lines with this mark in a script's text."""
    return any(line.startswith(mark) for line in _take_header(text))


def _take_header(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            return
        yield line
