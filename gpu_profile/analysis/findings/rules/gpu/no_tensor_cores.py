"""Finding no_tensor_cores: matrix products in a format that the GPU's tensor cores do not take."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.findings.evidence.costly_kernels import judge_costly_kernels
from gpu_profile.analysis.findings.facts.kernel_names import (
    KernelTimes,
    list_longest,
    sum_kernels,
)
from gpu_profile.analysis.findings.finding import Judgement
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.replay.edits.kernels.tensor_cores import (
    LEAST_SPEED_UP,
    REACHED,
    find_ratio,
    is_depthwise,
    is_scalar,
    use_tensor_cores,
)
from gpu_profile.analysis.store.database import Database

SHOWN_SHARE = 0.01
"""The part of the step in depthwise convolutions that is told."""
ADVICE = (
    'Let fp32 matrix products use the tensor cores: torch.set_float32_matmul_precision("high") and '
    "torch.backends.cudnn.allow_tf32 = True (TF32), or torch.autocast with bfloat16. Products that "
    "are cast to fp32 (upcast_attention, .float()) can stay in 16 bits."
)


@dataclass(frozen=True, eq=False)
class ScalarProducts:
    """Matrix products of fp32 that run without tensor cores.

    `depthwise`: those of depthwise convolutions, which are not in `products`. `ratio`: as of
    find_ratio().
    """

    products: KernelTimes
    depthwise: KernelTimes
    ratio: float


def collect_scalar_products(activity: Activity, _: Database) -> ScalarProducts:
    """The fp32 matrix products of one rank."""
    products, depthwise = (sum_kernels(activity, each) for each in (is_scalar, is_depthwise))
    return ScalarProducts(products, depthwise, find_ratio(activity.gpu))


def judge_scalar_products(views: Sequence[View[ScalarProducts]]) -> Judgement:
    """Find ranks that spend time in fp32 products, on a GPU with faster units."""
    faster = [view for view in views if view.fact.ratio > LEAST_SPEED_UP]
    return judge_costly_kernels(
        "no_tensor_cores", "fp32", faster, _measure_ms, _list_evidence, ADVICE
    )


def _measure_ms(view: View[ScalarProducts]) -> float:
    return view.mean(view.fact.products.time) / 1e6


def _predict_gain(view: View[ScalarProducts]) -> float:
    """ms a step. A rank beside a slow one may have an unknown GPU, with a ratio of 0."""
    return _measure_ms(view) * (1 - 1 / max(view.fact.ratio, 1.0))


def _list_evidence(view: View[ScalarProducts]) -> tuple[str, ...]:
    fact = view.fact
    return (
        f"rank {view.rank}: {_measure_ms(view):.2f} of {view.step_ms:.2f} ms a step in fp32 matrix "
        f"products without tensor cores, most in {list_longest(fact.products.names)}",
        f"rank {view.rank}: tensor cores multiply TF32 up to {fact.ratio:.1f} times as fast; the "
        f"estimate takes {REACHED * fact.ratio:.1f} times, its range {LEAST_SPEED_UP:.0f} to "
        f"{fact.ratio:.1f} times",
        *_list_depthwise(view),
    )


def _list_depthwise(view: View[ScalarProducts]) -> Iterator[str]:
    ms = view.mean(view.fact.depthwise.time) / 1e6
    if ms >= SHOWN_SHARE * view.step_ms:
        yield (
            f"rank {view.rank}: {ms:.2f} ms a step in depthwise convolutions are not counted: "
            "tensor cores do not help them"
        )


RULE = FindingRule(
    kind="no_tensor_cores",
    title="No tensor cores",
    collect=collect_scalar_products,
    judge=judge_scalar_products,
    time_ms=lambda view, _: _predict_gain(view),
    rows=(
        FindingRow(
            causes=("fp32",),
            when=(
                "matrix products have kernels that are named as fp32 without tensor cores, on a "
                "GPU that multiplies TF32 more than twice as fast. The gain is an "
                "estimate, at 70 % of the ratio of peak rates. Its range: products become twice as "
                "fast, and as fast as that ratio; where a program in 16 bits casts operands and "
                "results, they are in 16 bits then, without casts. The estimate assumes that for "
                "the products of attention, which have a softmax between such casts. Depthwise "
                "convolutions are listed apart, and products with vectors do not count: they wait "
                "for memory"
            ),
        ),
    ),
    edit=lambda _finding: use_tensor_cores(),
)
