"""An error in any of our hooks ends the marks with one line, and never the program."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_profile.launchers.agent.job_directory import AGENT
from tests.further import further, keep_first

START_UP = AGENT / "annotate"
LINE = "gpu-profile: marks are off, the job goes on: "
BEGIN = "import torch\nclass Bad:\n    def __getattr__(self, name): raise ValueError('bad')\n"
TRAIN = (
    "model = torch.nn.Module(); model(); torch.autograd.backward()\n"
    "torch.optim.Optimizer().step()\n"
)
FAIL = "def fail(*_): raise ValueError('bad')\n"
LATER = f"{BEGIN}{FAIL}{TRAIN}"
"""A program whose first step is marked."""


def run(site: Path, tool: Path, code: str, **more: str) -> subprocess.CompletedProcess[str]:
    environ = {
        "PYTHONPATH": f"{START_UP}{os.pathsep}{site}",
        "GPU_PROFILE_ANNOTATE": "modules",
        "NVTX_INJECTION64_PATH": str(tool),
        "TOOL_LOG": str(site / "log"),
        "PATH": "/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        **more,
    }
    program = f"{code}\nprint('went on')"
    words = [sys.executable, "-c", program]
    return subprocess.run(words, env=environ, capture_output=True, text=True)


def test_a_program_without_errors_is_marked_to_its_end(site: Path, tool: Path) -> None:
    done = run(site, tool, f"import torch\n{TRAIN}{TRAIN}")
    assert (done.stdout, done.stderr) == ("went on\n", "")
    log = (site / "log").read_text().split("\n")
    pushed = [line.partition("|")[0] for line in log if line.startswith("push")]
    step = ["push step", "push forward", "push forward Module", "push backward"]
    assert pushed == 2 * [*step, "push optimizer Optimizer"]
    assert log.count("pop gpu-profile") == len(pushed)


def test_a_program_goes_on_after_a_forward_that_was_interrupted(site: Path, tool: Path) -> None:
    """torch calls no hook after a KeyboardInterrupt: the next forward of the model is no recursion
    but the outermost one, and begins a step.
    """
    code = (
        "import torch\nmodel, inner = torch.nn.Module(), torch.nn.Module()\n"
        "optimizer = torch.optim.Optimizer()\n"
        "def interrupt(): raise KeyboardInterrupt\n"
        "for forward in (torch.Tensor, interrupt, torch.Tensor, torch.Tensor):\n"
        "    inner.forward = forward\n    model.forward = lambda: inner()\n"
        "    try: model(); optimizer.step()\n    except KeyboardInterrupt: pass\n"
    )
    done = run(site, tool, code)
    assert (done.stdout, done.stderr) == ("went on\n", "")
    log = (site / "log").read_text().split("\n")
    pushed = [line.partition("|")[0].removeprefix("push ") for line in log if "push" in line]
    forward = ["forward", "forward Module", "forward Module"]
    step = ["step", *forward, "optimizer Optimizer"]
    assert pushed == [*step, "step", *forward, *step[1:], *step]
    assert log.count("pop gpu-profile") == len(pushed)


def list_pushed(site: Path) -> list[str]:
    log = (site / "log").read_text().splitlines()
    return [line.removeprefix("push ") for line in log if "push" in line and "|" not in line]


def test_a_program_goes_on_after_an_optimizer_that_failed(site: Path, tool: Path) -> None:
    """torch calls no hook after a step that raises: its range ends at the next step."""
    code = (
        "import torch\nmodel, optimizer = torch.nn.Module(), torch.optim.Optimizer()\n"
        "class Failing(torch.optim.Optimizer):\n"
        "    fails = True\n"
        "    def step(self):\n"
        "        torch.HOOKS['before_step'](self, (self,), {})\n"
        "        if self.fails: raise MemoryError\n"
        "        torch.HOOKS['after_step'](self, (self,), {})\n"
        "optimizer = Failing()\n"
        "for number in range(4):\n    model()\n    Failing.fails = number == 0\n"
        "    try: optimizer.step()\n    except MemoryError: pass\n"
    )
    done = run(site, tool, code)
    assert (done.stdout, done.stderr) == ("went on\n", "")
    step = ["step", "forward", "optimizer Failing"]
    assert list_pushed(site) == [*step, *step[1:], *step, *step]


def test_the_thread_that_trains_has_the_steps(site: Path, tool: Path) -> None:
    """Another thread ran a forward first, as one that prefetches does."""
    code = (
        "import torch, threading\nother = threading.Thread(target=torch.nn.Module())\n"
        f"other.start(); other.join()\n{3 * TRAIN}"
    )
    done = run(site, tool, code)
    assert (done.stdout, done.stderr) == ("went on\n", "")
    assert list_pushed(site).count("step") == 3


def test_torch_script_knows_backward_as_its_operator(site: Path, tool: Path) -> None:
    code = "import torch\nprint(torch.jit._builtins._find_builtin(torch.autograd.backward))"
    done = run(site, tool, code)
    assert (done.stdout, done.stderr) == ("aten::backward\nwent on\n", "")


@pytest.mark.parametrize(
    "code",
    keep_first(
        3,
        [
            "model.named_children = fail; other = type('M', (torch.nn.Module,), {})()\n"
            "other.named_children = fail; other()",
            "model.forward = lambda: type('T', (torch.Tensor,), {'grad_fn': Bad()})()\nmodel()",
            "torch.NUMBERS['next'] = fail; model()",
            "opt = torch.optim.Optimizer(); opt.param_groups = 5; opt.step()",
            "torch.optim.Optimizer.param_groups = 5\n"
            "torch.amp.GradScaler().step(type('O', (torch.optim.Optimizer,), {})())\n"
            "type('O', (torch.optim.Optimizer,), {})().step()",
            "torch.TRACER['set'] = fail; assert torch.autograd.backward() == 'gradients'",
            "torch.TRACER['set'] = fail\n"
            "assert next(torch.utils.data.dataloader._BaseDataLoaderIter()) == 'batch'",
            "torch.TRACER['set'] = fail\n"
            "assert torch.amp.GradScaler().step(torch.optim.Optimizer()) == 'scaled'",
            "class Slots(torch.nn.Module):\n"
            "    _compiled_call_impl = property(fail, lambda *_: None)\n"
            "Slots().compile()",
            "class Odd:\n    __self__ = property(fail)\n"
            "assert torch.compile(Odd())() == 'compiled'",
            "torch.optim.Optimizer.step.__globals__['TRACER']['set'] = fail\n"
            "assert torch.compile(torch.optim.Optimizer().step)() == 'compiled'",
        ],
    ),
    ids=(
        *("names", "output", "sequence", "optimizer", "groups", "backward", "data"),
        *("scaler", "module.compile", "torch.compile", "compiled-step"),
    ),
)
def test_an_error_in_a_hook(site: Path, tool: Path, code: str) -> None:
    done = run(site, tool, LATER + code)
    assert (done.returncode, done.stdout) == (0, "went on\n"), done.stderr
    assert done.stderr.startswith(f"{LINE}ValueError: bad") or "TypeError" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "push step" in (site / "log").read_text(), "it was marked before"


@pytest.mark.parametrize(
    "missing",
    ["_C", *map(further, ("nn", "amp", "autograd")), "compile"],
)
def test_a_torch_that_lacks_what_we_use(site: Path, tool: Path, missing: str) -> None:
    with (site / "torch" / "__init__.py").open("a") as file:
        file.write(f"del {missing}\n")
    done = run(site, tool, "import torch")
    assert (done.returncode, done.stdout) == (0, "went on\n"), done.stderr
    assert done.stderr.startswith(f"{LINE}AttributeError")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("lacks", ["compiler", "compiler.is_compiling"])
def test_a_torch_before_the_first_with_marks(site: Path, tool: Path, lacks: str) -> None:
    """Torch 1.13 lacks torch.compiler, and 2.1 and 2.2 its is_compiling."""
    with (site / "torch" / "__init__.py").open("a") as file:
        file.write(f"__version__ = '1.13.0a0'\ndel {lacks}\n")
    done = run(site, tool, "import torch")
    assert (done.returncode, done.stdout) == (0, "went on\n"), done.stderr
    needed = "torch 1.13.0a0 is too old for marks, which need 2.3 or newer"
    assert done.stderr == f"{LINE}RuntimeError: {needed}\n"


@pytest.mark.parametrize("name", ["ctypes", "bisect"])
def test_a_python_that_lacks_a_module(site: Path, tool: Path, name: str) -> None:
    """`import torch` does not see the error of our own import."""
    (site / f"{name}.py").write_text("raise ImportError('none here')\n")
    done = run(site, tool, "import torch")
    assert (done.returncode, done.stdout) == (0, "went on\n"), done.stderr
    assert done.stderr == f"{LINE}ImportError: none here\n"


def test_an_error_at_the_import_of_our_start_up_module(site: Path, tool: Path) -> None:
    """The environment's own sitecustomize still runs."""
    (site / "gpu_profile_marks").mkdir()
    (site / "gpu_profile_marks" / "__init__.py").write_text("raise RuntimeError('not ours')\n")
    (site / "sitecustomize.py").write_text("import sys\nsys.own_ran = True\n")
    only = site.parent / "start-up"
    only.mkdir()
    shutil.copy(START_UP / "sitecustomize.py", only)
    paths = os.pathsep.join((str(only), str(site)))
    done = run(site, tool, "import sys, torch; print(sys.own_ran)", PYTHONPATH=paths)
    assert (done.returncode, done.stdout) == (0, "True\nwent on\n")
    assert done.stderr == f"{LINE}RuntimeError: not ours\n"


def test_an_error_at_the_end_of_the_program(site: Path, tool: Path) -> None:
    """The file of the steps' times cannot be written."""
    more = {"GPU_PROFILE_STEPS": "0:1", "GPU_PROFILE_STEPS_FILE": "/proc/none/steps.json"}
    done = run(site, tool, f"import torch\n{TRAIN}", **more)
    assert (done.returncode, done.stdout) == (0, "went on\n")
    assert done.stderr.startswith(f"{LINE}FileNotFoundError")
    assert done.stderr.count("\n") == 1
