"""Give the embedded base to builders that see no image of the engine.

As an OCI layout, which `docker save` writes since Docker Engine 25.
"""

import re
import shlex
from pathlib import Path

from gpu_profile.command import ENGINE, Command, Steps, make_command, make_engine_command
from gpu_profile.declared.base_name import is_embedded
from gpu_profile.errors import ToolError
from gpu_profile.settings.settings import Settings

_DRIVER = re.compile(r"^Driver:\s*(\S+)", re.MULTILINE)
_CHOSEN = re.compile(r"--builder[= ](\S+)")


def sees_no_images(settings: Settings) -> Steps[bool]:
    """Return whether buildx' builder cannot read the engine's images: any driver but `docker`."""
    if not is_embedded(settings.base_image):
        return False
    inspect = ["buildx", "inspect"]
    builder = _CHOSEN.search(shlex.join(shlex.split(settings.build_opts)))
    if builder:
        inspect.append(builder[1])
    builder_result = yield make_engine_command(*inspect)
    driver = _DRIVER.search(builder_result.stdout)
    return driver is not None and driver[1] != "docker"


def save_layout(base: str, layout: Path) -> Steps[None]:
    """Save an image of the engine as an OCI layout. An existing layout is replaced."""
    archive = layout.with_suffix(".tar")
    for step in (
        make_command("rm", "-rf", str(layout)),
        make_command("mkdir", "-p", str(layout)),
        Command(argv=(ENGINE, "save", base), stdout_file=archive),
        make_command("tar", f"--directory={layout}", "--extract", f"--file={archive}"),
        make_command("test", "-e", str(layout / "oci-layout")),
        make_command("rm", str(archive)),
    ):
        done = yield step
        if done.returncode:
            raise ToolError(
                f"{base} cannot be handed to this builder: `{step}`: {done.last_line}",
                "Docker Engine 25 or newer saves images as it needs them. Set BASE_IMAGE to an"
                " image of a registry, or use the engine's own: `docker buildx use default`",
            )
