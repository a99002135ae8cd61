"""Findings by hardware metrics: GEMMs without tensor cores, kernels too small for the GPU."""

from collections.abc import Sequence

from gpu_profile.analysis.counters.gpu_use import (
    COMPUTE_SHARE,
    GEMM_SHARE,
    SM_PERCENT,
    TENSOR_PERCENT,
)
from gpu_profile.analysis.findings.finding import (
    Finding,
    FindingRow,
    FindingRule,
    Judgement,
    View,
)

TENSOR_ADVICE = (
    "Let matrix multiplications use the tensor cores: torch.autocast with bfloat16, or TF32 by "
    'torch.set_float32_matmul_precision("high"); sizes that are multiples of 8.'
)
SM_ADVICE = (
    "Give each kernel more work: a larger batch, fewer and larger tensors, torch.compile; "
    "or run independent kernels on several streams."
)


def judge_unused_gpu(views: Sequence[View]) -> Judgement:
    """Judge the sampled hardware metrics; no findings without --gpu-metrics-devices."""
    tensor = [view for view in views if _gemms_without_tensor_cores(view)]
    small = [view for view in views if _few_sms(view)]
    causes = (("tensor_cores", tensor), ("few_sms", small))
    return Judgement(tuple(_finding(cause, ranks) for cause, ranks in causes if ranks))


def _gemms_without_tensor_cores(view: View) -> bool:
    use = view.facts.gpu_use
    active = use.gemm.get("tensor cores")
    return active is not None and active < TENSOR_PERCENT and use.gemm_share >= GEMM_SHARE


def _few_sms(view: View) -> bool:
    active = view.facts.gpu_use.compute.get("SMs active")
    return active is not None and active < SM_PERCENT and view.share("compute") >= COMPUTE_SHARE


def _finding(cause: str, views: Sequence[View]) -> Finding:
    """A finding without a gain, because the recording does not show how much faster kernels could
    be.
    """
    ranks = tuple(sorted({view.rank for view in views}))
    evidence = []
    for view in views[:4]:
        use = view.facts.gpu_use
        if cause == "tensor_cores":
            evidence.append(
                f"rank {view.rank}: matrix multiplications are {100 * use.gemm_share:.0f} % of the "
                f"time, the tensor cores active {use.gemm['tensor cores']:.1f} % of theirs"
            )
        evidence.append(f"rank {view.rank}: {use.line()}")
    advice = TENSOR_ADVICE if cause == "tensor_cores" else SM_ADVICE
    return Finding("unused_gpu", ranks, cause, 0.0, tuple(evidence), advice)


RULE = FindingRule(
    kind="unused_gpu",
    title="Unused GPU",
    judge=judge_unused_gpu,
    rows=(
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
