"""Finding channels_first: images in a layout that convolutions on tensor cores do not take."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.findings.evidence.costly_kernels import judge_costly_kernels
from gpu_profile.analysis.findings.facts.kernel_names import KernelTimes, sum_kernels
from gpu_profile.analysis.findings.finding import Judgement
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.replay.edits.kernels.channels_first import (
    LEFT,
    NATIVE_NORM,
    is_norm,
    put_channels_last,
)
from gpu_profile.analysis.replay.edits.kernels.unaligned_products import is_transpose
from gpu_profile.analysis.store.database import Database

ADVICE = (
    "Keep the model and its images in channels_last: model.to(memory_format=torch.channels_last) "
    "and the same of images (channels_last_3d of volumes; a Conv1d as a Conv2d of height 1)."
)


@dataclass(frozen=True, eq=False)
class ChannelsFirst:
    """What convolutional networks spend because channels are not last: batch norms that read them
    so, and cuDNN's transposes.
    """

    norms: KernelTimes
    transposes: KernelTimes


def collect_channels_first(activity: Activity, _: Database) -> ChannelsFirst:
    """The batch norms and transposes of one rank."""
    return ChannelsFirst(sum_kernels(activity, is_norm), sum_kernels(activity, is_transpose))


def judge_channels_first(views: Sequence[View[ChannelsFirst]]) -> Judgement:
    """Find ranks that spend time in both."""
    both = [view for view in views if min(_norms_ms(view), _transposes_ms(view)) > 0]
    return judge_costly_kernels(
        "channels_first", "layout", both, _measure_ms, _list_evidence, ADVICE
    )


def _list_evidence(view: View[ChannelsFirst]) -> tuple[str, ...]:
    line = (
        f"rank {view.rank}: {_norms_ms(view):.2f} of {view.step_ms:.2f} ms a step in batch norms "
        f"of images with channels first, and {_transposes_ms(view):.2f} in transposes of cuDNN "
        "before and after convolutions"
    )
    return (line,)


def _norms_ms(view: View[ChannelsFirst]) -> float:
    return view.mean(view.fact.norms.time) / 1e6


def _transposes_ms(view: View[ChannelsFirst]) -> float:
    return view.mean(view.fact.transposes.time) / 1e6


def _measure_ms(view: View[ChannelsFirst]) -> float:
    """The most that the layout costs, in ms a step."""
    return _norms_ms(view) * (1 - LEFT[NATIVE_NORM]) + _transposes_ms(view)


RULE = FindingRule(
    kind="channels_first",
    title="Channels first",
    collect=collect_channels_first,
    judge=judge_channels_first,
    time_ms=lambda view, _: _measure_ms(view),
    rows=(
        FindingRow(
            causes=("layout",),
            when=(
                "batch norms read images with channels first (NCHW), and cuDNN transposes images "
                "before and after convolutions, which tensor cores take with channels last. The "
                "gain is an estimate: no transposes, 35 % of the time of PyTorch's batch norms, 65 "
                "% of those of cuDNN, and 20 % of PyTorch's depthwise convolutions. Its range: 1.4 "
                "times as much is left, and as little. Networks with other norms or with grouped "
                "convolutions may be slower with channels last, and are not told"
            ),
        ),
    ),
    edit=lambda _finding: put_channels_last(),
)
