"""Parse the command line of profile_ranks.py. Python 3.8, stdlib only."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE = 2
_NO_MARKS = "--env-var=GPU_PROFILE_ANNOTATE=none"
"""`--annotate=none` in words that nsys takes too, for the profile.py of images without marks."""
_WHOLE = "--env-var=GPU_PROFILE_WHOLE=1"
"""`--whole` in such words: the profile.py of an image from before 2026-11-25 records all anyway."""
_PROFILE_RANKS = Path(__file__).resolve().with_name("profile_ranks.py")


class RefusedError(Exception):
    """A refusal: one line on what is wrong, and the exit code."""

    def __init__(self, what: str, code: int = USAGE) -> None:
        super().__init__(what)
        self.code = code


class Call(NamedTuple):
    """The parsed command line: our options, the options of `nsys profile`, and the command."""

    options: argparse.Namespace
    nsys_options: Sequence[str]
    command: Sequence[str]

    def of_a_rank(self) -> list[str]:
        """Return the command line of each process that --processes starts."""
        ours = self.options
        python = [sys.executable]
        # As this Python was started: a carried one must not read the image's PYTHONHOME.
        if sys.flags.ignore_environment:
            python.append("-E")
        optional = []
        if ours.steps:
            optional.append(f"--steps={ours.steps}")
        if ours.plain:
            optional.append("--plain")
        if ours.whole:
            optional.append("--whole")
        if ours.shelter:
            optional.append("--shelter")
        optional += [f"--ncu={option}" for option in ours.ncu]
        return [
            *(*python, str(_PROFILE_RANKS), f"--ranks={ours.ranks}"),
            *(f"--output={ours.output}", f"--nsys={ours.nsys}", f"--grace={ours.grace}"),
            *(f"--mpirun-wait={ours.mpirun_wait}", f"--limit={ours.limit}"),
            *(f"--first={option}" for option in ours.first),
            *(f"--record={ours.record}", f"--with={ours.tool}"),
            f"--annotate={ours.annotate}",
            *(*optional, *self.nsys_options, "--", *self.command),
        ]


def parse_call(argv: Sequence[str], usage: str) -> Call:
    """Return the parsed command line. Raises RefusedError if no command stands after `--`."""
    end = argv.index("--") if "--" in argv else len(argv)
    if not argv[end + 1 :]:
        raise RefusedError("no command: write it after --, as in profile.py -- python3 train.py")
    options, nsys_options = _make_parser(usage).parse_known_args(argv[:end])
    if _NO_MARKS in nsys_options:
        options.annotate = "none"
    options.annotate = options.annotate or ("none" if options.plain else "steps")
    options.whole = options.whole or _WHOLE in nsys_options
    nsys_options = [word for word in nsys_options if word not in (_NO_MARKS, _WHOLE)]
    return Call(options, nsys_options, argv[end + 1 :])


def _make_parser(usage: str) -> argparse.ArgumentParser:
    # No abbreviations: a word that begins one of our options may be a whole option of nsys.
    parser = argparse.ArgumentParser(
        prog="profile.py", usage=usage, add_help=False, allow_abbrev=False
    )
    parser.add_argument("--processes", type=int, default=0)
    parser.add_argument("--ranks", default="all")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--window", type=int, default=0)
    parser.add_argument("--output", default=".")
    parser.add_argument("--nsys", default="nsys")
    parser.add_argument("--first", action="append", default=[])
    parser.add_argument("--grace", type=float, default=90.0)
    parser.add_argument("--mpirun-wait", type=float, default=180.0)
    parser.add_argument("--annotate", default="")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--steps", default="")
    parser.add_argument("--record", default="start", choices=("start", "manual"))
    parser.add_argument("--with", dest="tool", default="nsys", choices=("nsys", "torch"))
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--shelter", action="store_true")
    parser.add_argument("--ncu", action="append", default=[])
    parser.add_argument("--limit", type=float, default=300.0)
    return parser
