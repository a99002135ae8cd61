"""Nsight Systems: settings and script arguments."""

from gpu_profile.components.component import Component, _select_source_keys
from gpu_profile.components.key import make_choice_key, make_text_key

NSYS = Component(
    number=10,
    name="nsys",
    doc="NVIDIA Nsight Systems, the profiler",
    enabled=lambda _: True,
    args=lambda values: _select_source_keys(
        values,
        "NSYS_SOURCE",
        *(("NSYS_VERSION", "NSYS_URL", "NSYS_SHA256") * (values["NSYS_SOURCE"] == "nvidia")),
    ),
    keys=(
        make_choice_key(
            "NSYS_SOURCE",
            ("auto", "nvidia", "debian", "base"),
            "nsys of NVIDIA's apt repository, of Debian's non-free section, or the base image's "
            "own; auto is nvidia where it answers, otherwise debian",
        ),
        make_text_key("NSYS_VERSION", "2026.4.1", "nsys version in NVIDIA's apt repository"),
        make_text_key(
            "NSYS_URL",
            "https://developer.download.nvidia.com/devtools/repos",
            "NVIDIA's apt repository of developer tools, or a mirror of it",
        ),
        make_text_key("NSYS_SHA256", "", "sha256 of that repository's signing key, nvidia.pub"),
    ),
)
