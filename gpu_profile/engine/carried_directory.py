"""Bring nsys to a machine without it: a directory of its user, named by the digest of its files."""

import shlex
from pathlib import Path

from gpu_profile.carrier import CARRIED_TO, Carrier
from gpu_profile.command import ENGINE, Command, Steps, make_command
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.engine import carrier_volume, engine_answers
from gpu_profile.errors import ToolError
from gpu_profile.launchers.agent.job_directory import Agent
from gpu_profile.launchers.agent.transfer import own_directory
from gpu_profile.remote_host import RemoteHost
from gpu_profile.settings.places import cache_folder

_HINT = "Name another directory by SSH_DIR, make room, or install nsight-systems-cli there"


def bring_directory(
    place: RemoteHost, agent: Agent, image: ImageRef, parent: str, *, shared: bool = False
) -> Steps[Carrier]:
    """Return the carrier in a directory below `parent` on a machine; copy it there if need be.

    Our image on this machine's engine has the files. A directory that was copied earlier is used
    again if all its files have their digests. `shared`: other users can reach what is above
    `parent`, so that must belong to this user alone. Raises ToolError where nsys does not work
    there.
    """
    if shared:
        above = shlex.quote(parent)
        checked = yield place.shell(f"test ! -e {above} || {{ {own_directory(above)}; }}")
        place.checked(checked, f"looking at {parent}")
    facts = yield from carrier_volume.describe_carrier(image)
    directory = f"{parent}/carrier-{facts['digest'][:12]}"
    check = place.run("python3", "-", "check", directory, stdin=agent.text("carried.py"))
    present = yield check
    place.reached(present, f"asking {place.host}")
    if present.returncode:
        yield from _copy_directory(place, agent, image, directory)
        checked = yield check
        if checked.returncode:
            what = f"nsys cannot be carried to {place.host or 'this machine'}: {checked.last_line}"
            raise ToolError(what, _HINT)
    return Carrier(
        source=directory, digest=facts["digest"], glibc=facts["glibc"], directory=directory
    )


def _copy_directory(
    place: RemoteHost, agent: Agent, image: ImageRef, directory: str
) -> Steps[None]:
    """Copy the files there by tar. They appear by rename, so that a cut copy is not taken."""
    archive = cache_folder().absolute() / "carrier.tar"
    yield make_command("mkdir", "-p", str(archive.parent))
    pack = ("--entrypoint=tar", str(image), "-C", CARRIED_TO, "-cf", "-", "agent", "carrier")
    words = (ENGINE, "run", "--rm", "--pull=never", "--network=none", *pack)
    packed = yield Command(argv=words, stdout_file=archive)
    engine_answers.check_engine_result(packed, f"taking nsys out of {image}")
    there, new = shlex.quote(directory), shlex.quote(f"{directory}.new")
    unpack = f"umask 077 && rm -rf {new} && mkdir -p {new} && tar -xof - -C {new}"
    line = f"{unpack} && rm -rf {there} && mv {new} {there}"
    sent = yield place.shell(line, stdin_file=archive)
    yield agent.call("job.py", "discard", str(archive))
    place.checked(sent, f"copying nsys to {directory}")


def name_cache() -> str:
    """Return the folder of this machine's user for what can be made anew."""
    return str(Path(cache_folder()).absolute())
