"""The level `steps`: hooks on the modules that own an optimizer's parameters, and on no others."""

import json
import pickle
import subprocess
from pathlib import Path

from tests.unit.agent.annotate.test_failures import list_pushed
from tests.unit.agent.annotate.test_failures import run as run_modules

MODEL = """
import pickle, torch
class Layer(torch.nn.Module):
    pass
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Layer()
        self.layer.register_parameter("weight", torch.Tensor())
        self.add_module("layer", self.layer)
    def forward(self):
        return self.layer()
class Container(torch.nn.Module):
    def _forward_unimplemented(self): raise NotImplementedError
    forward = _forward_unimplemented
def contain(model):
    container = Container()
    container.add_module("model", model)
    return container
def train(model, optimizer, steps=3):
    for _ in range(steps):
        model(); torch.autograd.backward(); optimizer.step()
model = Net()
"""
STEP = ["step", "forward", "backward", "optimizer Optimizer"]


def run(site: Path, tool: Path, code: str) -> subprocess.CompletedProcess[str]:
    return run_modules(site, tool, f"{MODEL}{code}", GPU_PROFILE_ANNOTATE="steps")


def test_only_the_owner_has_hooks(site: Path, tool: Path) -> None:
    """A global hook makes each call of each module slower."""
    code = (
        "optimizer = torch.optim.Optimizer(model.parameters())\ntrain(model, optimizer)\n"
        "other = Net(); other()\n"
        "print(sorted(torch.HOOKS), len(model._forward_hooks), len(model.layer._forward_hooks))"
    )
    done = run(site, tool, code)
    hooks = "['after_step', 'before_step', 'module', 'parameter'] 1 0\n"
    assert (done.stdout, done.stderr) == (f"{hooks}went on\n", "")
    assert list_pushed(site) == 3 * STEP


def test_the_host_is_timed_in_three_phases(site: Path, tool: Path) -> None:
    """By the program's clock, in each step and without what a closure does: it sleeps for 50 ms. A
    forward in another thread is none of the step's.
    """
    file = site / "rank0.n.steps.json"
    code = (
        "import threading, time\n"
        "def forward(): time.sleep(0.02)\n"
        "class Closing(torch.optim.Optimizer):\n"
        "    def step(self, closure):\n"
        "        args, _ = torch.HOOKS['before_step'](self, (self, closure), {})\n"
        "        time.sleep(0.01); args[1](); time.sleep(0.01)\n"
        "        torch.HOOKS['after_step'](self, args, {})\n"
        "optimizer = Closing(model.parameters())\nmodel.forward = forward\n"
        "for _ in range(3):\n"
        "    model(); model()\n"
        "    other = threading.Thread(target=model); other.start(); other.join()\n"
        "    torch.autograd.backward(); optimizer.step(lambda: time.sleep(0.05))\n"
    )
    done = run_modules(
        site, tool, f"{MODEL}{code}", GPU_PROFILE_ANNOTATE="steps", GPU_PROFILE_STEPS_FILE=str(file)
    )
    assert (done.stdout, done.stderr) == ("went on\n", "")
    facts = json.loads(file.read_text())
    assert {name: len(times) for name, times in facts["phases"].items()} == {
        "forward_ms": 3,
        "backward_ms": 3,
        "optimizer_ms": 3,
    }
    times = zip(facts["ms"], *facts["phases"].values(), strict=True)
    for step_ms, forward_ms, backward_ms, optimizer_ms in times:
        assert 0 < backward_ms <= step_ms - 130
        assert 40 <= forward_ms <= step_ms - 90  # the closure, and the other thread
        assert 20 <= optimizer_ms <= step_ms - 110


def test_a_container_without_a_forward_has_its_parts_hooked(site: Path, tool: Path) -> None:
    """As that of a GAN; Lightning's outermost module is called by `training_step`."""
    code = (
        "outer = contain(model)\ntrain(model, torch.optim.Optimizer(outer.parameters()))\n"
        "class Lightning(Net):\n    training_step = None\n    forward = torch.nn.Module.forward\n"
        "outer = Lightning(); outer.add_module('net', Net())\n"
        "train(outer._modules['net'], torch.optim.Optimizer(outer.parameters()), 1)\n"
    )
    done = run(site, tool, code)
    assert (done.stdout, done.stderr) == ("went on\n", "")
    assert list_pushed(site) == 4 * STEP


def test_a_copy_inside_a_model_is_found(site: Path, tool: Path) -> None:
    """copy.deepcopy registers nothing: nn.TransformerEncoder holds copies only."""
    code = (
        "import copy\nouter = contain(copy.deepcopy(model))\n"
        "train(outer._modules['model'], torch.optim.Optimizer(outer.parameters()))"
    )
    assert run(site, tool, code).stderr == ""
    assert list_pushed(site) == 3 * STEP


def test_what_torch_compile_makes_of_an_owner_has_hooks(site: Path, tool: Path) -> None:
    code = (
        "optimizer = torch.optim.Optimizer(model.parameters())\n"
        "def compile(model):\n"
        "    outer = torch.nn.Module(); outer._modules['_orig_mod'] = model\n"
        "    return outer\n"
        "made = contain(Net()); made._modules = {'_orig_mod': Net()}\n"
        "from gpu_profile_marks.owners import OwnerHooks\n"
        "hooks = OwnerHooks(torch); hooks._hook(model)\n"
        "outer = compile(model); hooks.hook_compiled(outer)\n"
        "hooks.hook_compiled(made); hooks.hook_compiled(train); hooks.hook_compiled(5)\n"
        "print(len(outer._forward_hooks), len(made._forward_hooks))"
    )
    assert run(site, tool, code).stdout == "1 0\nwent on\n"


def test_a_pickled_model_needs_no_marks(site: Path, tool: Path) -> None:
    """torch.save(model) keeps hooks, and its reader may have no such module."""
    file = site / "model"
    code = (
        "import copy\noptimizer = torch.optim.Optimizer(model.parameters())\n"
        "hooks = [*model._forward_pre_hooks.values(), *model._forward_hooks.values()]\n"
        "assert copy.deepcopy(hooks) == hooks\n"
        f"pickle.dump(hooks, open({str(file)!r}, 'wb'))"
    )
    done = run(site, tool, code)
    assert (done.stdout, done.stderr) == ("went on\n", "")
    before, after = pickle.loads(file.read_bytes())
    assert before(object(), ()) is None
    assert after(object(), (), object()) is None
    assert b"gpu_profile" not in file.read_bytes()


def test_torch_script_compiles_no_hook_of_ours(site: Path, tool: Path) -> None:
    code = (
        "optimizer = torch.optim.Optimizer(model.parameters())\n"
        "model.register_forward_hook(print, always_call=False)\n"
        "print(torch.jit._recursive.get_hook_stubs(model) == [print], len(model._forward_hooks))"
    )
    assert run(site, tool, code).stdout == "True 2\nwent on\n"


def test_steps_without_a_forward_that_is_seen(site: Path, tool: Path) -> None:
    """Of a program that is compiled as a whole: they begin after the optimizer."""
    code = (
        "optimizer = torch.optim.Optimizer(model.parameters())\n"
        "for _ in range(5): torch.autograd.backward(); optimizer.step()"
    )
    assert run(site, tool, code).stderr == ""
    phases = ["backward", "optimizer Optimizer"]
    assert list_pushed(site) == [*3 * phases, "step", *phases, "step", *phases, "step"]


def test_a_second_optimizer_of_the_same_model_sets_no_hooks_again(site: Path, tool: Path) -> None:
    code = (
        "for _ in range(3): optimizer = torch.optim.Optimizer(model.parameters())\n"
        "other = Net(); second = torch.optim.Optimizer(other.parameters())\n"
        "print(len(model._forward_hooks), len(other._forward_pre_hooks))"
    )
    assert run(site, tool, code).stdout == "1 1\nwent on\n"


def test_an_owner_that_cannot_be_hooked_ends_the_marks_with_one_line(
    site: Path, tool: Path
) -> None:
    code = "torch.nn.Module.register_forward_hook = None\ntorch.optim.Optimizer(model.parameters())"
    done = run(site, tool, code)
    assert (done.returncode, done.stdout) == (0, "went on\n")
    assert done.stderr.startswith("gpu-profile: marks are off, the job goes on: TypeError")
    assert done.stderr.count("\n") == 1
