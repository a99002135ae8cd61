"""The embedded base: a distribution bootstrapped from this machine's own mirror of it.

For machines that reach no registry of images. Its tag is a hash of what it is made from, so it
is made once, and again only when asked.
"""

import hashlib
from dataclasses import dataclass
from pathlib import PurePosixPath

from gpu_profile import distribution
from gpu_profile.command import Command, Result, Steps, command
from gpu_profile.distribution import Distribution
from gpu_profile.errors import BuildError, ToolError

REPOSITORY = "gpu-profile-base"
_SUITES = {"debian": "trixie"}
_SECTIONS = {"debian": "main,contrib,non-free", "ubuntu": "main,universe,restricted,multiverse"}
_LEFT_OUT = (
    "./var/cache/apt/*",
    "./var/lib/apt/lists/*",
    "./var/log/*",
    "./tmp/*",
    "./dev/*",
    "./etc/hostname",
    "./etc/resolv.conf",
    "./etc/machine-id",
)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that the base is made from. Debian is always trixie, the first whose Open MPI, PyTorch
    and nsys are recent enough; Ubuntu is the machine's own release."""

    distribution: str
    suite: str
    sections: str
    mirror: str
    keyring: str

    @property
    def tag(self) -> str:
        parts = (self.distribution, self.suite, self.sections, self.mirror, *_LEFT_OUT)
        return f"{REPOSITORY}:{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"


def recipe(found: Distribution) -> Recipe:
    if not found.mirror:
        raise ToolError(
            "The embedded base needs this machine's apt mirror, and apt has no package lists",
            "Run apt-get update, or set BASE_IMAGE to an image",
        )
    return Recipe(
        distribution=found.id,
        suite=_SUITES.get(found.id, found.codename),
        sections=_SECTIONS[found.id],
        mirror=found.mirror,
        keyring=found.keyring,
    )


def ensure(*, rebuild: bool = False) -> Steps[str]:
    """The base's tag, made first where it is not there yet (about a minute, as root)."""
    chosen = recipe((yield from distribution.probe()))
    present = (yield inspect(chosen.tag)).returncode == 0
    if rebuild or not present:
        yield from make(chosen)
    return chosen.tag


def inspect(tag: str) -> Command:
    return command("docker", "image", "inspect", "--format", "{{.Id}}", tag)


def make(chosen: Recipe) -> Steps[None]:
    """Bootstrap into a temporary directory, import it, and leave nothing behind."""
    made = yield command("mktemp", "-d", "/var/tmp/gpu-profile-base.XXXXXX")
    directory = PurePosixPath(made.stdout.strip() or "/var/tmp/gpu-profile-base.XXXXXX")
    failed: Result | None = None
    for step in _commands(chosen, directory):
        result = yield step
        if result.returncode:
            failed = result
            break
    yield command("rm", "-rf", "--one-file-system", str(directory))
    if failed:
        raise _explain(failed)


def _commands(chosen: Recipe, directory: PurePosixPath) -> tuple[Command, ...]:
    root, archive = str(directory / "root"), str(directory / "base.tar")
    return (
        Command(
            argv=(
                *("debootstrap", "--variant=minbase", f"--components={chosen.sections}"),
                *(f"--keyring={chosen.keyring}", chosen.suite, root, chosen.mirror),
            ),
            env={"DPKG_FORCE": "unsafe-io"},  # a base is made whole or not at all
        ),
        command(
            *("tar", "-C", root, "--numeric-owner", "--sort=name", "-cf", archive),
            *(f"--exclude={pattern}" for pattern in _LEFT_OUT),
            ".",
        ),
        command(
            *("docker", "import", "--change", 'CMD ["/bin/bash"]'),
            *("--change", f"LABEL org.opencontainers.image.title={REPOSITORY}"),
            *("--change", f"LABEL org.opencontainers.image.version={chosen.suite}"),
            *(archive, chosen.tag),
        ),
    )


def _explain(failed: Result) -> BuildError:
    root = "root" in failed.stderr and "debootstrap" in failed.stderr
    hint = "Run it as root" if root else "Set BASE_IMAGE to an image that this machine reaches"
    return BuildError(f"The embedded base was not made: {failed.said}", hint)
