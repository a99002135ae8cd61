"""In a job that is armed marks are made from the request of a window to its end."""

from pathlib import Path

from gpu_profile_marks.step_counter import SHOWN

from tests.unit.agent.annotate.test_failures import run

PROGRAM = """
import torch
model, optimizer = torch.nn.Module(), torch.optim.Optimizer()
def train(wanted, steps):
    with open(MARKS, "r+b") as file: file.write(bytes([wanted]))
    for _ in range(steps): model(); torch.autograd.backward(); optimizer.step()
train(0, 3); train(1, 3); train(0, 2)
"""


def test_marks_sleep_between_windows_and_count_steps(site: Path, tool: Path) -> None:
    """Step 3 ends when a window is wanted, step 6 when none is any more."""
    (site / "windows").mkdir()
    marks = site / "windows" / "marks-rank0.n"
    marks.write_bytes(b"\0")
    file = site / "rank0.n.steps.json"
    code = PROGRAM.replace("MARKS", repr(str(marks)))
    done = run(site, tool, code, GPU_PROFILE_STEPS_FILE=str(file))
    assert (done.stdout, done.stderr) == ("went on\n", "")
    log = (site / "log").read_text().split("\n")
    marked = ["step", "forward", "forward Module", "backward", "optimizer Optimizer"]
    pushed = [line[5:].partition("|")[0] for line in log if line.startswith("push")]
    assert pushed == 4 * marked  # of the steps 0, 4, 5 and 6
    assert log.count("pop gpu-profile") == len(pushed)
    (counter,) = (site / "windows").glob("steps-rank0.n-*")
    assert SHOWN.unpack(counter.read_bytes()) == (9, 0)
