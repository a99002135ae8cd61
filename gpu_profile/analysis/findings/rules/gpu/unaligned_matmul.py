"""Finding unaligned_matmul: matrix products whose rows begin at addresses that load slowly."""

from collections.abc import Sequence

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
from gpu_profile.analysis.replay.edits.kernels.unaligned_products import (
    LEFT,
    align_products,
    find_left,
)
from gpu_profile.analysis.store.database import Database

ADVICE = (
    "Let the sides of matrices be multiples of 8 (16 bits) or 4 (TF32): a vocabulary of 50,304 "
    "words in place of 50,257, widths of layers, features and batches of attention filled with "
    "zeros."
)


def collect_unaligned_products(activity: Activity, _: Database) -> KernelTimes:
    """The unaligned matrix products of one rank."""
    return sum_kernels(activity, lambda name: find_left(name) < 1)


def judge_unaligned_products(views: Sequence[View[KernelTimes]]) -> Judgement:
    """Find ranks that spend time in such products."""
    return judge_costly_kernels(
        "unaligned_matmul", "rows", views, _measure_ms, _list_evidence, ADVICE
    )


def _list_evidence(view: View[KernelTimes]) -> tuple[str, ...]:
    line = (
        f"rank {view.rank}: {_measure_ms(view):.2f} of {view.step_ms:.2f} ms a step in matrix "
        f"products whose rows are no multiples of 16 bytes, most in {list_longest(view.fact.names)}"
    )
    return (line,)


def _measure_ms(view: View[KernelTimes]) -> float:
    return view.mean(view.fact.time) / 1e6


RULE = FindingRule(
    kind="unaligned_matmul",
    title="Unaligned matrix products",
    collect=collect_unaligned_products,
    judge=judge_unaligned_products,
    time_ms=lambda view, _: _measure_ms(view) * (1 - LEFT["1"]),
    rows=(
        FindingRow(
            causes=("rows",),
            when=(
                "matrix products of 16 bits or TF32 have kernels that load one or two elements at "
                "a time (`align1`, `align2`), as sides of matrices are no multiples of 8. The gain "
                "is an estimate: 18 % of the time is left where one element was loaded, 35 % where "
                "two were, 40 % of TF32, and 20 us of each. Its range: 1.5 times as much, and as "
                "little. Where cuDNN transposes images such products may be convolutions, and are "
                "not told"
            ),
        ),
    ),
    edit=lambda _finding: align_products(),
)
