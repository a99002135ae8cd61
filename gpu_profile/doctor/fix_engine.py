"""`doctor --fix`: install and start Docker Engine on Debian and Ubuntu, with sudo where needed."""

import dataclasses
import shlex
from collections.abc import Iterable

from gpu_profile.command import ENGINE, Command, Steps, make_command
from gpu_profile.engine import distribution
from gpu_profile.engine.distribution import Distribution
from gpu_profile.engine.probe import Engine, _make_shell_command, is_recent
from gpu_profile.errors import ToolError

_LOG = "/var/log/gpu-profile-dockerd.log"
"""dockerd's log. dockerd writes as root; on Ubuntu the group syslog may create files here too."""
_WAIT_S = 40
"""How long a new engine is waited for. dockerd itself gives containerd 15 s to start
(startupTimeout):
https://github.com/moby/moby/blob/v27.0.0/libcontainerd/supervisor/remote_daemon.go"""


def plan_fix(engine: Engine) -> Steps[tuple[Command, ...]]:
    """Return the commands, to be run as root, that install and start an engine.

    Empty where no package helps: the socket refuses this user, or the client uses another address,
    such as this user's rootless engine. It asks this machine and changes nothing. Raises ToolError
    unless it is Debian or Ubuntu.
    """
    if engine.client and engine.buildx and is_recent(engine.server):
        return ()
    elsewhere = engine.rootless_socket or not engine.is_systems
    if engine.refuses_user or (engine.client and elsewhere):
        return ()
    installed = yield _make_shell_command("command -v dockerd && docker buildx version")
    commands: tuple[Command, ...] = ()
    if installed.returncode:
        commands = plan_install((yield from distribution.probe_distribution()))
    return commands if engine.server else (*commands, *plan_start())


def for_user(
    commands: tuple[Command, ...], *, is_root: bool, has_sudo: bool
) -> tuple[Command, ...]:
    """Return the commands as this user can run them, with sudo unless the user is root.

    Without sudo, raises ToolError with all commands in one line, for an administrator to run.
    """
    if is_root:
        return commands
    if not has_sudo:
        raise ToolError(
            "No usable Docker Engine here, and neither root's rights nor sudo to install one",
            f"As root: `{one_line(commands)}`",
        )
    return with_sudo(commands)


def with_sudo(commands: Iterable[Command]) -> tuple[Command, ...]:
    """Return the commands for a user who is not root: `sudo env NAME=value … program …`."""
    return tuple(
        dataclasses.replace(
            command,
            argv=("sudo", *_list_assignments(command), *command.argv),
            env={},
        )
        for command in commands
    )


def _list_assignments(command: Command) -> tuple[str, ...]:
    words = (f"{name}={value}" for name, value in sorted(command.env.items()))
    return ("env", *words) if command.env else ()


def one_line(commands: Iterable[Command]) -> str:
    """Return the commands as one shell line, for an administrator to paste."""
    return " && ".join(_shell_words(command) for command in commands)


def _shell_words(command: Command) -> str:
    if not command.stdin:
        return str(command)
    # printf reads backslashes and per cent signs of its first word.
    text = command.stdin.replace("\\", "\\\\").replace("%", "%%").replace("\n", "\\n")
    return f"printf {shlex.quote(text)} | {dataclasses.replace(command, stdin='')}"


def run_fix(commands: tuple[Command, ...]) -> Steps[None]:
    """Run what plan_fix planned. Raises ToolError at the first command that fails."""
    for command in commands:
        result = yield command
        if result.returncode:
            raise ToolError(f"`{command}` failed: {result.last_line}", "Run it as root to see more")


def plan_install(machine: Distribution) -> tuple[Command, ...]:
    """Return the commands that install Docker Engine from the distribution's archive.

    Debian 12's version is too old: Debian 13's is used, pinned below Debian 12's own packages.
    Raises ToolError if apt knows no mirror that has it.
    """
    engine = ["docker.io", "docker-buildx"] + ["docker-cli", "containerd"] * (
        machine.id == "debian"
    )
    old = machine.id == "debian" and machine.codename == "bookworm"
    sources = _make_trixie_commands(machine) if old else ()
    packages = [f"{name}/trixie" if old else name for name in engine]
    helpers = ("iptables", "mmdebstrap", "uidmap")
    return (
        *sources,
        make_command("apt-get", "update"),
        Command(
            argv=("apt-get", "install", "-y", "--no-install-recommends", *packages, *helpers),
            env={"DEBIAN_FRONTEND": "noninteractive"},
        ),
    )


def _make_trixie_commands(machine: Distribution) -> tuple[Command, ...]:
    if not machine.mirror:
        raise ToolError(
            "Docker Engine comes from Debian 13, and apt's sources name no mirror of Debian",
            "Add one to /etc/apt/sources.list, run apt-get update, then again",
        )
    source = (
        f"Types: deb\nURIs: {machine.mirror}\nSuites: trixie\nComponents: main\n"
        f"Signed-By: {machine.keyring}\n"
    )
    pin = "Package: *\nPin: release n=trixie\nPin-Priority: 100\n"
    return (
        make_command("tee", "/etc/apt/sources.list.d/gpu-profile-trixie.sources", stdin=source),
        make_command("tee", "/etc/apt/preferences.d/gpu-profile-trixie", stdin=pin),
    )


def plan_start(log: str = _LOG, state: str = "/run") -> tuple[Command, Command]:
    """Return the commands that start the engine and wait for it.

    systemd starts it if it runs here; otherwise dockerd gets its own session, and a new file for
    its log: `set -C` makes the shell open it with O_EXCL, which follows no link. The files of
    process ids under `state` go first if their process is another program: dockerd does not start
    while a process of that id runs, whatever it is, and ids are used again after kill -9.
    """
    return (
        _make_shell_command(
            "if [ -d /run/systemd/system ]; then systemctl enable --now docker; else"
            f" for file in {state}/docker.pid {state}/docker/containerd/containerd.pid; do"
            ' grep -qsE "^(dockerd|containerd)$" "/proc/$(cat "$file" 2>/dev/null)/comm" ||'
            ' rm -f "$file"; done;'
            f" rm -f {log} && set -C && {{ setsid dockerd >{log} 2>&1 </dev/null & }}; fi"
        ),
        _make_shell_command(
            f"for i in $(seq {_WAIT_S}); do {ENGINE} version >/dev/null 2>&1 && exit 0; sleep 1;"
            f' done; echo "no answer within {_WAIT_S} s: see {log}'
            f' $(tail -n 1 {log} 2>/dev/null)" >&2; exit 1'
        ),
    )
