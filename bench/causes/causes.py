"""The kinds of findings that name the cause of a program, from a line of the program itself.

A file of programs/ with a line `# causes: idle, pageable_copy` (`//` in CUDA C++) is a program. Its
author writes the line before any recording; `none` is a cause that no kind names.
"""

import functools
import re
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
_LINE = re.compile(r"^(?:#|//) causes: (.+)$", re.MULTILINE)


@functools.cache
def find_causes(name: str) -> tuple[str, ...] | None:
    """The kinds that name this program's cause; None where there is no such program."""
    for file in PROGRAMS.glob(f"{name}.*"):
        if line := _LINE.search(file.read_text(encoding="utf-8")):
            return () if line[1] == "none" else tuple(line[1].split(", "))
    return None


def list_programs() -> list[str]:
    """The names of all programs."""
    files = PROGRAMS.glob("*.*")
    return sorted(file.stem for file in files if find_causes(file.stem) is not None)
