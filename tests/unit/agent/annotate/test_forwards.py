"""A program without an optimizer: forwards of its model are counted, and its recording ends."""

import json
import subprocess
import threading
from pathlib import Path
from typing import Any

from tests.unit.agent.annotate.test_ending import Listener, listener
from tests.unit.agent.annotate.test_failures import list_pushed, run

__all__ = ["listener"]
MODEL = """
import torch
class Net(torch.nn.Module):
    def forward(self): return torch.empty()
model, other = Net(), Net()
"""


def count(
    site: Path, tool: Path, tmp_path: Path, code: str, level: str = "steps"
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run a program whose recording could end. Returns it, and the file of its times."""
    file = site / "rank0.n.steps.json"
    more = {"GPU_PROFILE_STEPS_FILE": str(file), "GPU_PROFILE_STEPS_END": str(tmp_path / "end")}
    done = run(site, tool, f"{MODEL}{code}", GPU_PROFILE_ANNOTATE=level, **more)
    return done, json.loads(file.read_text())


def end_at(site: Path, listener: Listener, number: int) -> threading.Thread:
    (site / "last-step.json").write_text(json.dumps({"steps": number}))
    return listener.answer(b"sw")


def test_forwards_of_a_model_in_evaluation_are_counted_and_end_the_recording(
    site: Path, tool: Path, tmp_path: Path, listener: Listener
) -> None:
    thread = end_at(site, listener, 16)
    code = "model.eval()\nfor _ in range(20): model(); other()"
    done, facts = count(site, tool, tmp_path, code)
    thread.join()
    assert (done.stdout, done.stderr) == ("went on\n", "")
    assert listener.request == b"end forward 15\n"
    assert (facts["unit"], facts["steps"], len(facts["ms"])) == ("forward", 19, 19)
    assert (facts["recorded"], facts["control"]) == ([0, 16], 17)
    assert list_pushed(site) == ["forward"] * 20


def test_only_the_model_itself_has_hooks(site: Path, tool: Path, tmp_path: Path) -> None:
    """A model of transformers has an `eval` of its own, which calls `train`."""
    code = (
        "class Own(Net):\n    def eval(self): return self.train(False)\n"
        "own = Own(); own.add_module('net', model); own.eval()\n"
        "print(len(own._forward_hooks), len(model._forward_hooks))\n"
        "for _ in range(3): own()"
    )
    done, facts = count(site, tool, tmp_path, code)
    assert (done.stdout, done.stderr) == ("1 0\nwent on\n", "")
    assert facts["steps"] == 2


def test_forwards_without_an_evaluation_are_none(site: Path, tool: Path, tmp_path: Path) -> None:
    done, facts = count(site, tool, tmp_path, "model.train()\nfor _ in range(20): model()")
    assert (done.stderr, facts["steps"], facts["ms"]) == ("", 0, [])


def test_of_two_models_the_one_that_is_called_first_is_counted(
    site: Path, tool: Path, tmp_path: Path
) -> None:
    """Until 250 forwards of others lie after its last one."""
    code = (
        "model.eval(); other.eval()\n"
        "for _ in range(4):\n    model()\n    for _ in range(50): other()\n"
    )
    assert count(site, tool, tmp_path, code)[1]["steps"] == 3
    assert count(site, tool, tmp_path, f"{code}for _ in range(250): other()")[1]["steps"] == 53


def test_no_forward_counts_while_a_graph_is_captured(
    site: Path, tool: Path, tmp_path: Path
) -> None:
    """Where the recording ends, the program waits for the GPU, which ends a capture."""
    code = (
        "model.eval(); model(); torch.CAPTURES['now'] = True\n"
        "for _ in range(5): model()\n"
        "torch.CAPTURES['now'] = False; model(); model()"
    )
    assert count(site, tool, tmp_path, code)[1]["steps"] == 2


def test_replays_of_a_graph_are_counted_as_forwards_and_end_the_recording(
    site: Path, tool: Path, tmp_path: Path, listener: Listener
) -> None:
    thread = end_at(site, listener, 16)
    code = "graph = torch.cuda.CUDAGraph()\nfor _ in range(20): assert graph.replay() == 'replayed'"
    done, facts = count(site, tool, tmp_path, code)
    thread.join()
    assert (done.stdout, done.stderr) == ("went on\n", "")
    assert listener.request == b"end forward 15\n"
    assert (facts["unit"], facts["steps"], facts["control"]) == ("forward", 19, 17)


def test_a_replay_inside_a_forward_is_a_part_of_it(site: Path, tool: Path, tmp_path: Path) -> None:
    code = (
        "graph = torch.cuda.CUDAGraph()\n"
        "class Graphed(torch.nn.Module):\n    def forward(self): graph.replay()\n"
        "net = Graphed().eval()\nfor _ in range(10): net()"
    )
    assert count(site, tool, tmp_path, code)[1]["steps"] == 9


def test_replays_of_a_training_are_none(site: Path, tool: Path, tmp_path: Path) -> None:
    code = (
        f"model.eval()\n{TRAIN}\ngraph = torch.cuda.CUDAGraph()\nfor _ in range(9): graph.replay()"
    )
    done, facts = count(site, tool, tmp_path, code)
    assert (done.stderr, facts["unit"], facts["steps"]) == ("", "step", 3)


TRAIN = """
optimizer = torch.optim.Optimizer(model.parameters())
for _ in range(3): model(); torch.autograd.backward(); optimizer.step()
"""


def test_a_program_that_begins_to_train_has_steps(site: Path, tool: Path, tmp_path: Path) -> None:
    (site / "last-step.json").write_text('{"steps": 30}')
    code = f"model.eval()\nfor _ in range(20): model()\n{TRAIN}"
    done, facts = count(site, tool, tmp_path, code)
    assert (done.stderr, facts["unit"], facts["steps"]) == ("", "step", 3)
    assert not (site / "last-step.json").exists()
    assert list_pushed(site).count("step") == 3


def test_a_program_that_trains_after_its_recording_keeps_the_control_of_forwards(
    site: Path, tool: Path, tmp_path: Path, listener: Listener
) -> None:
    thread = end_at(site, listener, 16)
    code = f"model.eval()\nfor _ in range(20): model()\n{TRAIN}"
    done, facts = count(site, tool, tmp_path, code)
    thread.join()
    assert (done.stderr, facts["unit"], facts["steps"]) == ("", "forward", 19)


def test_with_marks_of_modules_forwards_are_counted_too(
    site: Path, tool: Path, tmp_path: Path
) -> None:
    code = "model.eval()\nfor _ in range(20): model()"
    done, facts = count(site, tool, tmp_path, code, "modules")
    assert (done.stderr, facts["unit"], facts["steps"]) == ("", "forward", 19)
