"""The names of nsys' tables, and its packed ids.

Source: "SQLite Schema Reference" of the Nsight Systems user guide.
"""

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
SYNCHRONIZATION = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
CUDA_EVENT = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
NVTX = "NVTX_EVENTS"
OSRT = "OSRT_API"
MPI_TABLES = (
    "MPI_COLLECTIVES_EVENTS",
    "MPI_OTHER_EVENTS",
    "MPI_P2P_EVENTS",
    "MPI_START_WAIT_EVENTS",
)
OVERHEAD = "PROFILER_OVERHEAD"
CONTEXT = "TARGET_INFO_CUDA_CONTEXT_INFO"
GPU_TABLES = (KERNEL, MEMCPY, MEMSET, GRAPH)
EVENT_TABLES = (*GPU_TABLES, RUNTIME, SYNCHRONIZATION, NVTX, OSRT, *MPI_TABLES)

NVTX_PUSH_POP, NVTX_START_END, NVTX_MARK, NVTX_DOMAIN = 59, 60, 34, 75
MARKS_DOMAIN = "gpu-profile"
"""The NVTX domain of the ranges that `profile --annotate` makes."""

MISSING = int(np.iinfo(np.int64).min)  # the value of NULL and of an absent optional column


def subtract(minuend: IntArray, right: IntArray) -> IntArray:
    """minuend - right; MISSING where either is MISSING, as NULL - 5 is NULL in SQL."""
    difference = minuend - right
    if len(minuend) and MISSING in (minuend.min(), right.min()):
        difference[(minuend == MISSING) | (right == MISSING)] = MISSING
    return difference


def pid_of(global_id: IntArray) -> IntArray:
    """The process id in a globalTid or globalPid: hardware 8 bits, VM 8, PID 24, TID 24."""
    return (global_id >> 24) & 0xFFFFFF


def tid_of(global_tid: IntArray) -> IntArray:
    """The thread id in a globalTid."""
    return global_tid & 0xFFFFFF


def process_of(global_tid: IntArray) -> IntArray:
    """The globalPid of a globalTid: the same id with 0 as thread."""
    return global_tid & ~np.int64(0xFFFFFF)
