"""Make the options of `nsys profile` from a ProfileSpec and nsys' help text.

No other module makes nsys options.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpu_profile.errors import SettingsError
from gpu_profile.job import ProfileSpec
from gpu_profile.nsys.help import (
    Options,
    check_value,
    find_spelling,
    list_given_options,
    list_values,
    parse_options,
)
from gpu_profile.nsys.presets import _PRESETS, PYTHON_HZ, _Preset

_STEPS_RANGE = "capture@gpu-profile"
"""The range and domain of Container-Root/agent/annotate that surround the steps to record."""
_NODES, _FLUSH = "node:host-only", "flush-on-cudaprofilerstop"
# The kind of events that a value of --trace records, for the check of reports.
_PYTHON_STACKS = {"python-sampling": "true", "python-sampling-frequency": f"{PYTHON_HZ}"}
_KINDS: Mapping[str, str] = {
    "cuda": "cuda",
    "cuda-sw": "cuda",
    "cuda-hw": "cuda",
    "nvtx": "nvtx",
    "osrt": "osrt",
    "mpi": "mpi",
}


def profile_options(
    spec: ProfileSpec, help_text: str, *, gpus: bool = True, nodes: bool = False
) -> tuple[str, ...]:
    """Return the options of `nsys profile` for every rank; the user's nsys_args come last.

    profile.py adds `--output` and the command. `gpus`: the job uses GPUs. `nodes`: the kernels of
    CUDA graphs are recorded one by one, unless the user says how. Raises SettingsError for options
    that this nsys lacks, with those it has.
    """
    return _collect_options(spec, parse_options(help_text), gpus=gpus, nodes=nodes)


def first_options(
    spec: ProfileSpec, help_text: str, *, gpus: bool = True, efa: bool = False
) -> tuple[str, ...]:
    """Return the options for local rank 0 only: GPU metrics and NIC counters.

    A GPU has one collector of metrics, and NIC counters belong to the node. An option that the
    user named and nsys lacks raises SettingsError; one of the preset is left out. No preset
    collects NIC counters, because nothing here reads them (nsys' GUI does).
    """
    has = parse_options(help_text)
    preset = _PRESETS[spec.preset]
    words: list[str] = []
    if (preset.gpu_metrics and gpus) if spec.gpu_metrics is None else spec.gpu_metrics:
        name = find_spelling(
            has, "gpu-metrics-devices", "gpu-metrics-device", must=spec.gpu_metrics
        )
        words += [f"--{name}=all"] if name else []
    if spec.nic_metrics:
        name = find_spelling(has, "nic-metrics", must=spec.nic_metrics)
        value = "lf" if re.search(r"\blf\b", has.get("nic-metrics", "")) else "true"
        words += [f"--{name}={value}"] if name else []
        words += ["--enable=efa_metrics"] if efa and "enable" in has else []
    given_names = list_given_options(has, spec.nsys_args)
    return tuple(word for word in words if _split_option(word)[0] not in given_names)


def sample_window(spec: ProfileSpec, *, gpus: bool) -> ProfileSpec:
    """Return `spec` with a window for our samples, which call cudaProfilerStart and Stop.

    Other programs may not call them, and a window that never starts records nothing: so no preset
    has a window.
    """
    has_window = spec.capture_range or spec.delay_s is not None or spec.duration_s is not None
    return spec if has_window or not gpus else replace(spec, capture_range="cudaProfilerApi")


def step_window(spec: ProfileSpec, *, gpus: bool) -> ProfileSpec:
    """Return `spec` with the window that the marks of --steps start and stop.

    Without CUDA there is no cudaProfilerStart: a range of ours starts nsys.
    """
    return replace(spec, capture_range="cudaProfilerApi" if gpus else "nvtx")


def endpoint_windows(spec: ProfileSpec) -> ProfileSpec:
    """Return `spec` with a window for each cudaProfilerStart and Stop of a server."""
    return replace(spec, capture_range="cudaProfilerApi", capture_range_end="repeat")


def needs_privileges(options: Sequence[str]) -> bool:
    """Return whether a container needs SYS_ADMIN: for CPU sampling, context switches, counters.

    Tracing CUDA, NVTX, OSRT, NCCL and MPI needs no privilege.
    """
    names = ("sample", "cpuctxsw", "gpu-metrics-device", "gpu-metrics-devices")
    chosen = dict(_split_option(option) for option in options)
    return any(
        chosen.get(name, "none") not in {"none", "false", ""}
        for name in (*names, "event-sample", "ftrace", "gpuctxsw")
    )


def expected_kinds(spec: ProfileSpec, options: Sequence[str], *, gpus: bool) -> frozenset[str]:
    """Return the kinds of events (`cuda`, `nvtx`, `osrt`, `mpi`) that a report must hold.

    These are all kinds that the user named; otherwise those that every program has: CUDA with
    GPUs, operating system calls without. CUDA is never expected without a GPU.
    """
    traced = dict(_split_option(option) for option in options).get("trace", "").split(",")
    kinds = {_KINDS[value] for value in traced if value in _KINDS}
    if not gpus:
        kinds.discard("cuda")
    sure = kinds if spec.trace else kinds & ({"cuda"} if gpus else {"osrt"})
    return frozenset(sure)


def _split_option(option: str) -> tuple[str, str]:
    name, _, value = option.lstrip("-").partition("=")
    return name, value


def _collect_options(
    spec: ProfileSpec, has: Options, *, gpus: bool, nodes: bool
) -> tuple[str, ...]:
    if spec.annotate == "ops" and "pytorch" not in has:
        raise SettingsError(
            "--annotate ops is not available: this nsys has no --pytorch, which records shapes",
            "Use --annotate modules, or a newer nsys",
        )
    given_names = list_given_options(has, spec.nsys_args)
    by_preset = _choose_preset_options(spec, has, gpus=gpus, nodes=nodes)
    value_by_option = {**by_preset, **_check_options(spec, has)}
    if not given_names & {"nvtx-domain-include", "nvtx-domain-exclude"}:
        value_by_option |= _exclude_xla_ranges(value_by_option, has)
    if given_names & {"output", "o", "force-overwrite", "f"}:
        raise SettingsError(
            "reports are named by rank and host", "Leave --output and --force-overwrite out"
        )
    # nsys refuses an option that is given twice, so nsys_args replace ours.
    ours = (
        f"--{name}={value}" for name, value in value_by_option.items() if name not in given_names
    )
    return (*ours, *spec.nsys_args)


def _choose_preset_options(
    spec: ProfileSpec, has: Options, *, gpus: bool, nodes: bool
) -> dict[str, str]:
    """Return the preset's options, as far as this nsys has them."""
    preset = _PRESETS[spec.preset]
    is_quiet = _is_armed_quietly(spec, preset)
    graph = _NODES if is_quiet or (nodes and preset.graph.startswith("graph")) else preset.graph
    options = {
        "trace": _select_trace(spec, has, preset.trace if gpus else preset.cpu_trace),
        "sample": "process-tree" if preset.stacks else "none",
        # nsys' default traces context switches, which need privileges. Nothing here reads them.
        "cpuctxsw": "none",
        # Tracing CUDA events adds dependencies between streams and costs time for each record.
        "cuda-event-trace": "false",
        "cuda-graph-trace": _select_granularity(graph, has),
        # rank_recording.py takes the other callbacks away where it sees this one.
        **({_FLUSH: "false"} if is_quiet else {}),
        # nsys 2023.4.4 records nothing of workers that were forked before the window otherwise.
        **({"trace-fork-before-exec": "true"} if spec.record != "start" else {}),
        # Without it, reports hold the whole environment with its secrets.
        "discard-environment": "true",
        "wait": "primary",
        **(_PYTHON_STACKS if preset.stacks else {}),
        **({"cuda-memory-usage": "true"} if preset.memory else {}),
    }
    cuda_only = {"cuda-event-trace", "cuda-graph-trace", "cuda-memory-usage", _FLUSH}
    return {k: v for k, v in options.items() if k in has and (gpus or k not in cuda_only)}


def _select_trace(spec: ProfileSpec, has: Options, names: Sequence[str]) -> str:
    listed = list_values(has, "trace")
    trace = [value for value in names if value in listed]
    if (_has_window(spec) or spec.record == "manual") and "cuda-sw" in listed:
        # On Blackwell `cuda` means hardware tracing, which can lose the kernels of a window.
        trace = ["cuda-sw" if value == "cuda" else value for value in trace]
    return ",".join(trace)


def _select_granularity(graph: str, has: Options) -> str:
    """Return --cuda-graph-trace, without launches by device code if nsys can skip them.

    Tracing those is slow.
    """
    return graph if "host-only" in has.get("cuda-graph-trace", "") else graph.partition(":")[0]


def _is_armed_quietly(spec: ProfileSpec, preset: _Preset) -> bool:
    """Return whether nsys is to be called back by no call of an armed program.

    That leaves out where a graph was captured, which `serve` reads. A host-bound program then took
    1.012 times its step (1.007 to 1.017) on an H200, and else 1.033: docs/existing-jobs.md.
    """
    is_by_preset = not spec.cuda_graph_trace and preset.graph.startswith("graph")
    return spec.record == "manual" and is_by_preset


def _has_window(spec: ProfileSpec) -> bool:
    return bool(spec.capture_range or spec.duration_s is not None)


def _check_options(spec: ProfileSpec, has: Options) -> dict[str, str]:
    """Return the options that the user named, checked against this nsys."""
    if spec.nvtx_domain_include and spec.nvtx_domain_exclude:
        raise SettingsError("NVTX domains are both included and excluded", "Give one of the two")
    value_by_option = {
        "trace": check_value(has, "trace", spec.trace),
        "sample": check_value(has, "sample", spec.sample),
        "capture-range": check_value(has, "capture-range", spec.capture_range),
        # nsys' default kills the job at the end of the range.
        "capture-range-end": spec.capture_range_end or ("stop" if spec.capture_range else ""),
        "delay": _format_seconds(spec.delay_s),
        "duration": _format_seconds(spec.duration_s),
        # nsys' default kills the job at the end of the recording.
        "kill": "none" if _has_window(spec) and "shutdown" not in spec.capture_range_end else "",
        "nvtx-domain-include": spec.nvtx_domain_include,
        "nvtx-domain-exclude": spec.nvtx_domain_exclude,
        "cuda-graph-trace": spec.cuda_graph_trace,
        "nvtx-capture": _STEPS_RANGE if spec.steps and spec.capture_range == "nvtx" else "",
        "pytorch": "autograd-shapes-nvtx" if spec.annotate == "ops" else "",
        "export": check_value(has, "export", spec.export),
        "stats": "true" if spec.stats else "",
        **_list_function_options(spec, has),
    }
    return {
        find_spelling(has, name, must=True): value
        for name, value in value_by_option.items()
        if value
    }


def _exclude_xla_ranges(value_by_option: Mapping[str, str], has: Options) -> dict[str, str]:
    """Return --nvtx-domain-exclude where XLA's ranges would cost a report its CUDA events.

    nsys 2025.3.1 fails on XLA's registered names ("Cannot find string for an exterior index") where
    graphs are traced as a whole, and leaves out all CUDA events after the first cuGraphLaunch: a
    loop in JAX had 0 of 49 graphs, and all 49 without the ranges. With `node` no event is missing.
    XLA's domain: https://github.com/openxla/xla/blob/main/xla/tsl/profiler/lib/nvtx_utils.cc
    """
    domains = {"nvtx-domain-include", "nvtx-domain-exclude"}
    is_whole = value_by_option.get("cuda-graph-trace", "").startswith("graph")
    has_ranges = "nvtx" in value_by_option.get("trace", "").split(",")
    if not is_whole or not has_ranges or domains & set(value_by_option):
        return {}
    return {"nvtx-domain-exclude": "TSL"} if "nvtx-domain-exclude" in has else {}


def _format_seconds(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _list_function_options(spec: ProfileSpec, has: Options) -> dict[str, str]:
    if spec.python_functions_trace is None:
        return {}
    name = find_spelling(has, "python-functions-trace", "python-nvtx-annotations", must=True)
    return {name: str(spec.python_functions_trace)}
