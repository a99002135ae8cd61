"""The embedded base: a distribution bootstrapped from this machine's own mirror of it.

For machines that reach no registry of images. Its tag is a hash of what it is made from, so it
is made once, and again only when asked.
"""

import hashlib
from dataclasses import dataclass
from pathlib import PurePosixPath

from gpu_profile.command import Command, Result, Steps, command
from gpu_profile.engine import distribution
from gpu_profile.engine.distribution import Distribution
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


@dataclass(frozen=True, kw_only=True)
class Found:
    """`identity` is the engine's id of it, empty where `recipe` is still to be made."""

    tag: str
    identity: str
    recipe: Recipe | None = None


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


def find(tag: str = "", *, anew: bool = False) -> Steps[Found]:
    """The base of this tag where the engine has it; else that of this machine's own recipe."""
    identity = (yield from _identity(tag)) if tag and not anew else ""
    if identity:
        return Found(tag=tag, identity=identity)
    chosen = recipe((yield from distribution.probe()))
    identity = "" if anew else (yield from _identity(chosen.tag))
    return Found(tag=chosen.tag, identity=identity, recipe=chosen)


def _identity(tag: str) -> Steps[str]:
    told = yield command("docker", "image", "inspect", "--format", "{{.Id}}", tag)
    return told.stdout.strip() if told.returncode == 0 else ""


def make(chosen: Recipe) -> Steps[str]:
    """Bootstrap into a temporary directory, import it, and leave nothing behind: the image's id.

    About a minute, as root.
    """
    made = yield command("mktemp", "-d", "/var/tmp/gpu-profile-base.XXXXXX")
    directory = PurePosixPath(made.stdout.strip() or "/var/tmp/gpu-profile-base.XXXXXX")
    for step in _commands(chosen, directory):
        last = yield step
        if last.returncode:
            break
    yield command("rm", "-rf", "--one-file-system", str(directory))
    if last.returncode:
        raise _explain(last)
    return last.stdout.strip()


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
