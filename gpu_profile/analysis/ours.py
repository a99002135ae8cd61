"""The tables that nsys does not have, by name, in the order in which they are read."""

from gpu_profile.analysis.named import Named

OURS = Named(
    {
        "temporal_breakdown": "temporal_breakdown.TEMPORAL_BREAKDOWN",
        "step_sum": "step_sum.STEP_SUM",
        "comm_sum": "comm_sum.COMM_SUM",
        "range_gpu_sum": "range_gpu_sum.RANGE_GPU_SUM",
        "idle_gaps": "idle_gaps.IDLE_GAPS",
        "launch_sum": "launch_sum.LAUNCH_SUM",
        "capture_health": "capture_health.CAPTURE_HEALTH",
    }
)
