"""The rules of all kinds of findings, found by their files: no list names them."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

from gpu_profile.analysis.findings import rules
from gpu_profile.analysis.findings.rule import FindingRule


def _find_rules() -> Iterator[tuple[str, FindingRule[Any]]]:
    for module in pkgutil.walk_packages(rules.__path__, f"{rules.__name__}."):
        if not module.ispkg:
            rule = importlib.import_module(module.name).RULE
            yield rule.kind, rule


RULES = dict(sorted(_find_rules()))
"""The rules by kind, such as "straggler", sorted."""
