"""Images in a Slurm cluster: pyxis with enroot, or apptainer."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from gpu_profile.errors import SettingsError
from gpu_profile.spec import ImageRef


@dataclass(frozen=True, kw_only=True)
class Container:
    """What runs an image in the cluster, if any."""

    image: str = ""
    tool: Literal["pyxis", "apptainer"] = "pyxis"

    def srun_options(self, mounts: Iterable[str], workdir: str) -> tuple[str, ...]:
        if not self.image or self.tool != "pyxis":
            return ()
        shared = ",".join(f"{path}:{path}" for path in map(_mountable, mounts))
        where = (f"--container-workdir={workdir}",) if workdir else ()
        return (f"--container-image={_pyxis(self.image)}", f"--container-mounts={shared}", *where)

    def prefix(self, mounts: Iterable[str], workdir: str, *, gpus: bool) -> tuple[str, ...]:
        if not self.image or self.tool != "apptainer":
            return ()
        file = self.image.endswith(".sif") or self.image.startswith(("/", "."))
        return (
            *("apptainer", "exec", *(["--nv"] if gpus else [])),
            *(f"--bind={_mountable(path)}" for path in mounts),
            *([f"--pwd={workdir}"] if workdir else []),
            self.image if file or "://" in self.image else f"docker://{self.image}",
        )


def _mountable(path: str) -> str:
    if ":" in path or "," in path:
        raise SettingsError(f"{path} cannot be mounted: it holds : or ,", "Use another directory")
    return path


def _pyxis(image: str) -> str:
    """pyxis writes the registry before a #: `123.dkr.ecr.us-west-2.amazonaws.com#name:tag`."""
    if image.startswith(("/", ".", "docker://")) or "#" in image or image.endswith(".sqsh"):
        return image
    registry = ImageRef.parse(image).registry
    return f"{registry}#{image.removeprefix(registry + '/')}" if registry else image
