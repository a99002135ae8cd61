"""The embedded base image, bootstrapped from this machine's apt mirrors by mmdebstrap.

For machines that reach no image registry. The tag is a hash of the recipe, so the base is made
once, and again only on request. mmdebstrap runs as root or in a user namespace.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from gpu_profile.command import ENGINE, Command, Result, Steps, make_command, make_engine_command
from gpu_profile.declared.base_name import EMBEDDED_REPOSITORY, is_embedded
from gpu_profile.declared.check import Check
from gpu_profile.engine import distribution
from gpu_profile.engine.distribution import Distribution
from gpu_profile.errors import BuildError, ToolError

SUITES_LABEL = "io.github.gpu-profile.suites"
"""The base's suites, as in "trixie trixie-updates trixie-security"."""
_BASE_LABEL = "org.opencontainers.image.base.name"
_RENEW = "`invoke build --rebuild-base` makes it with the updates of today"
_OLDEST_DAYS = 30
"""The age from which doctor warns: Debian publishes security updates every few days."""
_SUITES = {"debian": "trixie"}
_SECTIONS = {"debian": "main contrib non-free", "ubuntu": "main universe restricted multiverse"}
_REMOVE_COPIES = 'rm -f "$1/etc/hostname" "$1/etc/resolv.conf" "$1/etc/machine-id"'
"""Removes files of this machine: mmdebstrap copies hostname and resolv.conf."""
_FIND_MISSING = """\
command -v mmdebstrap >/dev/null || echo mmdebstrap
[ "$(id -u)" != 0 ] || exit 0
command -v newuidmap >/dev/null || echo uidmap
for file in /etc/subuid /etc/subgid; do
  grep -qs "^$(id -un):" "$file" || echo "$file"
done
unshare --user true 2>/dev/null || echo namespaces
"""
"""Prints what this user lacks for mmdebstrap's unshare mode (manpages.debian.org/mmdebstrap)."""
_OTHERWISE = "or set BASE_IMAGE to an image that this machine reaches"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The inputs of an embedded base.

    Debian is always trixie, the first release whose Open MPI, PyTorch and nsys are recent enough.
    Ubuntu is this machine's release. Without `security_mirror` the base lacks security updates.
    """

    distribution: str
    suite: str
    sections: str
    mirror: str
    keyring: str
    security_mirror: str = ""

    @property
    def sources(self) -> tuple[str, ...]:
        """The lines of sources.list, such as "deb http://… trixie-updates main contrib"."""
        mirrors = {self.suite: self.mirror, f"{self.suite}-updates": self.mirror}
        if self.security_mirror:
            mirrors[f"{self.suite}-security"] = self.security_mirror
        return tuple(f"deb {mirror} {suite} {self.sections}" for suite, mirror in mirrors.items())

    @property
    def suites(self) -> str:
        return " ".join(line.split()[2] for line in self.sources)

    @property
    def tag(self) -> str:
        parts = (self.distribution, *self.sources, _REMOVE_COPIES)
        return f"{EMBEDDED_REPOSITORY}:{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"


@dataclass(frozen=True, kw_only=True)
class BaseImage:
    """An embedded base. `identity` is the engine's image id, empty until `recipe` is made."""

    tag: str
    identity: str
    recipe: Recipe | None = None


def make_recipe(machine: Distribution) -> Recipe:
    """Return the recipe for this distribution. Raises ToolError if apt has no mirror of it."""
    if not machine.mirror:
        raise ToolError(
            f"The embedded base needs a mirror of {machine.id}, and apt's sources name none",
            "Add one to apt's sources and run apt-get update, or set BASE_IMAGE to an image",
        )
    return Recipe(
        distribution=machine.id,
        suite=_SUITES.get(machine.id, machine.codename),
        sections=_SECTIONS[machine.id],
        mirror=machine.mirror,
        keyring=machine.keyring,
        security_mirror=machine.security_mirror,
    )


def find_base(tag: str = "", *, anew: bool = False) -> Steps[BaseImage]:
    """Return the base of this tag if the engine has it, otherwise that of this machine's recipe."""
    identity = (yield from _read_identity(tag)) if tag and not anew else ""
    if identity:
        return BaseImage(tag=tag, identity=identity)
    chosen = make_recipe((yield from distribution.probe_distribution()))
    identity = "" if anew else (yield from _read_identity(chosen.tag))
    return BaseImage(tag=chosen.tag, identity=identity, recipe=chosen)


def _read_identity(tag: str) -> Steps[str]:
    inspect_result = yield make_engine_command("image", "inspect", "--format", "{{.Id}}", tag)
    return inspect_result.stdout.strip() if inspect_result.returncode == 0 else ""


def check_age(now: datetime, image_name: str) -> Steps[tuple[Check, ...]]:
    """Return the age and suites of the embedded base of an image; nothing if it has another base.

    An image keeps its base until --rebuild-base, so the newest base of this machine may be another
    one. The newest counts only if there is no such image yet.
    """
    name = yield from _find_base_of(image_name)
    if not name:
        return ()
    inspected = yield make_engine_command("image", "inspect", "--format={{json .}}", name)
    if inspected.returncode:
        ok, result = False, f"{name}, which {image_name} is built on, is not here any more"
    else:
        ok, result = _judge_age(json.loads(inspected.stdout), now)
    return (Check(name="security updates", ok=ok, result=result, advice=_RENEW),)


def _find_base_of(image_name: str) -> Steps[str]:
    """Return the embedded base of an image, or the newest if there is no such image; else ""."""
    form = f'--format={{{{index .Config.Labels "{_BASE_LABEL}"}}}}'
    labelled = yield make_engine_command("image", "inspect", form, image_name)
    if labelled.returncode:
        listed = yield make_engine_command("image", "ls", "--quiet", EMBEDDED_REPOSITORY)
        return listed.stdout.split()[0] if listed.stdout.split() else ""
    name = labelled.stdout.strip()
    return name if is_embedded(name) else ""


def _judge_age(image: Mapping[str, Any], now: datetime) -> tuple[bool, str]:
    """Return whether a base, as the engine describes it, has its updates, and the words on it."""
    suites = str((image["Config"].get("Labels") or {}).get(SUITES_LABEL, ""))
    # Without the fraction: Go writes nine digits, and Python before 3.11 reads three or six.
    days = (now - datetime.fromisoformat(f"{image['Created'][:19]}+00:00")).days
    has_security = "-security" in suites
    words = suites if has_security else "without a security suite"
    return days <= _OLDEST_DAYS and has_security, f"embedded base, {days} days old, {words}"


def make_base(chosen: Recipe) -> Steps[str]:
    """Bootstrap the base, import it into the engine and return the image's id. About a minute.

    Works in a temporary directory. Raises ToolError if this user lacks something for it.
    """
    missing = yield make_command("sh", "-c", _FIND_MISSING)
    _refuse_missing(missing.stdout.split())
    directory_result = yield make_command("mktemp", "-d", "/var/tmp/gpu-profile-base.XXXXXX")
    directory = PurePosixPath(directory_result.stdout.strip() or "/var/tmp/gpu-profile-base.XXXXXX")
    for step in _list_commands(chosen, directory):
        last = yield step
        if last.returncode:
            break
    # Where a killed mmdebstrap left a file system mounted, such as /proc, it is not emptied.
    yield make_command("rm", "-rf", "--one-file-system", str(directory))
    if last.returncode:
        raise _explain_failure(last)
    return last.stdout.strip()


def _refuse_missing(missing: list[str]) -> None:
    packages = [name for name in missing if name in {"mmdebstrap", "uidmap"}]
    files = [name for name in missing if name.startswith("/")]
    if packages:
        needed = f"The embedded base needs {' and '.join(packages)}, not installed here"
        raise ToolError(needed, f"`sudo apt-get install {' '.join(packages)}`, {_OTHERWISE}")
    if files:
        raise ToolError(
            f"The embedded base needs a line for this user in {' and '.join(files)}",
            "`sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER`,"
            f" {_OTHERWISE}",
        )
    if missing:
        raise ToolError(
            "This user may make no user namespace, which the embedded base needs",
            f"Build as root, {_OTHERWISE}",
        )


def _list_commands(chosen: Recipe, directory: PurePosixPath) -> tuple[Command, ...]:
    archive = str(directory / "base.tar")
    return (
        Command(
            argv=(
                *("mmdebstrap", "--variant=minbase", f"--keyring={chosen.keyring}"),
                # engines make /dev; a rootless one may not create device nodes
                "--skip=output/dev",
                f"--customize-hook={_REMOVE_COPIES}",
                *(chosen.suite, archive, *chosen.sources),
            ),
            # /tmp may be a tmpfs. unsafe-io skips fsync: a base that was interrupted is never
            # used.
            env={"TMPDIR": "/var/tmp", "DPKG_FORCE": "unsafe-io"},
        ),
        make_command(
            *(ENGINE, "import", "--change", 'CMD ["/bin/bash"]'),
            *("--change", f"LABEL org.opencontainers.image.title={EMBEDDED_REPOSITORY}"),
            *("--change", f"LABEL org.opencontainers.image.version={chosen.suite}"),
            *("--change", f'LABEL {SUITES_LABEL}="{chosen.suites}"'),
            *(archive, chosen.tag),
        ),
    )


def _explain_failure(failed: Result) -> BuildError:
    reason = next(
        (line for line in failed.stderr.splitlines() if line.startswith("E: ")), failed.last_line
    )
    return BuildError(
        f"The embedded base was not made: {reason}",
        "Set BASE_IMAGE to an image that this machine reaches",
    )
