"""What nsys does not have: one line that names what it has."""

from pathlib import Path

import pytest

from gpu_profile.errors import SettingsError
from gpu_profile.job import ProfileSpec
from gpu_profile.nsys import options

OLD = (Path(__file__).parents[2] / "data" / "nsys-help" / "2023.4.txt").read_text()
BARE = "\t-o, --output=\n\t-t, --trace=\n\t   'cuda', 'nvtx'\n"

REFUSALS = {
    "this nsys has no --trace=nccl. It has cuda, nvtx, cublas": ProfileSpec(trace="cuda,nccl"),
    "this nsys has no --sample=cpu. It has process-tree, system-wide": ProfileSpec(sample="cpu"),
    "this nsys has no --capture-range=cuda. It has none, cudaProfilerApi": ProfileSpec(
        capture_range="cuda"
    ),
    "this nsys has no --export=jsonlines. It has none, arrow, sqlite": ProfileSpec(
        export="jsonlines"
    ),
    "this nsys has no --gpu-metric-devices. The nearest it has: --gpu-metrics-device": ProfileSpec(
        nsys_args=("--gpu-metric-devices=all",)
    ),
    "this nsys has no --z. The nearest it has: none": ProfileSpec(nsys_args=("-z",)),
    "reports are named by rank and host. Leave --output": ProfileSpec(nsys_args=("-o", "mine")),
    "reports are named by rank and host. Leave --out": ProfileSpec(nsys_args=("--output=mine",)),
    "NVTX domains are both included and excluded. Give one": ProfileSpec(
        nvtx_domain_include="a", nvtx_domain_exclude="b"
    ),
}


@pytest.mark.parametrize(("line", "spec"), REFUSALS.items(), ids=REFUSALS)
def test_refused(line: str, spec: ProfileSpec) -> None:
    with pytest.raises(SettingsError) as refused:
        options.profile_options(spec, OLD)
    assert str(refused.value).startswith(line)
    assert refused.value.exit_code == 2


def test_missing_option_that_was_asked_for() -> None:
    with pytest.raises(SettingsError, match="no --python-functions-trace"):
        options.profile_options(ProfileSpec(python_functions_trace=Path("f.json")), BARE)
    with pytest.raises(SettingsError, match="no --gpu-metrics-devices"):
        options.first_options(ProfileSpec(gpu_metrics=True), BARE)


def test_missing_option_that_only_the_preset_wants_is_left_out() -> None:
    assert options.profile_options(ProfileSpec(), BARE) == ("--trace=cuda,nvtx",)
    assert options.first_options(ProfileSpec(preset="full"), BARE) == ()


def test_no_help_at_all() -> None:
    with pytest.raises(SettingsError, match=r"lists no options\. Check that NSYS names"):
        options.profile_options(ProfileSpec(), "command not found\n")
