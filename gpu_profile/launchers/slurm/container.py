"""Options that run a Slurm step in an image: pyxis with enroot, or apptainer."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.errors import SettingsError
from gpu_profile.job import Mount

_WHY = (
    r"error: pyxis:\s+(?:\[ERROR\]|curl:) (.+)",
    r"error: pyxis: (?!child |printing )(.+)",
    r"error: (execve\(\): .+)",
)
"""The messages with which enroot, pyxis and Slurm explain why a container did not start."""


@dataclass(frozen=True, kw_only=True)
class Container:
    """The image of a step and the tool that runs it. Without an image a step runs on the node."""

    image: str = ""
    tool: Literal["pyxis", "apptainer"] = "pyxis"

    def srun_options(
        self, mounts: Iterable[Mount], workdir: str, env: Collection[str] = ()
    ) -> tuple[str, ...]:
        """Return pyxis' srun options. `env`: variables whose values replace those of the image."""
        if not self.image or self.tool != "pyxis":
            return ()
        # enroot expands dollar signs, backquotes and backslashes in mounts, as a shell does in
        # double quotes: https://github.com/NVIDIA/enroot/blob/master/doc/image-format.md (fstab)
        shared = ",".join(_check_mount(mount, ':,$`"\\') for mount in mounts)
        options = [
            f"--container-image={_format_pyxis_image(self.image)}",
            f"--container-mounts={shared}",
        ]
        if workdir:
            options.append(f"--container-workdir={workdir}")
        if env:
            options.append(f"--container-env={','.join(sorted(env))}")
        return tuple(options)

    def prefix(self, mounts: Iterable[Mount], workdir: str, *, gpus: bool) -> tuple[str, ...]:
        """Return apptainer's words before the command of a step; empty with pyxis or no image."""
        if not self.image or self.tool != "apptainer":
            return ()
        file = self.image.endswith(".sif") or self.image.startswith(("/", "."))
        words = ["apptainer", "exec"]
        if gpus:
            words.append("--nv")
        words += [f"--bind={_check_mount(mount, ':,')}" for mount in mounts]
        if workdir:
            words.append(f"--pwd={workdir}")
        return (*words, self.image if file or "://" in self.image else f"docker://{self.image}")


def mount_itself(path: str) -> Mount:
    """Return the mount of a directory under its own path."""
    return Mount(source=Path(path), target=path)


def find_container_error(stderr: str) -> str:
    """Return why a step's container did not start; empty if stderr has another reason."""
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
    """Return an image as pyxis writes it: `123.dkr.ecr.us-west-2.amazonaws.com#name:tag`.

    A # ends the registry: https://github.com/NVIDIA/enroot/blob/master/doc/cmd/import.md. pyxis
    takes only names that begin with a slash or a dot for files (pyxis_slurmstepd.c).
    """
    if image.endswith(".sqsh") and "://" not in image:
        return image if image.startswith(("/", ".")) else f"./{image}"
    if image.startswith(("/", ".")) or "://" in image or "#" in image:
        return image
    registry = ImageRef.parse(image).registry
    return f"{registry}#{image.removeprefix(registry + '/')}" if registry else image
