"""The programs of bench/causes say themselves which findings name their cause."""

import json
from pathlib import Path

import pytest

from bench.causes.causes import PROGRAMS, find_causes, list_programs
from bench.causes.host_times import read_host_ratios
from bench.causes.turns import WARM_STEPS, Turns
from gpu_profile.analysis.findings.table import RULES
from gpu_profile.analysis.replay.shadow.plain_step import UNKNOWN

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


def test_turns_tell_which_of_all_steps_had_the_cause() -> None:
    turns = Turns("turns", block_seconds=0.001, rounds=1)
    planted = []
    while turns.step():
        planted.append(turns.planted)
    facts = json.loads(turns.as_json())
    assert facts["made"] == len(planted)
    assert len(facts["steps"]) == len(facts["planted"]) == 2
    assert all(all(planted[begin:end]) for begin, end in facts["steps"])


def write_run(folder: Path, name: str, forward_ms: list[float]) -> None:
    facts = {"steps": len(forward_ms), "phases": {"forward_ms": forward_ms}}
    (folder / name).mkdir()
    (folder / name / "rank0.host.steps.json").write_text(json.dumps(facts))


@pytest.mark.parametrize("per_step", [1, 2], ids=["steps", "two forwards a step"])
def test_the_hosts_time_is_that_of_steps_with_the_cause(per_step: int, tmp_path: Path) -> None:
    """8 ms recorded and 6 measured; steps with the fix take 2."""
    spans, made = [(20, 40), (60, 80)], 80
    measured = [6.0 if any(a <= step < b for a, b in spans) else 2.0 for step in range(made)]
    (tmp_path / "turns.json").write_text(json.dumps({"steps": spans, "made": made}))
    assert read_host_ratios(tmp_path) == UNKNOWN, "no run has times"
    write_run(tmp_path, "plain", [ms for ms in measured for _ in range(per_step)])
    warm = [99.0] * WARM_STEPS * per_step
    write_run(tmp_path, "planted", [*warm, *[8.0] * 40 * per_step])
    assert read_host_ratios(tmp_path) == (0.75, 0.0, 0.0)
