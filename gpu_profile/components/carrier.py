"""The carrier: nsys and a Python in files that images without them can run."""

from gpu_profile.components.component import Component, InstalledVersion, select_values
from gpu_profile.declared.key import Key, make_switch_key, make_text_key

COMPONENT = Component(
    number=15,
    name="carrier",
    doc="nsys and a small Python for other images, which have glibc and neither of them",
    is_enabled=lambda values: bool(values["INSTALL_CARRIER"]) and values["NSYS_SOURCE"] != "base",
    toggle="INSTALL_CARRIER",
    args=lambda values: select_values(values, "CARRIER_URL"),
    needs=("nsys",),
    keys=(
        make_switch_key(
            "INSTALL_CARRIER",
            "nsys for images without it (profile --image); not with NSYS_SOURCE=base",
            default=True,
        ),
        make_text_key(
            "CARRIER_URL",
            "",
            "mirror that has Debian 11 or Ubuntu 20.04, for its libraries; empty: the base's",
        ),
        Key(
            name="CARRIER_IMAGE",
            kind="address",
            doc="Image of ours whose nsys is carried to others; empty is IMAGE:VERSION",
        ),
    ),
    installed_versions=(
        InstalledVersion(
            name="carrier", command="sed -n 's/^nsys=//p' /opt/gpu-profile/carrier/facts"
        ),
    ),
)
