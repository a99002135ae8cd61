"""No shell script pipes into a reader that ends early: the writer then ends with SIGPIPE (141).

Under `pipefail` such a pipeline fails now and then although the text was there: `ldd … | grep -q`
failed 21 times in 1,500 runs. GNU grep also ends at its first match when it writes to /dev/null.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("inv", ".ci", "actions", "Container-Root", "k8s", "tests/image", "tests/live")
_SHELL = re.compile(rb"\A#!.*\b(ba)?sh\b|^# shellcheck shell=|/bin/bash\b", re.MULTILINE)
_JOINED = re.compile(r"\\\n|(?<=\|)\s*\n\s*")
_EARLY = re.compile(
    r"""(?<!\|)\|&?\s*(?:
        [ef]?grep\b[^|;]*?\s(?:-[a-zA-Z]*[qm]|--quiet|--silent|--max-count)   # ends at a match
      | [ef]?grep\b[^|;]*>\s*/dev/null                                       # so does this one
      | head\b
      | sed\b[^|]*?(?:[0-9/]\s*q\b|;\s*q\b|\{[^}]*\bq\b)
      | awk\b[^|]*?\bexit\b
      | read\b
    )""",
    re.VERBOSE,
)


def early_readers(text: str) -> list[str]:
    """The pipelines of a script whose reader may end before its writer."""
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return [match.group() for match in _EARLY.finditer(_JOINED.sub(" ", code))]


def scripts() -> list[Path]:
    tops = [ROOT / folder for folder in FOLDERS]
    files = [file for top in tops for file in ([top] if top.is_file() else top.rglob("*"))]
    texts = [file for file in files if file.is_file() and file.suffix != ".pyc"]
    return [file for file in texts if _SHELL.search(file.read_bytes())]


def test_the_scripts_are_looked_at() -> None:
    names = {str(path.relative_to(ROOT)) for path in scripts()}
    assert names >= {
        *("inv", ".ci/run", "k8s/mpijob.yaml", "tests/live/kubernetes/up"),
        *("Container-Root/lib/stage/common.sh", "Container-Root/test.d/lib.sh"),
        "Container-Root/test.d/70-nccl-tests.sh",
    }


def test_no_reader_of_a_pipe_ends_early() -> None:
    """Take the text first: [[ $(ldd "$file") == *libmpi* ]]."""
    readers = {str(path): early_readers(path.read_text()) for path in scripts()}
    assert {path: lines for path, lines in readers.items() if lines} == {}


EARLY = (
    'ldd "$file" | grep -q libmpi',
    'ldd "$file" | grep -Fqx libmpi',
    'ldd "$file" | grep -v a | grep -i -q libmpi',
    'ldd "$file" |\n    grep -q libmpi',
    'ldd "$file" \\\n    | grep -q libmpi',
    'ldd "$file" 2>&1 |& grep --quiet libmpi',
    'ldd "$file" | grep -m1 libmpi',
    'ldd "$file" | grep libmpi >/dev/null',
    "sort names | head -n 1",
    "sort names | sed 1q",
    "sort names | awk '{ print $1; exit }'",
    "sort names | read -r first",
)
WHOLE = (
    "[ -e mark ] || grep -qs . mark",
    'grep -q libmpi <<<"$libraries"',
    "# ldd | grep -q libmpi fails now and then",
    'head -n 5 "$file" | tr -d x',
    "sort names | sed -n 1p",
    "sort names | grep -c libmpi",
    "sort names | while read -r name; do :; done",
)


def test_readers_that_end_early_are_refused_and_others_are_not() -> None:
    assert [line for line in EARLY if not early_readers(f"set -euo pipefail\n{line}\n")] == []
    assert [line for line in WHOLE if early_readers(line)] == []
