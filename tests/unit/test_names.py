"""Functions are named by a verb and its object, values by a noun."""

import collections
import re

from tests.unit.sources import PACKAGE

MOST_ONE_WORD, MOST_REPEATED = 0.35, 5
FUNCTION = re.compile(r"^ *(?:async )?def (\w+)", re.MULTILINE)
PUBLIC = re.compile(r"^(?:async )?(?:def|class) ([a-zA-Z]\w*)", re.MULTILINE)
"""What ruff format leaves of a definition. Syntax trees of all sources take 1.5 s of CPU."""
SOURCES = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}


def test_few_function_names_are_one_word() -> None:
    names = [name for text in SOURCES.values() for name in FUNCTION.findall(text)]
    functions = [name.strip("_") for name in names if not name.startswith("__")]
    assert sum("_" not in name for name in functions) / len(functions) <= MOST_ONE_WORD


def test_public_names_are_defined_once() -> None:
    """A verb's function has the verb's name, so a few names stand in two places."""
    owners = collections.defaultdict(set)
    for path, text in SOURCES.items():
        for name in PUBLIC.findall(text):
            owners[name].add(path.name)
    repeated = sorted(name for name, paths in owners.items() if len(paths) > 2)
    assert len(repeated) <= MOST_REPEATED, repeated
