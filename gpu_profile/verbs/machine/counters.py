"""counters: let every user of a host read GPU counters, or undo it."""

import os

from gpu_profile import process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.jobs import launcher_of, name_launchers
from gpu_profile.cli.options.machine import CountersOptions
from gpu_profile.cli.terminal import ask_user
from gpu_profile.doctor import gpu_counters
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.launcher import ImageFrom


def counters(options: CountersOptions) -> None:
    """Let every user of a host read GPU counters, or undo that, after showing the commands."""
    settings = load_settings(options)
    if options.allow == options.restrict:
        raise SettingsError("counters needs one of --allow and --restrict")
    launcher = launcher_of(settings.launcher, settings)
    place = launcher.host()
    if place is None:
        hosts = name_launchers(lambda other: other.possible_images == {ImageFrom.NOWHERE})
        raise SettingsError("counters are a host's", f"Use --on {hosts}")
    root = _root_here(place.host) if options.dry_run else process.drive(gpu_counters.is_root(place))
    change = gpu_counters.allow_counters if options.allow else gpu_counters.restrict_counters
    for command in process.plan(change(place, root=root)):
        print(f"  {command}" + (f"  <<< {command.stdin.strip()}" if command.stdin else ""))
    if options.dry_run:
        return
    if not ask_user("Do this?", yes=options.yes):
        raise ToolError("nothing was changed", "`invoke counters … --yes` does it")
    process.drive(change(place, root=root))
    print(f"{gpu_counters.AFTERWARDS}.")


def _root_here(address: str) -> bool:
    """Return whether this user is root on this machine; False for a remote one."""
    if address:
        print("# As root there, the same without sudo.")
        return False
    return hasattr(os, "geteuid") and os.geteuid() == 0
