"""Finding no_tensor_cores: matrix products in a format that the GPU's tensor cores do not take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE, Activity
from gpu_profile.analysis.arrays.columns import is_among, list_distinct
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.facts.windows import list_windows
from gpu_profile.analysis.findings.finding import Finding, Judgement
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.modules.peaks import FP32, TF32, find_format, find_peaks
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.kernel_class import classify_kernel
from gpu_profile.function_names import split_name

LEAST_SHARE = 0.1
"""Of the step, in these kernels."""
REACHED = 0.7
"""Of the ratio of peak rates. On an H100, whose peaks differ 7.4 times, the matrix products of a
GPT took 26.6 ms a step in fp32 and 5.1 ms in TF32: 5.2 times."""
LEAST_SPEED_UP = 2.0
"""Of products that are too small to keep the tensor cores busy, or wait for memory."""
MOST_NAMES = 3
ADVICE = (
    'Let fp32 matrix products use the tensor cores: torch.set_float32_matmul_precision("high") and '
    "torch.backends.cudnn.allow_tf32 = True (TF32), or torch.autocast with bfloat16."
)


@dataclass(frozen=True, eq=False)
class ScalarProducts:
    """Matrix products of fp32 that run without tensor cores.

    `time`: ns by window. `names`: ns in the steady part by short name. `ratio`: of the GPU's peak
    rates, TF32 over fp32; 0 where the GPU is unknown or has no such units.
    """

    time: IntArray
    names: Mapping[str, int]
    ratio: float


def collect_scalar_products(activity: Activity, _: Database) -> ScalarProducts:
    """The fp32 matrix products of one rank."""
    ops, windows = activity.ops, list_windows(activity)
    kernels = np.flatnonzero(ops.kind == COMPUTE)
    codes = [
        code for code in list_distinct(ops.full_name[kernels]) if is_scalar(activity.names[code])
    ]
    rows = kernels[is_among(ops.full_name[kernels], codes)]
    names = {
        _shorten(activity.names[code]): int(ops.duration[rows[ops.full_name[rows] == code]].sum())
        for code in codes
    }
    peaks = find_peaks(activity.gpu)
    ratio = peaks[TF32] / peaks[FP32] if TF32 in peaks else 0.0
    return ScalarProducts(windows.sum(ops.start[rows], ops.duration[rows]), names, ratio)


def is_scalar(name: str) -> bool:
    """Whether a kernel multiplies matrices in fp32 without tensor cores, by its full name.

    Depthwise convolutions have classes and names of their own: no tensor core helps them, as each
    of their channels is a product of its own (`conv2d_c1_k1_nhwc`, `conv_depthwise2d_forward`).
    """
    if "c1_k1" in name or "depthwise" in name.lower() or "grouped_direct" in name:
        return False
    return classify_kernel(name) == "GEMM" and find_format(name) == FP32


def _shorten(name: str) -> str:
    function, _ = split_name(name)
    return function or name


def judge_scalar_products(views: Sequence[View[ScalarProducts]]) -> Judgement:
    """Find ranks that spend a tenth of the step in fp32 products, on a GPU with faster units."""
    slow = [
        view
        for view in views
        if view.fact.ratio > LEAST_SPEED_UP and _ms(view) >= LEAST_SHARE * view.step_ms
    ]
    if not slow:
        return Judgement()
    gain = float(np.mean([_gain(view, REACHED * view.fact.ratio) for view in slow]))
    ranks = tuple(sorted({view.rank for view in slow}))
    worst = max(slow, key=_ms)
    return Judgement(
        (Finding("no_tensor_cores", ranks, "fp32", gain, _list_evidence(worst), ADVICE),)
    )


def _ms(view: View[ScalarProducts]) -> float:
    return view.mean(view.fact.time) / 1e6


def _gain(view: View[ScalarProducts], speed_up: float) -> float:
    return _ms(view) * (1 - 1 / speed_up)


def _list_evidence(view: View[ScalarProducts]) -> tuple[str, ...]:
    fact = view.fact
    low, high = (_gain(view, speed_up) for speed_up in (LEAST_SPEED_UP, fact.ratio))
    names = sorted(fact.names, key=lambda name: (-fact.names[name], name))[:MOST_NAMES]
    return (
        f"rank {view.rank}: {_ms(view):.2f} of {view.step_ms:.2f} ms a step in fp32 matrix "
        f"products without tensor cores, most in {', '.join(names)}",
        f"rank {view.rank}: tensor cores multiply TF32 up to {fact.ratio:.1f} times as fast; "
        f"{low:.2f} ms a step if the products become {LEAST_SPEED_UP:.0f} times as fast, "
        f"{high:.2f} ms at the peak",
    )


RULE = FindingRule(
    kind="no_tensor_cores",
    title="No tensor cores",
    collect=collect_scalar_products,
    judge=judge_scalar_products,
    rows=(
        FindingRow(
            causes=("fp32",),
            when=(
                "matrix products whose kernels are named as fp32 without tensor cores take 10 % of "
                "the step, on a GPU that multiplies TF32 more than twice as fast. The gain assumes "
                "70 % of the ratio of peak rates; the evidence has the range. Depthwise "
                "convolutions do not count"
            ),
        ),
    ),
)
