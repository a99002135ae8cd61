"""Functions are named by a verb and its object, values by a noun."""

import ast
import collections
import re

from tests.unit.sources import PACKAGE, parse_source

MOST_ONE_WORD, MOST_REPEATED = 0.35, 5


def _functions() -> list[str]:
    nodes = (node for path in PACKAGE.rglob("*.py") for node in ast.walk(parse_source(path)))
    names = [node.name for node in nodes if isinstance(node, ast.FunctionDef)]
    return [name.strip("_") for name in names if not name.startswith("__")]


def test_few_function_names_are_one_word() -> None:
    functions = _functions()
    assert sum("_" not in name for name in functions) / len(functions) <= MOST_ONE_WORD


def test_public_names_are_defined_once() -> None:
    """A verb's function has the verb's name, so a few names stand in two places."""
    owners = collections.defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        for node in parse_source(path).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and re.match("[a-zA-Z]", node.name):
                owners[node.name].add(path.name)
    repeated = sorted(name for name, paths in owners.items() if len(paths) > 2)
    assert len(repeated) <= MOST_REPEATED, repeated
