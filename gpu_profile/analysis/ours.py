"""The tables that nsys does not have, by name, in the order in which they are read."""

from gpu_profile.analysis.analysis import Analysis
from gpu_profile.analysis.capture_health import CAPTURE_HEALTH
from gpu_profile.analysis.comm_sum import COMM_SUM
from gpu_profile.analysis.idle_gaps import IDLE_GAPS
from gpu_profile.analysis.launch_sum import LAUNCH_SUM
from gpu_profile.analysis.range_gpu_sum import RANGE_GPU_SUM
from gpu_profile.analysis.step_sum import STEP_SUM
from gpu_profile.analysis.temporal_breakdown import TEMPORAL_BREAKDOWN

OURS: dict[str, Analysis] = {
    analysis.name: analysis
    for analysis in (
        TEMPORAL_BREAKDOWN,
        STEP_SUM,
        COMM_SUM,
        RANGE_GPU_SUM,
        IDLE_GAPS,
        LAUNCH_SUM,
        CAPTURE_HEALTH,
    )
}
