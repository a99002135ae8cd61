"""Presets on machines that do not permit all of them."""

import pytest

from gpu_profile.errors import ToolError
from gpu_profile.job import ProfileSpec
from gpu_profile.nsys.permissions import remove_lacking

LACKING = {"sampling": "perf_event_paranoid is 4", "gpu-metrics": "for administrators only"}
FULL = ProfileSpec(preset="full")


def test_light_needs_nothing() -> None:
    assert remove_lacking(ProfileSpec(), LACKING) == (ProfileSpec(), ())


def test_full_goes_without_and_says_so() -> None:
    spec, said = remove_lacking(FULL, LACKING)
    assert (spec.sample, spec.gpu_metrics) == ("none", False)
    assert said == (
        "without sampling: perf_event_paranoid is 4",
        "without gpu-metrics: for administrators only",
    )


def test_what_was_turned_off_is_not_missed() -> None:
    spec = ProfileSpec(preset="full", sample="none")
    assert remove_lacking(spec, {"sampling": "level 4"}, strict=True) == (spec, ())


def test_full_is_whole_where_all_is_permitted() -> None:
    assert remove_lacking(FULL, {}) == (FULL, ())


@pytest.mark.parametrize(
    ("spec", "strict"),
    [
        (FULL, True),
        (ProfileSpec(sample="process-tree"), False),
        (ProfileSpec(gpu_metrics=True), False),
    ],
)
def test_what_was_asked_for_is_refused(spec: ProfileSpec, strict: bool) -> None:
    with pytest.raises(ToolError, match="is not permitted here"):
        remove_lacking(spec, LACKING, strict=strict)
