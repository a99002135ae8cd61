"""What light, comm and full ask nsys for."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_profile.job import Preset
from gpu_profile.nsys.help import TYPICAL_HELP as TYPICAL_HELP


@dataclass(frozen=True, kw_only=True)
class _Preset:
    """What a preset asks for. `trace` goes with a GPU, `cpu_trace` where there is none."""

    trace: tuple[str, ...]
    cpu_trace: tuple[str, ...]
    sample: str = "none"
    graph: str = "graph:host-only"
    gpu_metrics: bool = False
    nic_metrics: bool = False


# light needs no privilege and costs some 2 % while the GPU is the limit (docs/host.md). Where there
# is no GPU, CUDA is silent: the operating system's calls are what there is to see.
_PRESETS: Mapping[Preset, _Preset] = {
    "light": _Preset(trace=("cuda", "nvtx"), cpu_trace=("nvtx", "osrt")),
    "comm": _Preset(
        trace=("cuda", "nvtx", "nccl", "mpi", "ucx"),
        cpu_trace=("nvtx", "osrt", "mpi", "ucx"),
        nic_metrics=True,
    ),
    "full": _Preset(
        trace=("cuda", "nvtx", "osrt", "cublas", "cudnn", "nccl"),
        cpu_trace=("nvtx", "osrt"),
        sample="process-tree",
        graph="node",
        gpu_metrics=True,
        nic_metrics=True,
    ),
}
