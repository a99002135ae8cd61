"""What a recording may lack at its edges, and whether it began with the program."""

import re

import numpy as np

from gpu_profile.analysis.activity.activity import Activity

# How many launches a host can be ahead of its GPU: CUDA's launch queue holds so many. NVIDIA does
# not document it; others counted "about 1000" a stream:
# https://forums.developer.nvidia.com/t/cuda-stream-are-blocked-when-luanch-lots-of-kernels-1000/68937
QUEUE_DEPTH = 1024
# A rank may lack 10 % of the steps in a recording of the whole program, and 40 % in a window.
WHOLE_EDGE, WINDOW_EDGE = 0.1, 0.4
# Calls of a program's start. Threads set their device, and kernels of a loaded library are looked
# up, in any window. CUDA's runtime asks for the loading mode when it starts: in each of 48
# recordings of whole programs (torch 2.11, JAX 0.11), and in none of 16 of windows. A plain loop
# may only copy its model before its first step, which then loads the libraries.
_BEGINS = re.compile(
    r"cuInit$|cuCtxCreate|cuDevicePrimaryCtxRetain|cudaInitDevice|cuModuleGetLoadingMode$"
    r"|cu(da)?LibraryLoad|cuModuleLoad(Data|FatBinary|_|$)|__cudaRegisterFatBinary"
)


def allowed_edge(steps: int) -> float:
    """How many of so many steps a recording of the whole program may lack."""
    return max(1, WHOLE_EDGE * steps)


def starts_program(activity: Activity, before: int) -> bool:
    """Whether the rank's recording holds calls of the program's start before this time (ns)."""
    calls = activity.calls
    early = calls.start < before
    return bool(np.any(calls.match_names(activity.names, _BEGINS) & early))
