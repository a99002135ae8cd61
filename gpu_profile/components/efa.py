"""Elastic Fabric Adapter: settings, needs, environment, downloads and rules."""

import re
from collections.abc import Callable
from typing import IO

from packaging.version import Version

from gpu_profile.components.component import (
    Component,
    InstalledVersion,
    Requirement,
    select_values,
)
from gpu_profile.declared.key import Values, make_choice_key, make_switch_key, make_text_key
from gpu_profile.declared.rule import Facts, Rule
from gpu_profile.declared.version import parse_version
from gpu_profile.errors import ToolError
from gpu_profile.pins.http import Fetch
from gpu_profile.pins.pin_source import PinSource, match_value
from gpu_profile.pins.resolvers import LATEST, Pins, Tools, verify_sha256

_OPT = "/opt/amazon"
_CHANGES = "docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-changelog.html"


def by_installer(values: Values) -> bool:
    """Return whether AWS's installer runs, which brings an Open MPI and aws-ofi-nccl of its own."""
    return bool(values["INSTALL_EFA"]) and values["EFA_SOURCE"] == "installer"


def _list_arguments(values: Values) -> dict[str, str]:
    names = ["EFA_SOURCE"]
    if values["EFA_SOURCE"] == "installer":
        names += ["EFA_VERSION", "EFA_URL", "EFA_SHA256", "EFA_FINGERPRINT"]
    return select_values(values, *names)


def _list_variables(values: Values) -> dict[str, str]:
    """Return the variables for NCCL and Open MPI over EFA.

    NCCL_NET_PLUGIN names the plugin, because NCCL goes on without one silently. NCCL_SOCKET_IFNAME
    excludes interfaces that reach no other node.
    """
    common = {"NCCL_SOCKET_IFNAME": "^docker,lo,veth"}
    if values["EFA_SOURCE"] == "distro":
        return common
    return common | {
        # OMPI_MCA_pml, OPAL_PREFIX and PMIX_MCA_gds as in AWS's own image of nccl-tests:
        # https://github.com/awslabs/awsome-distributed-ai
        "NCCL_NET_PLUGIN": "ofi",
        "OMPI_MCA_pml": "^ucx",
        "OPAL_PREFIX": f"{_OPT}/openmpi",
        "PATH": f"{_OPT}/openmpi/bin:{_OPT}/efa/bin",
        "PMIX_MCA_gds": "hash",
    }


def _resolve(values: Values, tools: Tools) -> Pins:
    """Return the installer's version and the SHA-256 of its archive."""
    version = str(values["EFA_VERSION"])
    url = f"{values['EFA_URL']}/aws-efa-installer-{version}.tar.gz"
    if version == LATEST:
        version = _find_latest(tools.fetch, url)
        url = f"{values['EFA_URL']}/aws-efa-installer-{version}.tar.gz"
        # a checksum in the settings is that of another version
        values = {**values, "EFA_SHA256": ""}
    return {"EFA_VERSION": version, "EFA_SHA256": verify_sha256(values, "EFA_SHA256", tools, url)}


def _find_latest(fetch: Fetch, url: str) -> str:
    """Return the version in the installer's script; its archive's name says `latest`."""
    with fetch(url) as body:
        version = _read_version(body)
    if not version:
        raise ToolError(f"{url} does not state its version", "Set EFA_VERSION to a number")
    return version


def _read_version(body: IO[bytes]) -> str:
    import tarfile  # imports bz2 and lzma; every verb imports this file

    pattern = re.compile(rb"EFA_INSTALLER_VERSION=\W?(\d+\.\d+\.\d+)")
    with tarfile.open(fileobj=body, mode="r|gz") as archive:
        for member in archive:
            script = archive.extractfile(member) if member.name.endswith(".sh") else None
            if script and (match := pattern.search(script.read())):
                return match[1].decode()
    return ""


def _make_drop_rule(distribution: str, since: str) -> Callable[[Facts], str]:
    def is_dropped(facts: Facts) -> str:
        version = facts.versions.get("efa")
        if facts.distribution != distribution or not version or version < Version(since):
            return ""
        return f"EFA installer {version} does not install on {distribution}"

    return is_dropped


def _lacks_plugin(facts: Facts) -> str:
    version = facts.versions.get("efa")
    is_old = version is not None and version < Version("1.38")
    return f"EFA installer {version} brings no aws-ofi-nccl" if is_old else ""


COMPONENT = Component(
    number=40,
    name="efa",
    doc="Elastic Fabric Adapter: libfabric, and with AWS's installer Open MPI and aws-ofi-nccl",
    is_enabled=lambda values: bool(values["INSTALL_EFA"]),
    toggle="INSTALL_EFA",
    env=_list_variables,
    args=_list_arguments,
    keys=(
        make_switch_key("INSTALL_EFA", "AWS Elastic Fabric Adapter (user space)", default=False),
        make_choice_key(
            "EFA_SOURCE",
            ("installer", "distro"),
            "AWS's installer, or the distribution's libfabric where AWS is out of reach",
        ),
        make_text_key("EFA_VERSION", "1.50.0", "version of AWS's EFA installer"),
        make_text_key(
            "EFA_URL",
            "https://efa-installer.amazonaws.com",
            "where aws-efa-installer-<version>.tar.gz, its .sig and the key are",
        ),
        make_text_key(
            "EFA_SHA256",
            "fa6dff8593d866866c13cb4640d9059835cd4efa427971f100ab40c97bef2841",
            "sha256 of that archive",
        ),
        make_text_key(
            "EFA_FINGERPRINT",
            "4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC",
            "fingerprint of the key that signs it, as AWS documents it",
        ),
    ),
    requires=(
        Requirement(
            any_of=("INSTALL_MPI",),
            reason="INSTALL_EFA needs INSTALL_MPI: jobs over EFA are started by mpirun over SSH",
        ),
    ),
    sources=(
        PinSource(
            pins=("EFA_VERSION", "EFA_SHA256"),
            is_needed=match_value("EFA_SOURCE", "installer"),
            resolve=_resolve,
        ),
    ),
    installed_versions=(
        InstalledVersion(name="libfabric", command="fi_info --version", in_bases=True),
        InstalledVersion(
            name="efa_installer",
            command=f"sed -n 's/.*EFA installer version: //p' {_OPT}/efa_installed_packages",
            setting="EFA_VERSION",
            in_bases=True,
        ),
    ),
    version_of=lambda values, _: (
        parse_version(str(values["EFA_VERSION"])) if by_installer(values) else None
    ),
    rules=(
        Rule(
            name="EFA on Ubuntu 20.04",
            find_fault=_make_drop_rule("ubuntu20.04", "1.43"),
            reason="the installer dropped it in 1.43",
            source=_CHANGES,
            hint="Take a BASE_IMAGE of Ubuntu 22.04 or newer, or EFA_SOURCE=distro",
        ),
        Rule(
            name="EFA on Debian 11",
            find_fault=_make_drop_rule("debian11", "1.51"),
            reason="the installer dropped it in 1.51",
            source=_CHANGES,
            hint="Take a BASE_IMAGE of Debian 12, or EFA_VERSION=1.50.0",
        ),
        Rule(
            name="NCCL plugin by installer",
            find_fault=_lacks_plugin,
            reason="it is part of the installer from 1.38 on, and NCCL uses sockets without it",
            source="github.com/aws/aws-ofi-nccl/issues/803",
            hint="Set EFA_VERSION to 1.44.0 or newer",
        ),
    ),
)
