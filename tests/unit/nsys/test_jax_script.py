"""Scripts that import JAX are found, and the kernels of their CUDA graphs are recorded."""

from pathlib import Path

import pytest

from gpu_profile.job import ProfileSpec
from gpu_profile.nsys.help import TYPICAL_HELP
from gpu_profile.nsys.jax_script import imports_jax
from gpu_profile.nsys.options import profile_options

TRAIN = "import os\n\nimport jax.numpy as jnp\n"


@pytest.fixture(autouse=True)
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "task").mkdir()
    for name, text in {
        "train.py": TRAIN,
        "task/train.py": "def run():\n    from flax import nnx\n",
        "torch_train.py": "import torch  # no import jax\nimport jaxtyping\n",
        "notes.py": "import torch\nTEXT = 'import jax'\n",
    }.items():
        (tmp_path / name).write_text(text)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python3 train.py --lr 1e-3", True),
        ("python3 -u train.py", True),
        ("mpirun -np 2 python3 train.py", True),
        ("python3 -m task.train", True),
        ("python3 -m task.missing", False),
        ("python3 missing.py", False),
        ("python3 task", False),
        ("python3 torch_train.py", False),
        ("python3 notes.py", False),
        ("./solver input.dat", False),
        ("python3 -m", False),
        ("", False),
    ],
)
def test_the_script_of_a_command_is_read(command: str, expected: bool) -> None:
    assert imports_jax(command.split()) is expected


@pytest.mark.parametrize(
    ("spec", "nodes", "option"),
    [
        (ProfileSpec(), False, "graph:host-only"),
        (ProfileSpec(), True, "node:host-only"),
        (ProfileSpec(preset="full"), True, "node"),
        (ProfileSpec(cuda_graph_trace="graph"), True, "graph"),
    ],
)
def test_kernels_of_graphs_are_recorded_unless_the_user_says_how(
    spec: ProfileSpec, nodes: bool, option: str
) -> None:
    options = profile_options(spec, TYPICAL_HELP, nodes=nodes)
    assert f"--cuda-graph-trace={option}" in options
