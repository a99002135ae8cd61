"""An image's address: registry, name, tag, digest."""

import re
from dataclasses import dataclass

from gpu_profile.errors import SettingsError

# As Docker reads it: the first part is a registry if it has a dot or a port, or is localhost.
_IMAGE = re.compile(
    r"(?:(?P<registry>[a-zA-Z0-9.-]+(?:\.[a-zA-Z0-9-]+|:[0-9]+|(?<=localhost)))/)?"
    r"(?P<name>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


@dataclass(frozen=True, kw_only=True)
class ImageRef:
    """An image's address.

    The digest, if there is one, decides: a tag can move, a digest cannot.
    """

    name: str
    registry: str = ""
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        if self.digest:
            return f"{self.repository}@{self.digest}"
        return f"{self.repository}:{self.tag or 'latest'}"

    @property
    def repository(self) -> str:
        """Registry and name, without tag and digest: `localhost:5000/team/gpu-profile`."""
        return f"{self.registry}/{self.name}" if self.registry else self.name

    @classmethod
    def parse(cls, text: str) -> "ImageRef":
        match = _IMAGE.fullmatch(text)
        if match is None:
            raise SettingsError(f"{text!r} is not an image", "Use [registry/]name[:tag][@sha256:…]")
        return cls(**{key: value or "" for key, value in match.groupdict().items()})
