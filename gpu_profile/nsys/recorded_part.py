"""Say which part of a program a recording holds, before it runs."""

from gpu_profile.job import ProfileSpec

STEPS = 60
FEWER_STEPS = 20
STEADY_S = 5
"""Those of the marks (annotate/gpu_profile_marks/ending.py, which has the reasons)."""


def describe_recorded_part(spec: ProfileSpec) -> str:
    """Return what is recorded, such as "steps 20 to 39"; "" where nsys' own options say it."""
    if spec.record == "manual":
        return "nothing until `invoke record` asks for a window"
    if spec.record == "endpoint":
        return "nothing until the server gets /start_profile, as from `invoke record --url`"
    if spec.steps:
        return f"steps {spec.steps[0]} to {spec.steps[1] - 1}"
    if spec.capture_range or spec.delay_s is not None or spec.duration_s is not None:
        return ""
    if spec.whole or spec.annotate == "none":
        return "the program to its end"
    return (
        f"{STEPS} steps of a program with marks (forwards without an optimizer), or {FEWER_STEPS}"
        f" where they take over 5 s, and more until {STEADY_S} s are steady; a program without"
        " marks to its end"
    )
