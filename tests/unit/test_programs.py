"""The programs of bench/causes say themselves which findings name their cause."""

import pytest

from bench.causes.causes import PROGRAMS, find_causes, list_programs
from gpu_profile.analysis.findings.table import RULES

HELPERS = {"lightning_or_pytorch", "parts", "trainer_turns", "turns"}


def test_each_program_says_which_findings_name_its_cause() -> None:
    names = {path.stem for path in PROGRAMS.glob("*.*")}
    assert names - HELPERS == set(list_programs())


def test_causes_are_kinds_of_findings() -> None:
    kinds = {kind for name in list_programs() for kind in find_causes(name) or ()}
    assert kinds <= RULES.keys()


@pytest.mark.parametrize(
    ("name", "causes"),
    [
        ("recommender", ("idle", "pageable_copy")),
        ("bfs_frontier", ("idle", "pageable_copy")),
        ("trainer_padding", ()),
        ("parts", None),
        ("no_such_program", None),
    ],
)
def test_causes_are_read_from_the_program(name: str, causes: tuple[str, ...] | None) -> None:
    assert find_causes(name) == causes
