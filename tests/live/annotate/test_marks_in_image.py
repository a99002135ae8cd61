"""Marks in the image's PyTorch: results and torch.compile's work are as without them."""

import json
import subprocess
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gpu_profile.launchers.agent.job_directory import AGENT

DATA = Path(__file__).parents[2] / "data" / "annotated"
COMPILED = (
    *("compiled", "compiled_in_place", "compiled_blocks", "compiled_children", "compiled_break"),
    *("compiled_shapes", "compiled_step", "compiled_optimizer", "compiled_checkpoint"),
    *("compiled_method", "compiled_groups", "compiled_backward"),
)
STEPS = {
    **dict.fromkeys(("plain", "adam", "two_at_once", "closure", "recursive", "shared"), 3),
    **dict.fromkeys(("generators", "threads", "loaded", "workers", "double", "traced"), 3),
    **dict.fromkeys(("checkpointed", "checkpointed_reentrant", "ddp", "ddp_static"), 3),
    **dict.fromkeys(COMPILED[:5], 3),
    **dict.fromkeys(("compiled_optimizer", "compiled_method", "compiled_groups"), 3),
    **{"accumulation": 2, "gan": 4, "scaler": 4, "evaluated": 4, "compiled_shapes": 4},
    **{"interrupted": 6, "new_optimizer": 6},
}
"""Steps that begin: evaluation after the last optimizer call begins one more."""
OTHERS = (
    *("raising", "functional", "groups", "microbatches", "accumulated_ddp", "operators"),
    *("dataclass_output", "changed_views", "grown", "scripted_backward"),
)
pytestmark = [pytest.mark.docker, pytest.mark.image]
Lines = Mapping[str, Mapping[str, Any]]


def run(image: str, level: str) -> Lines:
    """Run all cases in one container, without network."""
    cases = [*STEPS, *(case for case in COMPILED if case not in STEPS), *OTHERS]
    cases.sort(key=lambda case: "ddp" in case)  # their process group stays until the end
    done = subprocess.run(
        [
            *("docker", "run", "--rm", "--network=none", f"--volume={AGENT / 'annotate'}:/m:ro"),
            # The tensors have 48 numbers: more threads would only wait for each other.
            *(f"--volume={DATA}:/x/cases:ro", "--env=OMP_NUM_THREADS=1", image),
            *("python3", "/x/cases/cases.py", "/m", level),
            *(*cases, "broken"),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = map(json.loads, done.stdout.splitlines())
    return {line["case"]: line for line in lines} | {"stderr": {"text": done.stderr}}


@pytest.fixture(scope="module")
def plain(image: str) -> Lines:
    return run(image, "none")


@pytest.fixture(scope="module")
def marked(image: str) -> Lines:
    return run(image, "modules")


@pytest.fixture(scope="module")
def stepped(image: str) -> Lines:
    return run(image, "steps")


@pytest.mark.parametrize("level", ["steps", "modules"])
def test_results_are_equal_bit_by_bit(
    plain: Lines, stepped: Lines, marked: Lines, level: str
) -> None:
    levels = {"steps": stepped, "modules": marked}
    assert all("error" not in line for line in (*plain.values(), *levels[level].values()))
    losses = {case: line["losses"] for case, line in plain.items() if case != "stderr"}
    assert {case: levels[level][case]["losses"] for case in losses} == losses


@pytest.mark.parametrize("level", ["steps", "modules"])
def test_no_graph_break_and_no_recompilation_is_added(
    plain: Lines, stepped: Lines, marked: Lines, level: str
) -> None:
    lines = {"steps": stepped, "modules": marked}[level]
    for case in COMPILED:
        before, after = plain[case]["counters"], lines[case]["counters"]
        assert after["stats"] == before["stats"], case
        assert after.get("frames") == before.get("frames"), case
        breaks = before.get("graph_break", {})
        assert all(breaks.get(why, 0) >= n for why, n in after.get("graph_break", {}).items()), case


def test_steps_are_counted_without_hooks_of_all_modules(stepped: Lines) -> None:
    """A traced module has no hooks: nobody sees its forwards."""
    for case in set(STEPS) - {"traced"}:
        begun = [mark for mark in stepped[case]["marks"] if mark[1] == "step"]
        assert len(begun) == STEPS[case], case
    assert not [mark for mark in stepped["plain"]["marks"] if "|" in mark[1]]


def test_steps_are_counted(marked: Lines) -> None:
    begun = {
        case: len([mark for mark in marked[case]["marks"] if mark[1] == "step"]) for case in STEPS
    }
    assert begun == STEPS


def test_backward_is_marked_by_module(marked: Lines) -> None:
    names = [mark[1].partition("|")[0] for mark in marked["plain"]["marks"]]
    first = names[names.index("backward") + 1 : names.index("optimizer SGD")]
    assert first == [
        "backward head",
        *("backward blocks.1", "backward blocks.1.down", "backward blocks.1"),
        *("backward blocks.1.up", "backward blocks.1.norm"),
        *("backward blocks.0", "backward blocks.0.down", "backward blocks.0"),
        *("backward blocks.0.up", "backward blocks.0.norm"),
    ]


@pytest.mark.parametrize(("case", "count"), [("plain", 0), ("accumulation", 98), ("ddp", 42)])
def test_gradients_have_marks_where_they_are_summed_or_reduced(
    marked: Lines, case: str, count: int
) -> None:
    """14 parameters. With accumulation the first of eight batches sums nothing; the nodes of the
    fourth live on in the fifth. DDP has three steps.
    """
    names = [mark[1] for mark in marked[case]["marks"]]
    assert sum(name.startswith("accumulate ") for name in names) == count


@pytest.mark.parametrize("case", ["microbatches", "accumulated_ddp"])
def test_each_node_of_the_backward_pass_runs_in_its_leaf_s_range(marked: Lines, case: str) -> None:
    """Also the casts that autocast keeps for all microbatches, and the gradients' accumulation."""
    nodes = marked[case]["nodes"]
    assert [node for node in nodes if node[0] != node[1]] == []
    owners = {owner for owner, _ in nodes}
    assert {"backward blocks.1.up", "accumulate blocks.1.up", "accumulate head"} < owners


def test_a_module_that_returns_an_object_has_a_backward(marked: Lines) -> None:
    assert marked["dataclass_output"]["nodes"] == 3 * [["TanhBackward0", "backward Described"]]


def test_models_beside_each_other_have_names_of_their_own(marked: Lines) -> None:
    names = {mark[1].partition("|")[0] for mark in marked["gan"]["marks"]}
    assert {"forward blocks.0.up", "forward Net#2.blocks.0.up"} < names
    assert {"backward blocks.0.up", "backward Net#2.blocks.0.up"} < names


def test_a_module_that_is_added_has_its_name(marked: Lines) -> None:
    names = {mark[1].partition("|")[0] for mark in marked["grown"]["marks"]}
    assert {"forward head.1", "backward head.1"} < names


def test_the_backward_pass_calls_the_same_operators(plain: Lines, marked: Lines) -> None:
    """A hook that kept a gradient alive would make autograd copy it."""
    assert plain["operators"]["operators"]["AddmmBackward0"] > 0
    assert marked["operators"]["operators"] == plain["operators"]["operators"]


def test_a_compiled_module_is_one_range_each_way(marked: Lines) -> None:
    names = [mark[1].partition("|")[0] for mark in marked["compiled_blocks"]["marks"]]
    assert names.count("forward blocks.0") == names.count("backward blocks.0") == 3
    assert not any("blocks.0.up" in name for name in names)


@pytest.mark.parametrize("case", ["compiled_optimizer", "compiled_method"])
def test_a_compiled_step_belongs_to_its_optimizer(marked: Lines, case: str) -> None:
    """The optimizer's hooks may run only while torch.compile traces them."""
    marks = [mark[1] for mark in marked[case]["marks"] if "|" not in mark[1]]
    phases = [name for before, name in pairwise(["", *marks]) if name != before]
    assert phases == 3 * ["step", "forward", "backward", "optimizer Adam"]


def test_each_group_of_parameters_has_a_range(marked: Lines) -> None:
    marks = [mark[:2] for mark in marked["groups"]["marks"] if mark[1].startswith("optimizer")]
    inner = [[2, f"optimizer AdamW group {number}"] for number in (0, 1)]
    assert marks[:9] == 3 * [[1, "optimizer AdamW"], *inner]


def test_an_error_of_ours_is_one_line_and_ends_the_marks(marked: Lines) -> None:
    assert not marked["broken"]["on"]
    said = str(marked["stderr"]["text"])
    assert said.count("gpu-profile: marks are off, the job goes on: ") == 1
