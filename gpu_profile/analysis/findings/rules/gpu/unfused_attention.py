"""Finding unfused_attention: a softmax between two products, where a fused kernel would do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE, Activity
from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.evidence.costly_kernels import judge_costly_kernels
from gpu_profile.analysis.findings.facts.kernel_names import list_longest, sum_by_name
from gpu_profile.analysis.findings.facts.windows import is_in_steady_part, list_windows
from gpu_profile.analysis.findings.finding import Judgement
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.replay.edits.kernels.attention_kernels import (
    NO_ATTENTION,
    find_attention,
    find_letter,
    may_be_attention,
)
from gpu_profile.analysis.replay.edits.kernels.fused_attention import (
    describe_reach,
    fuse_attention,
)
from gpu_profile.analysis.store.database import Database

ADVICE = (
    "Compute attention by a fused kernel, which keeps the scores on the chip: "
    "torch.nn.functional.scaled_dot_product_attention (is_causal, attn_mask, dropout_p, "
    'enable_gqa), attn_implementation="sdpa" in transformers, FlexAttention for other changes of '
    "the scores, jax.nn.dot_product_attention. A program that calls it already gets single kernels "
    "where no fused one takes its operands: give queries, keys and values one format of 16 bits."
)


@dataclass(frozen=True, eq=False)
class UnfusedAttention:
    """Kernels of attention in ns by window: its `products`, what works on its `scores`, and
    `copies` of its operands. `names`: ns of the last two in the steady part, by short name.
    """

    products: IntArray
    scores: IntArray
    copies: IntArray
    names: Mapping[str, int]


def collect_attention(activity: Activity, _: Database) -> UnfusedAttention:
    """The attention by single kernels of one rank."""
    ops, windows = activity.ops, list_windows(activity)
    kernels = np.flatnonzero(ops.kind == COMPUTE)
    codes = list_distinct(ops.full_name[kernels])
    letters = [find_letter(activity.names[code]) for code in codes]
    attention = NO_ATTENTION
    if may_be_attention(letters):
        name = np.searchsorted(codes, ops.full_name[kernels])
        columns = (ops.stream[kernels], ops.start[kernels], ops.length[kernels])
        attention = find_attention(letters, name, *columns).of(kernels)
    products = np.concatenate((attention.forward, attention.backward, attention.vector))
    multiplied, scores, copies = (
        windows.sum(ops.start[rows], ops.length[rows].astype(np.int64))
        for rows in (products, attention.scores, attention.copies)
    )
    spared = np.concatenate((attention.scores, attention.copies))
    steady = spared[is_in_steady_part(activity, ops.start[spared])]
    return UnfusedAttention(multiplied, scores, copies, sum_by_name(activity, steady))


def judge_attention(views: Sequence[View[UnfusedAttention]]) -> Judgement:
    """Find ranks that spend time on kernels of attention that a fused one spares."""
    return judge_costly_kernels(
        "unfused_attention", "scores", views, _measure_spared, _list_evidence, ADVICE
    )


def _measure_spared(view: View[UnfusedAttention]) -> float:
    """ms a step."""
    return view.mean(view.fact.scores + view.fact.copies) / 1e6


def _list_evidence(view: View[UnfusedAttention]) -> tuple[str, ...]:
    fact = view.fact
    scores, copies, products = (
        f"{view.mean(time) / 1e6:.2f}" for time in (fact.scores, fact.copies, fact.products)
    )
    return (
        f"rank {view.rank}: {scores} of {view.step_ms:.2f} ms a step in softmax, masks and other "
        f"work on attention scores in memory, {copies} in copies of operands and results, and "
        f"{products} in the products; most in {list_longest(fact.names)}",
        f"a fused kernel keeps the scores on the chip: of the estimate, {describe_reach()}",
    )


RULE = FindingRule(
    kind="unfused_attention",
    title="Unfused attention",
    collect=collect_attention,
    judge=judge_attention,
    time_ms=lambda view, _: _measure_spared(view),
    rows=(
        FindingRow(
            causes=("scores",),
            when=(
                "a matrix product, a softmax of its result and a product with that are kernels "
                "of their own, with those of a mask, a scale, dropout and casts between them. The "
                "softmax takes 10 us or more, each of the products 8 % to four times as long (ten "
                "times in fp32 without tensor cores): another one is not attention. Of products "
                "with vectors, as a new word alone has them, keys and values are copied before. A "
                "softmax by hand (max, exp, sum) counts in forward passes only. The gain is an "
                "estimate: without these kernels and copies, "
                f"{describe_reach()}"
            ),
        ),
    ),
    edit=lambda _finding: fuse_attention(),
)
