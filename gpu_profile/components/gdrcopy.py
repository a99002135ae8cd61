"""GDRCopy: settings and script arguments."""

from gpu_profile.components.component import _OF_A_SOURCE, Component, _pick
from gpu_profile.components.key import switch, text

GDRCOPY = Component(
    number=60,
    name="gdrcopy",
    doc="GDRCopy's library: low-latency copies to GPU memory (the host has its kernel module)",
    enabled=lambda values: bool(values["INSTALL_GDRCOPY"]),
    toggle="INSTALL_GDRCOPY",
    args=lambda values: _pick(values, *(f"GDRCOPY_{name}" for name in _OF_A_SOURCE)),
    keys=(
        switch("INSTALL_GDRCOPY", "GDRCopy (user space)", default=False),
        text("GDRCOPY_VERSION", "v2.6", "tag of GDRCopy"),
        text(
            "GDRCOPY_URL",
            "https://github.com/NVIDIA/gdrcopy",
            "GDRCopy's repository, an archive of it, or a checkout's directory",
        ),
        text("GDRCOPY_COMMIT", "93c606bbcaa10457cbbab93163aa446d902b983d", "commit of that tag"),
        text("GDRCOPY_SHA256", "", "sha256, where GDRCOPY_URL is an archive"),
    ),
)
