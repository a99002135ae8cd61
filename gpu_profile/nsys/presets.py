"""The presets light, comm, serve and full: only data that a table, the page or a finding uses.

nsys' options: https://docs.nvidia.com/nsight-systems/UserGuide/index.html
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_profile.job import Preset


@dataclass(frozen=True, kw_only=True)
class _Preset:
    """A preset. `trace` applies with a GPU, `cpu_trace` without one.

    `stacks`: samples of C, C++ (`--sample`) and Python stacks. `memory`: allocations on GPUs.
    """

    trace: tuple[str, ...]
    cpu_trace: tuple[str, ...]
    stacks: bool = False
    memory: bool = False
    graph: str = "graph:host-only"
    gpu_metrics: bool = False


# light needs no privilege and costs about 2 % if the GPU is the limit (docs/accuracy.md). Without a
# GPU it traces operating system calls. nvtx includes NCCL's ranges.
_PRESETS: Mapping[Preset, _Preset] = {
    "light": _Preset(trace=("cuda", "nvtx"), cpu_trace=("nvtx", "osrt")),
    "comm": _Preset(trace=("cuda", "nvtx", "mpi"), cpu_trace=("nvtx", "osrt", "mpi")),
    # An engine decodes by replays of a graph. Traced as a whole they say when they ran, and not
    # what they did, nor when a rank came to their all-reduces.
    "serve": _Preset(trace=("cuda", "nvtx"), cpu_trace=("nvtx", "osrt"), graph="node:host-only"),
    "full": _Preset(
        trace=("cuda", "nvtx", "osrt"),
        cpu_trace=("nvtx", "osrt"),
        stacks=True,
        memory=True,
        graph="node",
        gpu_metrics=True,
    ),
}
# Samples a second of each Python thread: a function with 1 % of 10 s gets 50 samples.
PYTHON_HZ = 500
