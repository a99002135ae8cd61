"""The image's Python, and this machine's package index: what `invoke lock` gives uv."""

import re
from collections.abc import Mapping

from gpu_profile.command import ENGINE, Steps, make_command
from gpu_profile.declared.base_name import distribution_of
from gpu_profile.image.downloads import Downloads, parse_pip_options
from gpu_profile.pins.python_packages import Target

_TARGETS = {
    "debian11": Target(python="3.9", glibc=31),
    "debian12": Target(python="3.11", glibc=36),
    "debian13": Target(python="3.13", glibc=40),
    "ubuntu20.04": Target(python="3.8", glibc=31),
    "ubuntu22.04": Target(python="3.10", glibc=35),
    "ubuntu24.04": Target(python="3.12", glibc=39),
}
"""Each release's python3 and glibc (packages.debian.org, packages.ubuntu.com).

uv knows glibc up to 2.40; wheels for an older one fit a newer one.
"""
_ASK = '. /etc/os-release; echo "$ID$VERSION_ID"; python3 --version 2>/dev/null; true'


def find_target(base_image: str, architecture: str) -> Steps[Target | None]:
    """Return the target of a base image: as the engine's image says, else as its name says."""
    answer = yield make_command(
        *(ENGINE, "run", "--rm", "--pull=never", "--network=none", "--entrypoint=sh"),
        *(base_image, "-c", _ASK),
    )
    lines = answer.stdout.split("\n") if answer.returncode == 0 else [distribution_of(base_image)]
    target = _TARGETS.get(lines[0])
    python_match = re.search(r"Python (3\.\d+)", answer.stdout)
    if target is None and python_match is None:
        return None
    python = python_match[1] if python_match else target.python if target else ""
    glibc = target.glibc if target else Target.glibc
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(architecture, architecture)
    return Target(python=python, glibc=glibc, machine=machine)


def make_index_environment(
    downloads: Downloads, *, ca_bundle: str = "", proxies: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return uv's variables for this machine's index, certificates and proxies."""
    options = parse_pip_options(downloads.pip_conf)
    proxies = proxies or {}
    variables = {
        "UV_DEFAULT_INDEX": options.get("index-url", ""),
        "UV_INDEX": options.get("extra-index-url", ""),
        "UV_INSECURE_HOST": options.get("trusted-host", ""),
        "SSL_CERT_FILE": ca_bundle,
        "HTTP_PROXY": proxies.get("http", "") or options.get("proxy", ""),
        "HTTPS_PROXY": proxies.get("https", "") or options.get("proxy", ""),
        "NO_PROXY": proxies.get("no", ""),
    }
    return {name: " ".join(value.split()) for name, value in variables.items() if value}
