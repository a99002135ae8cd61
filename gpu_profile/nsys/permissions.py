"""Remove from a preset what a machine does not permit, with a warning, or refuse it."""

from collections.abc import Mapping
from dataclasses import replace

from gpu_profile.errors import ToolError
from gpu_profile.job import ProfileSpec


def list_concerns(spec: ProfileSpec) -> frozenset[str]:
    """Return what the spec asks for that a machine may not permit: `sampling`, `gpu-metrics`."""
    full = spec.preset == "full"
    requests = {
        "sampling": spec.sample != "none" if spec.sample else full,
        "gpu-metrics": bool(spec.gpu_metrics) or full,
    }
    return frozenset(name for name, is_requested in requests.items() if is_requested)


def remove_lacking(
    spec: ProfileSpec, lacking: Mapping[str, str], *, strict: bool = False
) -> tuple[ProfileSpec, tuple[str, ...]]:
    """Return the spec without `lacking`, and a line on each part that was removed.

    `lacking` maps `sampling` or `gpu-metrics` to a reason. Raises ToolError if the user named the
    part, or with `strict`.
    """
    by_name = {"sampling": bool(spec.sample), "gpu-metrics": bool(spec.gpu_metrics)}
    missing = {name: why for name, why in lacking.items() if name in list_concerns(spec)}
    for name, why in missing.items():
        if strict or by_name[name]:
            raise ToolError(f"{name} is not permitted here: {why}")
    if "sampling" in missing:
        spec = replace(spec, sample="none")
    if "gpu-metrics" in missing:
        spec = replace(spec, gpu_metrics=False)
    return spec, tuple(f"without {name}: {why}" for name, why in missing.items())
