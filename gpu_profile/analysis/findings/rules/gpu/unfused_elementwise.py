"""Finding unfused_elementwise: chains of elementwise kernels, where one kernel would do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE, Activity
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.evidence.costly_kernels import judge_costly_kernels
from gpu_profile.analysis.findings.facts.kernel_names import list_longest, sum_by_name
from gpu_profile.analysis.findings.facts.windows import is_in_steady_part, list_windows
from gpu_profile.analysis.findings.finding import Judgement
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.replay.edits.kernels.elementwise_chains import (
    LEAST_MEMBERS,
    LEAST_NS,
    Chains,
    find_chains,
    join_chains,
)
from gpu_profile.analysis.replay.edits.kernels.elementwise_work import Work, find_work
from gpu_profile.analysis.replay.edits.kernels.fused_chains import ESTIMATE, fuse_chains
from gpu_profile.analysis.store.database import Database

PART = 1 << 16  # operations of which the columns are in memory at a time, if steps are shorter
ADVICE = (
    "Compute each chain by one kernel, which keeps what lies between in registers: a function of "
    "the framework that does all of it (torch.nn.functional.gelu, mish, rms_norm, an optimizer "
    "with fused=True), torch.compile of the function or module, jax.jit, "
    "cupy.fuse or cupy.ElementwiseKernel, a kernel in Triton."
)


@dataclass(frozen=True, eq=False)
class UnfusedElementwise:
    """Chains by window: their `count`, their `kernels`, the `time` (ns) of these and the part of it
    that one kernel for each chain is estimated to spare. `names`: ns in the steady part.
    """

    count: IntArray
    kernels: IntArray
    time: IntArray
    spared_ns: IntArray
    names: Mapping[str, int]


def collect_chains(activity: Activity, _: Database) -> UnfusedElementwise:
    """The chains of one rank."""
    ops, windows = activity.ops, list_windows(activity)
    codes = list_distinct(ops.full_name[ops.kind == COMPUTE])
    works = [find_work(activity.names[code]) for code in codes]
    parts = pairwise(_cut_at_steps(activity))
    chains = join_chains([_find_part(activity, codes, works, slice(*part)) for part in parts])
    rows = chains.rows
    begin, time = ops.start[rows], ops.length[rows].astype(np.int64)
    spared = np.rint((1 - chains.measure_left(ESTIMATE)) * time).astype(np.int64)
    return UnfusedElementwise(
        count=windows.count(begin[~chains.mark_later()]),
        kernels=windows.count(begin),
        time=windows.sum(begin, time),
        spared_ns=windows.sum(begin, spared),
        names=sum_by_name(activity, rows[is_in_steady_part(activity, begin)]),
    )


def _cut_at_steps(activity: Activity) -> list[int]:
    """Rows of operations at which steps begin, PART apart and more, from the first to after the
    last: no chain goes on in the next step, and all columns at once are 95 MB of a million kernels.
    """
    starts = activity.ops.start
    begins = np.searchsorted(starts, find_steps(activity).start)
    chosen = begins[np.diff(begins // PART, prepend=0) > 0]
    return [0, *chosen.tolist(), len(starts)]


def _find_part(
    activity: Activity, codes: Sequence[int], works: Sequence[Work | None], part: slice
) -> Chains:
    """The chains among a part of the operations."""
    ops = activity.ops
    kernels = part.start + np.flatnonzero(ops.kind[part] == COMPUTE)
    name = np.searchsorted(codes, ops.full_name[kernels])
    start, length = ops.start[kernels], ops.length[kernels]
    step = np.searchsorted(find_steps(activity).start, start, side="right")
    lane = ops.stream[kernels].astype(np.int64) * (1 + int(step.max(initial=0))) + step
    threads = ops.blocks[kernels].astype(np.int64) * ops.threads[kernels]
    return find_chains(works, name, lane, start, length, threads).of(kernels)


def judge_chains(views: Sequence[View[UnfusedElementwise]]) -> Judgement:
    """Find ranks that spend time on chains that one kernel each would spare."""
    return judge_costly_kernels(
        "unfused_elementwise", "chains", views, _measure_spared, _list_evidence, ADVICE
    )


def _measure_spared(view: View[UnfusedElementwise]) -> float:
    """ms a step."""
    return view.mean(view.fact.spared_ns) / 1e6


def _list_evidence(view: View[UnfusedElementwise]) -> tuple[str, ...]:
    fact = view.fact
    time, count, kernels = (view.mean(each) for each in (fact.time, fact.count, fact.kernels))
    return (
        f"rank {view.rank}: {time / 1e6:.2f} of {view.step_ms:.2f} ms a step in {kernels:.0f} "
        f"elementwise kernels that follow each other in {count:.0f} chains, each over whole "
        f"arrays; most in {list_longest(fact.names)}",
        "the gain is an estimate: one kernel reads each of a chain's inputs once and writes its "
        "results, but a recording does not tell which of them are the same array",
    )


RULE = FindingRule(
    kind="unfused_elementwise",
    title="Unfused elementwise kernels",
    collect=collect_chains,
    judge=judge_chains,
    time_ms=lambda view, _: _measure_spared(view),
    rows=(
        FindingRow(
            causes=("chains",),
            when=(
                f"{LEAST_MEMBERS} elementwise kernels of PyTorch, CuPy or JAX or more, each of "
                f"{LEAST_NS / 1e3:.0f} us or more, follow each other in a stream with about as "
                "many elements and no other kernel between but sums and concatenations. Three of "
                "them compute, as casts and copies alone are not a chain, nor is what XLA has "
                "fused. Each pass of a loop over "
                "tensors or time steps is a chain of its own, and one of three kernels or fewer is "
                "none. The gain is an estimate: a fused kernel reads and writes two arrays at the "
                "least, and at the most one for each operand that no kernel of the chain has "
                "written; the estimate is in the middle. Where one formula has half of the time of "
                "all chains, others of less than 3 % of the step are not in it"
            ),
        ),
    ),
    edit=lambda _finding: fuse_chains(),
)
