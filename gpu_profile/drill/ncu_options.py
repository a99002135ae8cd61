"""Make the options of `ncu` from what it is to measure. No other module makes ncu options."""

import re

from gpu_profile.drill.choose_kernels import DrillPlan

_SECTIONS = ("SchedulerStats", "WarpStateStats")
"""Beside ncu's set `detailed`: what a kernel far from both roofs waits for. In all 20 passes."""


def list_ncu_options(plan: DrillPlan) -> tuple[str, ...]:
    """Return ncu's options; the agent adds --export, --log-file and the command.

    Clocks stay as the program has them: a kernel at base clock would be another one. `--kill`
    ends the program after the last launch that is measured.
    """
    shorts = sorted({kernel.short_name for kernel in plan.kernels})
    device = (f"--devices={plan.device}",) if plan.devices > 1 else ()
    return (
        "--clock-control=none",
        "--target-processes=all",
        "--kernel-name-base=function",
        # Anchored: ncu's regex finds a name anywhere in a longer one.
        f"--kernel-name=regex:^({'|'.join(map(re.escape, shorts))})$",
        f"--launch-skip={plan.skip}",
        f"--launch-count={plan.count}",
        "--kill=yes",
        *device,
        "--set=detailed",
        *(f"--section={section}" for section in _SECTIONS),
    )
