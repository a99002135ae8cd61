"""Images in a Slurm cluster: pyxis with enroot, or apptainer."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpu_profile.errors import SettingsError
from gpu_profile.image_ref import ImageRef
from gpu_profile.job import Mount

_WHY = (
    r"error: pyxis:\s+(?:\[ERROR\]|curl:) (.+)",
    r"error: pyxis: (?!child |printing )(.+)",
    r"error: (execve\(\): .+)",
)
"""Where a step says why its container did not start: enroot's own word, pyxis', Slurm's."""


@dataclass(frozen=True, kw_only=True)
class Container:
    """What runs an image in the cluster, if any."""

    image: str = ""
    tool: Literal["pyxis", "apptainer"] = "pyxis"

    def srun_options(
        self, mounts: Iterable[Mount], workdir: str, env: Collection[str] = ()
    ) -> tuple[str, ...]:
        """`env`: names of variables whose values go before the image's own."""
        if not self.image or self.tool != "pyxis":
            return ()
        # enroot reads mounts as a shell reads words in double quotes.
        shared = ",".join(_check_mount(mount, ':,$`"\\') for mount in mounts)
        return (
            f"--container-image={_format_pyxis_image(self.image)}",
            f"--container-mounts={shared}",
            *([f"--container-workdir={workdir}"] if workdir else []),
            *([f"--container-env={','.join(sorted(env))}"] if env else []),
        )

    def prefix(self, mounts: Iterable[Mount], workdir: str, *, gpus: bool) -> tuple[str, ...]:
        if not self.image or self.tool != "apptainer":
            return ()
        file = self.image.endswith(".sif") or self.image.startswith(("/", "."))
        return (
            *("apptainer", "exec", *(["--nv"] if gpus else [])),
            *(f"--bind={_check_mount(mount, ':,')}" for mount in mounts),
            *([f"--pwd={workdir}"] if workdir else []),
            self.image if file or "://" in self.image else f"docker://{self.image}",
        )


def mount_itself(path: str) -> Mount:
    """A directory of the nodes under its own name."""
    return Mount(source=Path(path), target=path)


def find_container_error(stderr: str) -> str:
    """Why a step's container did not start; empty where that is not what happened."""
    if "unrecognized option '--container-" in stderr:
        return "this Slurm has no pyxis: ask for it, or set SLURM_CONTAINER=apptainer"
    matches = (re.search(pattern, stderr) for pattern in _WHY)
    return next((match[1] for match in matches if match), "")


def _check_mount(mount: Mount, forbidden: str) -> str:
    source = mount.source.as_posix()
    for path in (source, mount.target):
        if any(mark in forbidden for mark in path):
            message = f"{path} cannot be mounted: it holds one of {' '.join(forbidden)}"
            raise SettingsError(message, "Use another directory")
    return f"{source}:{mount.target}" + ":ro" * mount.read_only


def _format_pyxis_image(image: str) -> str:
    """pyxis writes the registry before a #: `123.dkr.ecr.us-west-2.amazonaws.com#name:tag`, and
    takes for a file only what begins with a slash or a dot (pyxis_slurmstepd.c)."""
    if image.endswith(".sqsh") and "://" not in image:
        return image if image.startswith(("/", ".")) else f"./{image}"
    if image.startswith(("/", ".")) or "://" in image or "#" in image:
        return image
    registry = ImageRef.parse(image).registry
    return f"{registry}#{image.removeprefix(registry + '/')}" if registry else image
