"""Finding tiny_kernels: kernels that cost the host more time than the GPU."""

from collections.abc import Sequence

import numpy as np

from gpu_profile.analysis.findings.finding import FindingRow, FindingRule, Judgement, View
from gpu_profile.analysis.findings.idle_time import make_idle_finding, note_missing_steps
from gpu_profile.analysis.findings.rank_facts import TINY_NS

# An ordinary layer launches some tens of small kernels, and a step some hundreds.
TINY_PER_STEP, TINY_PART, TINY_SHARE = 500, 0.6, 0.10
TINY_ADVICE = (
    "Fuse them: torch.compile, fused or foreach optimizers, CUDA graphs, batched operations "
    "in place of loops over tensors."
)


def judge_tiny_kernels(views: Sequence[View]) -> Judgement:
    """Find many kernels that cost the host more time than the GPU, with idle gaps before them."""
    tiny_views = [view for view in views if _tiny_share(view) >= TINY_SHARE and _is_many(view)]
    if not tiny_views:
        return Judgement()
    gain = float(np.mean([view.mean(view.facts.tiny_idle) for view in tiny_views])) / 1e6
    evidence = (*_tiny_evidence(tiny_views), *note_missing_steps(tiny_views))
    return Judgement(
        (make_idle_finding("tiny_kernels", "launch", tiny_views, gain, evidence, TINY_ADVICE),)
    )


def _tiny_share(view: View) -> float:
    return view.mean(view.facts.tiny_idle) / 1e6 / view.step_ms if view.step_ms else 0.0


def _is_many(view: View) -> bool:
    tiny, kernels = view.mean(view.facts.tiny), view.mean(view.facts.kernel_count)
    return tiny >= TINY_PER_STEP and tiny >= TINY_PART * kernels


def _tiny_evidence(views: Sequence[View]) -> tuple[str, ...]:
    worst = max(views, key=_tiny_share)
    tiny, kernels = worst.mean(worst.facts.tiny), worst.mean(worst.facts.kernel_count)
    modules = worst.facts.tiny_modules
    name = max(modules, key=lambda key: (modules[key], key), default="")
    total = max(int(worst.facts.tiny[0]), 1)
    share = 100 * modules.get(name, 0) / total
    return (
        f"rank {worst.rank}: {tiny:.0f} of {kernels:.0f} kernels a step take under "
        f"{TINY_NS / 1e3:.0f} us, and for {100 * _tiny_share(worst):.0f} % of the step the GPU "
        "waits for the next of them",
        *([f"rank {worst.rank}: {share:.0f} % of them in {name}"] if name else []),
    )


RULE = FindingRule(
    kind="tiny_kernels",
    title="Tiny kernels",
    judge=judge_tiny_kernels,
    rows=(
        FindingRow(
            causes=("launch",),
            when=(
                "500 kernels a step and more take under 5 us, they are 60 % of all kernels, and "
                "the GPU waits 10 % of the step for the next of them"
            ),
        ),
    ),
    holds_tracing_cost=True,
    needs_all_kernels=True,
)
