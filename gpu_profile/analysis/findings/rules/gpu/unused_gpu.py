"""Finding unused_gpu: long kernels of few blocks, or by hardware metrics no tensor cores in GEMMs
and kernels with few SMs.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE, Activity
from gpu_profile.analysis.activity.start_up import steady_window
from gpu_profile.analysis.arrays.columns import is_among, list_distinct
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.counters import gpu_metrics as metrics
from gpu_profile.analysis.findings.evidence.small_grids import (
    FEW_BLOCKS,
    GridFacts,
    judge_small_grids,
    list_gains,
    measure_gain,
    measure_small_grids,
)
from gpu_profile.analysis.findings.finding import Finding, Judgement
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.replay.changes import Change
from gpu_profile.analysis.replay.edits.causes import SMALL_GRIDS
from gpu_profile.analysis.store.cells import integer
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.records import read_records
from gpu_profile.analysis.store.schema import pid_of
from gpu_profile.analysis.tables.kernel_class import classify_kernel

# GEMMs on tensor cores keep them 20 to 90 % active; fp32 GEMMs show 0 %.
TENSOR_PERCENT, GEMM_SHARE = 2.0, 0.2
# Kernels with enough thread blocks keep nearly all SMs active.
SM_PERCENT, COMPUTE_SHARE = 40.0, 0.3
FEWEST_SAMPLES = 20
NAMES = {
    "SMs active": metrics.SM_ACTIVE,
    "tensor cores": metrics.TENSOR,
    "SM occupancy": metrics.OCCUPANCY,
    "memory reads": metrics.DRAM_READ,
    "memory writes": metrics.DRAM_WRITE,
}
TENSOR_ADVICE = (
    "Let matrix multiplications use the tensor cores: torch.autocast with bfloat16, or TF32 by "
    'torch.set_float32_matmul_precision("high"); sizes that are multiples of 8.'
)
SM_ADVICE = (
    "Give each kernel more work: a larger batch, fewer and larger tensors, torch.compile; "
    "or run independent kernels on several streams."
)


@dataclass(frozen=True)
class GpuUse:
    """Means in percent, by the keys of NAMES, while kernels (`compute`) or GEMMs (`gemm`) run.

    `gemm_share` is the part of the steady time in which GEMMs run.
    """

    compute: Mapping[str, float]
    gemm: Mapping[str, float]
    gemm_share: float = 0.0

    def line(self) -> str:
        """E.g. "while kernels run: SMs active 85 %, tensor cores 12 %"; "" without samples."""
        parts = [f"{name} {value:.0f} %" for name, value in self.compute.items()]
        return f"while kernels run: {', '.join(parts)}" if parts else ""


NO_USE = GpuUse({}, {})


@dataclass(frozen=True, eq=False)
class GpuFacts(GridFacts):
    """What kernels use of one rank's GPU, by its metrics and by their blocks."""

    use: GpuUse


def collect_gpu_facts(activity: Activity, database: Database) -> GpuFacts:
    """The facts of one rank."""
    return GpuFacts(measure_small_grids(activity, database), measure_gpu_use(activity, database))


def measure_gpu_use(activity: Activity, database: Database) -> GpuUse:
    """The use of one rank's GPU; NO_USE if it was not sampled in this report."""
    gpu_metrics = metrics.load_metrics(database)
    gpu = _number(activity, database)
    chosen = {name: metrics.metric_of(gpu_metrics, gpu, pattern) for name, pattern in NAMES.items()}
    sampled = {name: metric for name, metric in chosen.items() if metric}
    if not sampled:
        return NO_USE
    first, last = steady_window(activity)
    span = Intervals(np.array([first]), np.array([last]))
    compute, gemm = (
        part.meet(span) for part in (activity.ops.union(COMPUTE), _find_gemms(activity))
    )
    means = [
        {
            name: mean
            for name, metric in sampled.items()
            if (mean := _mean(metric, part)) is not None
        }
        for part in (compute, gemm)
    ]
    return GpuUse(means[0], means[1], gemm.total / max(1, last - first))


def _number(activity: Activity, database: Database) -> int:
    """The GPU's number on its host, from the process's CUDA device number."""
    columns = integer("pid"), integer("cudaId"), integer("gpuId")
    rows = read_records(database, "TARGET_INFO_CUDA_DEVICE", *columns)
    numbers = {(pid, cuda): gpu for pid, cuda, gpu in rows}
    pid = int(pid_of(np.array(activity.process)))
    # Under CUDA_VISIBLE_DEVICES device 0 of a process is any GPU of its host.
    return numbers.get((pid, activity.device), activity.device)


def _find_gemms(activity: Activity) -> Intervals:
    ops = activity.ops
    is_compute = ops.kind == COMPUTE
    codes = [key for key in list_distinct(ops.name[is_compute]) if _is_gemm(activity.names[key])]
    rows = is_compute & is_among(ops.name, codes)
    return Intervals.union(ops.start[rows], ops.end[rows])


def _is_gemm(name: str) -> bool:
    """Whether the kernel is a GEMM. CUTLASS kernels have the short name `Kernel` or `Kernel2` in
    nsys.
    """
    return classify_kernel(name) == "GEMM" or bool(re.fullmatch(r"Kernel2?", name))


def _mean(metric: metrics.Metric, part: Intervals) -> float | None:
    """The mean of the samples inside the intervals; None with fewer than FEWEST_SAMPLES."""
    if not len(part.start):
        return None
    place = np.searchsorted(part.start, metric.time, side="right") - 1
    inside = (place >= 0) & (metric.time < part.end[np.maximum(place, 0)])
    values = metric.value[inside]
    return float(np.mean(values)) if len(values) >= FEWEST_SAMPLES else None


def judge_unused_gpu(views: Sequence[View[GpuFacts]]) -> Judgement:
    """Judge the blocks of kernels, and the hardware metrics where they were sampled."""
    tensor = [view for view in views if _lacks_tensor_cores(view)]
    small = [view for view in views if _uses_few_sms(view)]
    causes = (("tensor_cores", tensor), ("few_sms", small))
    by_metrics = (_make_finding(cause, ranks) for cause, ranks in causes if ranks)
    return Judgement((*judge_small_grids(views), *by_metrics))


def _lacks_tensor_cores(view: View[GpuFacts]) -> bool:
    use = view.fact.use
    active = use.gemm.get("tensor cores")
    return active is not None and active < TENSOR_PERCENT and use.gemm_share >= GEMM_SHARE


def _uses_few_sms(view: View[GpuFacts]) -> bool:
    active = view.fact.use.compute.get("SMs active")
    return active is not None and active < SM_PERCENT and view.share("compute") >= COMPUTE_SHARE


def _make_finding(cause: str, views: Sequence[View[GpuFacts]]) -> Finding:
    """A finding without a cost: the recording does not show how much faster kernels could be."""
    ranks = tuple(sorted({view.rank for view in views}))
    evidence = []
    for view in views[:4]:
        use = view.fact.use
        if cause == "tensor_cores":
            evidence.append(
                f"rank {view.rank}: matrix multiplications are {100 * use.gemm_share:.0f} % of the "
                f"time, the tensor cores active {use.gemm['tensor cores']:.1f} % of theirs"
            )
        evidence.append(f"rank {view.rank}: {use.line()}")
    advice = TENSOR_ADVICE if cause == "tensor_cores" else SM_ADVICE
    return Finding("unused_gpu", ranks, cause, tuple(evidence), advice)


def _edit(finding: Finding) -> Change | None:
    return SMALL_GRIDS if finding.cause == FEW_BLOCKS else None


RULE = FindingRule(
    kind="unused_gpu",
    title="Unused GPU",
    collect=collect_gpu_facts,
    judge=judge_unused_gpu,
    time_ms=lambda view, cause: measure_gain(view) if cause == FEW_BLOCKS else None,
    edit=_edit,
    excess=list_gains,
    rows=(
        FindingRow(
            causes=(FEW_BLOCKS,),
            when=(
                "kernels over 20 us have blocks for a quarter of the GPU's multiprocessors or "
                "fewer, and those of other streams leave the others idle. The gain is an estimate: "
                "with four times as many multiprocessors, a kernel of 512 threads a block becomes "
                "twice as fast, one of 256 four times, one of fewer up to six times. Its range: a "
                "fifth of that ratio, but not over twice as fast, and 3.5 times the ratio"
            ),
        ),
        FindingRow(
            causes=("tensor_cores",),
            when=(
                "matrix multiplications take a fifth of the time, and the tensor cores are under "
                "2 % active in it. Needs GPU metrics (`--gpu-metrics`, or `--preset full`)"
            ),
        ),
        FindingRow(
            causes=("few_sms",),
            when=(
                "kernels run for 30 % of the step, and keep under 40 % of the SMs active. Needs "
                "GPU metrics too"
            ),
        ),
    ),
)
