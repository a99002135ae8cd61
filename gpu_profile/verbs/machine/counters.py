"""counters: let every user of a host read GPU counters, or undo it."""

import os

from gpu_profile import process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.jobs import launcher_of
from gpu_profile.cli.options.machine import CountersOptions
from gpu_profile.cli.terminal import ask_user
from gpu_profile.doctor import gpu_counters as counter_access
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.launchers.agent.place import RemoteHost
from gpu_profile.launchers.host import HostLauncher
from gpu_profile.launchers.ssh import SshLauncher


def counters(options: CountersOptions) -> None:
    """Let every user of a host read GPU counters, or undo that, after showing the commands."""
    chosen = load_settings(options)
    if options.allow == options.restrict:
        raise SettingsError("counters needs one of --allow and --restrict")
    launcher = launcher_of(chosen.launcher, chosen)
    if not isinstance(launcher, HostLauncher | SshLauncher):
        raise SettingsError("counters are a host's", "Use --on host, or --on ssh --host …")
    place = launcher.place() if isinstance(launcher, SshLauncher) else RemoteHost()
    root = _root_here(place) if options.dry_run else process.drive(launcher.facts())["root"]
    change = counter_access.allow_counters if options.allow else counter_access.restrict_counters
    for command in process.plan(change(place, root=root)):
        print(f"  {command}" + (f"  <<< {command.stdin.strip()}" if command.stdin else ""))
    if options.dry_run:
        return
    if not ask_user("Do this?", yes=options.yes):
        raise ToolError("nothing was changed", "`./inv counters … --yes` does it")
    process.drive(change(place, root=root))
    print(f"{counter_access.AFTERWARDS}.")


def _root_here(place: RemoteHost) -> bool:
    """Return whether this user is root on this machine; False for a remote one."""
    if place.host:
        print("# As root there, the same without sudo.")
        return False
    return hasattr(os, "geteuid") and os.geteuid() == 0
