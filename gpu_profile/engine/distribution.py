"""Find this machine's Linux distribution and the mirror that its apt uses."""

import re
from dataclasses import dataclass

from gpu_profile.command import Command, Steps, make_command
from gpu_profile.errors import ToolError


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """A distribution. `id` is as in /etc/os-release: debian, ubuntu.

    A mirror is empty if apt's sources name none.
    """

    id: str
    codename: str
    mirror: str = ""
    security_mirror: str = ""

    @property
    def keyring(self) -> str:
        return f"/usr/share/keyrings/{self.id}-archive-keyring.gpg"


OS_RELEASE = make_command("cat", "/etc/os-release")
APT_SOURCES = Command(
    argv=("apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages")
)
APT_DOWNLOADS = make_command("apt-get", "update", "--print-uris")
"""What apt would fetch. Without package lists, as in an image of Debian, the other is silent."""


def probe_distribution() -> Steps[Distribution]:
    """Return this machine's distribution.

    Raises ToolError unless it is Debian, Ubuntu or a derivative.
    """
    fields = _parse_os_release((yield OS_RELEASE).stdout)
    if fields.get("ID") not in {"debian", "ubuntu"}:
        raise ToolError(
            f"{fields.get('PRETTY_NAME', 'This system')} is neither Debian nor Ubuntu",
            "Install Docker Engine 23 or newer with buildx as its own documentation says",
        )
    codename = fields.get("VERSION_CODENAME", "")
    sources = (yield APT_SOURCES).stdout
    if not sources.strip():
        sources = list_sources(fields["ID"], codename, (yield APT_DOWNLOADS).stdout)
    return Distribution(
        id=fields["ID"],
        codename=codename,
        mirror=first_mirror(fields["ID"], sources),
        security_mirror=find_security_mirror(fields["ID"], sources),
    )


def _parse_os_release(os_release: str) -> dict[str, str]:
    pairs = re.findall(r'^(\w+)="?([^"\n]*)"?$', os_release, re.MULTILINE)
    return dict(pairs)


def list_sources(distribution: str, codename: str, downloads: str) -> str:
    """Return the distribution's own sources, as APT_SOURCES prints them, of what apt would fetch.

    apt learns a source's origin from its lists. A third party's source may have the suite of the
    release, such as bookworm, but not bookworm-updates or bookworm-security.
    """
    suite = rf"'(\S+?)/+dists/{re.escape(codename)}-(?:updates|security)/"
    mirrors = dict.fromkeys(re.findall(suite, downloads))
    return "".join(f"{distribution} {mirror}\n" for mirror in mirrors)


def first_mirror(distribution: str, sources: str) -> str:
    """Return the first mirror of the distribution in apt's sources, not one of a third party."""
    for line in sources.splitlines():
        origin, _, uri = line.partition(" ")
        if origin.lower() == distribution and "security" not in uri:
            return uri.rstrip("/")
    return ""


def find_security_mirror(distribution: str, sources: str) -> str:
    """Return the mirror of the security suite.

    Ubuntu's mirrors hold it together with the others, Debian's do not.
    """
    for line in sources.splitlines():
        origin, _, uri = line.partition(" ")
        if origin.lower() == distribution and "security" in uri:
            return uri.rstrip("/")
    return first_mirror(distribution, sources) if distribution == "ubuntu" else ""
