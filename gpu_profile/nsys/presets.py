"""What light, comm and full ask nsys for: nothing that no table, page or finding uses."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_profile.job import Preset
from gpu_profile.nsys.help import TYPICAL_HELP as TYPICAL_HELP


@dataclass(frozen=True, kw_only=True)
class _Preset:
    """What a preset asks for. `trace` goes with a GPU, `cpu_trace` where there is none.

    `stacks`: samples of C and C++ (`--sample`) and of Python. `memory`: allocations on GPUs.
    """

    trace: tuple[str, ...]
    cpu_trace: tuple[str, ...]
    stacks: bool = False
    memory: bool = False
    graph: str = "graph:host-only"
    gpu_metrics: bool = False


# light needs no privilege and costs some 2 % while the GPU is the limit (docs/host.md). Where there
# is no GPU, CUDA is silent: the operating system's calls are what there is to see. NCCL's ranges
# come with nvtx.
_PRESETS: Mapping[Preset, _Preset] = {
    "light": _Preset(trace=("cuda", "nvtx"), cpu_trace=("nvtx", "osrt")),
    "comm": _Preset(trace=("cuda", "nvtx", "mpi"), cpu_trace=("nvtx", "osrt", "mpi")),
    "full": _Preset(
        trace=("cuda", "nvtx", "osrt"),
        cpu_trace=("nvtx", "osrt"),
        stacks=True,
        memory=True,
        graph="node",
        gpu_metrics=True,
    ),
}
# Samples a second of each Python thread: a function that takes 1 % of 10 s has 50.
PYTHON_HZ = 500
