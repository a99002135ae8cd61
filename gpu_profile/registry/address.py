"""Parse REGISTRY into host, path, and ECR's account and region."""

import re
from dataclasses import dataclass

from gpu_profile.errors import SettingsError

_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr[.-]ecr(?:-fips)?\.(?P<region>[a-z]{2,}(?:-[a-z0-9]+)+)\."
    r"(?:amazonaws\.com(?:\.cn)?|amazonaws\.eu|on\.aws|on\.amazonwebservices\.com\.cn"
    r"|c2s\.ic\.gov|sc2s\.sgov\.gov|cloud\.adc-e\.uk|csp\.hci\.ic\.gov)"
)
"""Hosts of private ECR registries (docs.aws.amazon.com/general/latest/gr/ecr.html). The list of
domains is closed, so that an ECR token is sent to no other host."""
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST = re.compile(rf"localhost|{_LABEL}(?:\.{_LABEL})+|{_LABEL}(?:\.{_LABEL})*:\d{{1,5}}")
"""A host has a dot or a port: docker takes other names for those of Docker Hub."""
_PATH = re.compile(r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*")


@dataclass(frozen=True, kw_only=True)
class Registry:
    """The address of a registry. `account` and `region` are empty unless it is ECR."""

    host: str
    path: str = ""
    account: str = ""
    region: str = ""

    @property
    def is_ecr(self) -> bool:
        return bool(self.account)

    def repository(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name


def parse_registry(text: str, ecr_registry: str = "") -> Registry:
    """Return the address in REGISTRY.

    `ecr_registry` names the ECR registry behind another address (a proxy, a private endpoint):
    only then does that address get ECR's tokens. Raises SettingsError if it is empty or no valid
    address.
    """
    host, _, path = text.strip().removesuffix("/").partition("/")
    if not host:
        raise SettingsError(
            "REGISTRY is empty", "Set it, as in 123456789012.dkr.ecr.us-west-2.amazonaws.com"
        )
    if not _HOST.fullmatch(host) or (path and not _PATH.fullmatch(path)):
        raise SettingsError(
            f"REGISTRY is {text!r}, which is not an address of a registry",
            "Use HOST[:PORT][/PATH] without https://; docker.io/NAME for Docker Hub",
        )
    ecr_host = ecr_registry or host
    match = _ECR.fullmatch(ecr_host)
    if match is None and (ecr_registry or _meant_for_ecr(ecr_host)):
        raise SettingsError(
            f"{ecr_host!r} looks like ECR and is not",
            "Use ACCOUNT.dkr.ecr.REGION.amazonaws.com with an account of 12 digits",
        )
    groups = match.groupdict() if match else {}
    return Registry(host=host, path=path, **groups)


def _meant_for_ecr(host: str) -> bool:
    return re.search(r"dkr[.-]ecr|\.amazonaws\.com", host) is not None
