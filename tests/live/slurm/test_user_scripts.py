"""profile --manifest train.sbatch on a real Slurm: scripts as public documentation has them."""

from pathlib import Path

import pytest

from tests.live.hosts import Invoked, await_true, error_line

pytestmark = [pytest.mark.nsys, pytest.mark.slurm]
TORCHRUN = """#!/bin/bash -l

#SBATCH --job-name=multinode-example
#SBATCH --nodes=2
#SBATCH --ntasks=2
#SBATCH --gpus-per-task=0
#SBATCH --output=elsewhere-%j.out

nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
head_node_ip=$(srun --nodes=1 --ntasks=1 -w "${nodes[0]}" hostname --ip-address)
echo Node IP: $head_node_ip
srun torchrun --nnodes 2 --nproc_per_node 1 --rdzv_id $RANDOM --rdzv_backend c10d \\
    --rdzv_endpoint "$head_node_ip:$1" "$2"
"""
GLOO = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
one = torch.ones(4)
dist.all_reduce(one)
open(os.path.join(os.path.dirname(__file__), f"met-{dist.get_rank()}"), "w").write(f"{one[0]}")
dist.destroy_process_group()
"""
# bookworm's torch 1.13 does not understand its own default of these under Python 3.11.
OF_TORCH_1 = {"PET_REDIRECTS": "9:1", "PET_TEE": "9:1", "USE_LIBUV": "0"}
PLAIN = """#!/bin/sh
#SBATCH -n 2 -N 1
#SBATCH --gres=none
srun --label python3 -c "import os; print('rank', os.environ.get('RANK'), '$1')" | cat
srun -n 1 python3 - >"$2" <<'END'
import time; time.sleep(0.2); print("from a heredoc")
END
exit 4
"""
ENDLESS = """#!/bin/bash
#SBATCH --gpus=0
srun python3 -uc 'import time; print("up"); time.sleep(600)'
srun python3 -c 'print("never")'
sleep 600
"""


def write(invoked: Invoked, text: str) -> tuple[Path, str]:
    path = invoked.runs.parent / "train.sbatch"
    path.write_text(text)
    return path, f"--manifest={path}"


def windows(invoked: Invoked) -> list[tuple[int, int]]:
    return [(report["rank"], report["window"]) for report in invoked.record()["reports"]]


def test_torchrun_on_two_nodes_under_srun(invoked: Invoked, torch: None, tmp_path: Path) -> None:
    """The step that asks for an address is left alone; each rank of torchrun has its report."""
    program = tmp_path / "meets.py"
    program.write_text(GLOO)
    _, manifest = write(invoked, TORCHRUN)
    with_torch = Invoked(invoked.runs, {**invoked.environ, **OF_TORCH_1})
    done = with_torch.run("profile", manifest, "--", "29571", str(program))
    assert done.returncode == 0, done.stderr
    assert windows(invoked) == [(0, 0), (1, 0)]
    assert [(tmp_path / f"met-{rank}").read_text() for rank in range(2)] == ["2.0"] * 2
    assert "Node IP: 127.0.0.1\n" in (invoked.latest() / "output.log").read_text()


def test_two_steps_are_two_windows_and_the_exit_code_is_the_scripts(invoked: Invoked) -> None:
    path, manifest = write(invoked, PLAIN)
    result = path.with_name("result")
    done = invoked.run("profile", manifest, "--keep", "--", "two words", str(result))
    assert done.returncode == 5
    assert "with exit code 4" in error_line(done)
    assert windows(invoked) == [(0, 0), (0, 2), (1, 0)]
    text = (invoked.latest() / "output.log").read_text()
    assert {"0: rank None two words", "1: rank None two words"} <= set(text.splitlines())
    assert result.read_text() == "from a heredoc\n"
    (copy,) = Path(invoked.environ["SLURM_DIR"]).glob(".gpu-profile-slurm-*/train-*/script")
    assert copy.read_bytes() == path.read_bytes()


def test_the_handle_serves_status_logs_stop_and_fetch(invoked: Invoked) -> None:
    _, manifest = write(invoked, ENDLESS)
    handle = invoked.detached(manifest)
    await_true(lambda: "up" in invoked.run("logs", "--job", handle).stdout, 120)
    assert invoked.run("status", "--job", handle).stdout.startswith("running")
    assert invoked.run("stop", "--job", handle).returncode == 0
    await_true(lambda: "cancelled" in invoked.run("status", "--job", handle).stdout, 120)
    assert invoked.run("fetch", "--job", handle).returncode == 0
    assert windows(invoked) == [(0, 0)]
    assert "never" not in (invoked.latest() / "output.log").read_text()


def test_a_script_that_starts_no_rank_says_what_to_write(invoked: Invoked) -> None:
    _, manifest = write(invoked, "#!/bin/sh\n#SBATCH --gpus=0\necho done\n")
    done = invoked.run("profile", manifest)
    assert done.returncode == 6
    assert "no rank was seen: write srun before the program in train.sbatch" in error_line(done)
