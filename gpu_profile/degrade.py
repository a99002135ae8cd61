"""A preset without what a machine does not permit: said, or refused where that was asked."""

from collections.abc import Mapping
from dataclasses import replace

from gpu_profile.errors import ToolError
from gpu_profile.spec import ProfileSpec


def degraded(
    spec: ProfileSpec, lacking: Mapping[str, str], *, strict: bool = False
) -> tuple[ProfileSpec, tuple[str, ...]]:
    """The spec without `lacking` (of `sampling` and `gpu-metrics`, each with its reason), and a
    line on each thing left out. Raises ToolError for what was asked for by name, or if `strict`.
    """
    if spec.preset != "full" and not spec.sample and not spec.gpu_metrics:
        return spec, ()
    said = []
    for name, reason in lacking.items():
        asked = {"sampling": spec.sample not in ("", "none"), "gpu-metrics": spec.gpu_metrics}
        if strict or asked[name]:
            raise ToolError(f"{name} is not permitted here: {reason}")
        said.append(f"without {name}: {reason}")
    if "sampling" in lacking:
        spec = replace(spec, sample="none")
    if "gpu-metrics" in lacking:
        spec = replace(spec, gpu_metrics=False)
    return spec, tuple(said)
