"""GDRCopy: settings and script arguments."""

from gpu_profile.components.component import _OF_A_SOURCE, Component, _select_source_keys
from gpu_profile.components.key import make_switch_key, make_text_key

GDRCOPY = Component(
    number=60,
    name="gdrcopy",
    doc="GDRCopy's library: low-latency copies to GPU memory (the host has its kernel module)",
    enabled=lambda values: bool(values["INSTALL_GDRCOPY"]),
    toggle="INSTALL_GDRCOPY",
    args=lambda values: _select_source_keys(values, *(f"GDRCOPY_{name}" for name in _OF_A_SOURCE)),
    keys=(
        make_switch_key("INSTALL_GDRCOPY", "GDRCopy (user space)", default=False),
        make_text_key("GDRCOPY_VERSION", "v2.6", "tag of GDRCopy"),
        make_text_key(
            "GDRCOPY_URL",
            "https://github.com/NVIDIA/gdrcopy",
            "GDRCopy's repository, an archive of it, or a checkout's directory",
        ),
        make_text_key(
            "GDRCOPY_COMMIT", "93c606bbcaa10457cbbab93163aa446d902b983d", "commit of that tag"
        ),
        make_text_key("GDRCOPY_SHA256", "", "sha256, where GDRCOPY_URL is an archive"),
    ),
)
