"""GDRCopy: settings, script arguments and downloads."""

from gpu_profile.components.component import (
    Component,
    InstalledVersion,
    list_source_keys,
    select_values,
)
from gpu_profile.declared.key import make_switch_key, make_text_key
from gpu_profile.pins.pin_source import make_tree_sources

COMPONENT = Component(
    number=60,
    name="gdrcopy",
    doc="GDRCopy's library: low-latency copies to GPU memory (the host has its kernel module)",
    is_enabled=lambda values: bool(values["INSTALL_GDRCOPY"]),
    toggle="INSTALL_GDRCOPY",
    args=lambda values: select_values(values, *list_source_keys("GDRCOPY")),
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
    sources=make_tree_sources("GDRCOPY"),
    installed_versions=(
        InstalledVersion(
            name="gdrcopy",
            command="ls /opt/gdrcopy/lib/libgdrapi.so.*.*",
            setting="GDRCOPY_VERSION",
        ),
    ),
)
