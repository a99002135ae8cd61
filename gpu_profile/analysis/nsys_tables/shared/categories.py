"""Samples of several kinds of work in one table, as CUDA_KERNEL, MEMORY_OPER and CUDA_API."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.summary import GROUPS, Grouped, merge_sources
from gpu_profile.table import Column

Part = Callable[[Database, Scope], Grouped]
CATEGORY_KEY = (Column("Category"), Column("Operation"))


def _label_category(category: str, part: Part, database: Database, scope: Scope) -> Grouped:
    samples = part(database, scope)
    width = len(GROUPS[scope.by])
    keys = tuple((*key[:width], category, *key[width:]) for key in samples.samples.keys)
    return Grouped(scope.by, replace(samples.samples, keys=keys))


def load_categories(
    sources: Sequence[tuple[str, Part]], database: Database, scope: Scope
) -> Grouped:
    """Samples of all sources, (category, part) each; the category is the key's first cell."""
    parts = [partial(_label_category, category, part) for category, part in sources]
    return merge_sources(parts, database, scope)
