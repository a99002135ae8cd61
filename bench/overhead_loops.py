"""Training loops whose steps are timed, as bench/overhead.py starts them under a profiler or none.

    python3 bench/overhead_loops.py --lock FILE [--way plain|torch|control] [--device cpu] [--short]

Prints one JSON line: milliseconds a step of each block, by loop, and what a step consists of. One
process has the GPU at a time: the one that holds the lock.
"""

import argparse
import fcntl
import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

BLOCKS = 5
WARM_STEPS = 6
CONTROL_STEP_S, CONTROL_S = 0.13, 60.0
"""60 such steps are the least that the marks record by default, and take the 5 s of the most."""


@dataclass(frozen=True)
class Size:
    """A stack of attention blocks, its input, and how many steps make a block of the clock."""

    layers: int
    width: int
    sequence: int
    batch: int
    steps: int


SIZES = {
    "launch-bound": Size(12, 256, 128, 1, 30),
    "balanced": Size(12, 1024, 512, 8, 20),
    "GPU-bound": Size(12, 1024, 512, 64, 4),
}
GRAPH = "CUDA graph"
SHORT_STEPS = 3
DTYPES = {"cuda": torch.bfloat16, "cpu": torch.float32}


class Block(nn.Module):  # type: ignore[misc]  # torch is not there to be checked
    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = width // 64
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.active = nn.Linear(width, 4 * width), nn.GELU()
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        batch, sequence, width = hidden.shape
        mixed = self.mixed(self.before(hidden)).view(batch, sequence, 3, self.heads, 64)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.joined(seen.transpose(1, 2).reshape(batch, sequence, width))
        return hidden + self.narrow(self.active(self.wide(self.between(hidden))))


@dataclass(frozen=True)
class Loop:
    """`step` is one step; `modules` are called in it."""

    step: Callable[[], object]
    steps: int
    modules: int = 0


def make_model(size: Size, device: str) -> Any:
    with torch.device(device):
        layers = [Block(size.width).to(DTYPES[device]) for _ in range(size.layers)]
        return nn.Sequential(*layers)


def make_training(size: Size, device: str) -> Loop:
    model = make_model(size, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    shape = size.batch, size.sequence, size.width
    batch = torch.randn(*shape, device=device, dtype=DTYPES[device])

    def step() -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return Loop(step, size.steps, sum(1 for _ in model.modules()))


def make_graph(size: Size) -> Loop:
    """Return replays of a graph of the model's forward."""
    model = make_model(size, "cuda")
    batch = torch.randn(1, size.sequence, size.width, device="cuda", dtype=torch.bfloat16)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        model(batch)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            model(batch)
    return Loop(graph.replay, 100)


def make_loops(device: str) -> dict[str, Loop]:
    loops = {name: make_training(size, device) for name, size in SIZES.items()}
    if device == "cuda":
        loops[GRAPH] = make_graph(SIZES["launch-bound"])
    return loops


def synchronize() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def time_block(loop: Loop, steps: int) -> float:
    """Return the milliseconds of a step, with the end of the GPU's work."""
    synchronize()
    began = time.perf_counter()
    for _ in range(steps):
        loop.step()
    synchronize()
    return 1e3 * (time.perf_counter() - began) / steps


def record_cuda() -> Any:
    activity = torch.profiler.ProfilerActivity
    activities = [activity.CUDA if torch.cuda.is_available() else activity.CPU]
    return torch.profiler.profile(activities=activities)


def count_events(loop: Loop, steps: int = 4) -> dict[str, float]:
    """Return the kernels, copies and calls of CUDA in a step, and the GPU's busy time."""
    with record_cuda() as profiler:
        time_block(loop, steps)
    events = profiler.profiler.kineto_results.events()
    on_gpu = [event for event in events if event.device_type() != torch.autograd.DeviceType.CPU]
    return {
        "gpu": len(on_gpu) / steps,
        "calls": (len(events) - len(on_gpu)) / steps,
        "busy_ms": sum(event.duration_ns() for event in on_gpu) / steps / 1e6,
    }


def wait_for_control(step: Callable[[], object]) -> bool:
    """Make steps until the marks have ended the recording and nsys has written its report."""
    end = time.monotonic() + CONTROL_S
    endings = [entry for entry in gc.get_objects() if type(entry).__name__ == "Ending"]
    while time.monotonic() < end:
        step()
        if endings and endings[0]._control is not None:
            return True
        time.sleep(CONTROL_STEP_S)
    return False


@contextmanager
def held(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lock", type=Path, required=True)
    parser.add_argument("--way", default="plain", choices=("plain", "torch", "control"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--short", action="store_true", help="fewer steps: tries the program only")
    return parser.parse_args()


def measure(loops: dict[str, Loop], options: argparse.Namespace) -> dict[str, list[float]]:
    profiler: AbstractContextManager[object] = nullcontext()
    if options.way == "torch":
        profiler = record_cuda()
    times: dict[str, list[float]] = {name: [] for name in loops}
    with profiler:
        for _ in range(1 if options.short else BLOCKS):
            for name, loop in loops.items():
                steps = SHORT_STEPS if options.short else loop.steps
                times[name].append(time_block(loop, steps))
    return times


def main() -> None:
    options = parse_arguments()
    with held(options.lock):
        loops = make_loops(options.device)
        for loop in loops.values():
            time_block(loop, WARM_STEPS)
        facts: dict[str, Any] = {}
        if options.way != "control":
            facts["ms"] = measure(loops, options)
            if options.way == "torch":
                facts["events"] = {name: count_events(loop) for name, loop in loops.items()}
    if options.way == "control":
        small = make_training(Size(1, 64, 8, 1, 1), "cpu")
        facts["is_control"] = wait_for_control(small.step)
        with held(options.lock):
            for loop in loops.values():
                time_block(loop, WARM_STEPS)
            facts["ms"] = measure(loops, options)
    facts["median_ms"] = {name: statistics.median(times) for name, times in facts["ms"].items()}
    facts["modules"] = {name: loop.modules for name, loop in loops.items()}
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
