"""Read the command that an image itself starts from its registry, without pulling it."""

import json
from collections.abc import Mapping
from typing import Any

from gpu_profile.command import ENGINE, Steps, make_command
from gpu_profile.errors import SettingsError
from gpu_profile.manifest.user_manifest import Entrypoint

_FORMAT = "--format={{json .Image}}"


def read_entrypoint(image: str) -> Steps[Entrypoint]:
    """Return the ENTRYPOINT and CMD of an image, read with the docker CLI's own log-in.

    Raises SettingsError, with the way on, where the registry does not show the image.
    """
    answer = yield make_command(ENGINE, "buildx", "imagetools", "inspect", _FORMAT, image)
    hint = "Write its command: into the manifest"
    if answer.returncode:
        what = f"the command that {image} starts cannot be read: {answer.last_line}"
        raise SettingsError(what, hint)
    entrypoint = parse_image(json.loads(answer.stdout or "{}"))
    if not entrypoint.entrypoint and not entrypoint.cmd:
        raise SettingsError(f"{image} has no command of its own", hint)
    return entrypoint


def parse_image(image: Mapping[str, Any]) -> Entrypoint:
    """Return the entrypoint of an image, or of the first platform's of several.

    buildx prints one image as itself, and several as a mapping of `linux/amd64` to each.
    """
    if "config" not in image:
        images = [value for key, value in sorted(image.items()) if key.startswith("linux/")]
        image = images[0] if images else {}
    config = image.get("config") or {}
    return Entrypoint(
        entrypoint=tuple(config.get("Entrypoint") or ()), cmd=tuple(config.get("Cmd") or ())
    )
