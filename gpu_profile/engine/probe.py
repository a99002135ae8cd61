"""Docker Engine with buildx: is it here, is it new enough, and how Debian and Ubuntu get it.

Every step is a Command: building them has no effects.
"""

import json
from dataclasses import dataclass

from gpu_profile import distribution
from gpu_profile.command import Command, Result, Steps, command
from gpu_profile.distribution import Distribution
from gpu_profile.errors import ToolError

OLDEST = (23, 0)
"""The first engine whose own Dockerfile frontend knows COPY --link."""
_LOG = "/tmp/dockerd.log"
_WAIT_S = 40


@dataclass(frozen=True, kw_only=True)
class Engine:
    """What was found. Empty: not there. `problem` is the engine's own words."""

    client: str = ""
    server: str = ""
    buildx: str = ""
    runtimes: tuple[str, ...] = ()
    root: str = ""
    free_gib: float | None = None
    problem: str = ""

    @property
    def has_gpus(self) -> bool:
        return "nvidia" in self.runtimes


@dataclass(frozen=True, kw_only=True)
class Check:
    """One line of `invoke doctor`: what was found, and what to do where it is not well."""

    name: str
    ok: bool
    found: str
    advice: str = ""


def probe() -> Steps[Engine]:
    """Ask the client, the engine and buildx. Never raises for what is missing."""
    version = yield _shell("docker version --format '{{json .}}'")
    buildx = yield _shell("docker buildx version")
    told = yield _shell("docker info --format '{{json .}}'")
    found, info = _json(version.stdout), _json(told.stdout)
    server = found.get("Server") or {}
    root = str(info.get("DockerRootDir", ""))
    space = yield command("df", "-Pk", root or "/")
    return Engine(
        client=str((found.get("Client") or {}).get("Version", "")),
        server=str(server.get("Version", "")),
        buildx=_buildx_version(buildx),
        runtimes=tuple(sorted(info.get("Runtimes") or {})),
        root=root,
        free_gib=_free_gib(space) if root else None,
        problem="" if server else version.said,
    )


def _shell(line: str) -> Command:
    """Through a shell, a program that is not there is an exit code like any other."""
    return command("sh", "-c", line)


def _json(text: str) -> dict[str, dict[str, object]]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _buildx_version(result: Result) -> str:
    words = result.stdout.split()
    return words[1].lstrip("v") if result.returncode == 0 and len(words) > 1 else ""


def _free_gib(result: Result) -> float | None:
    words = result.stdout.splitlines()[-1].split() if result.returncode == 0 else []
    return int(words[3]) / 2**20 if len(words) > 3 and words[3].isdecimal() else None


def version_of(text: str) -> tuple[int, ...]:
    parts = text.split("+")[0].split("-")[0].split(".")
    return tuple(int(part) for part in parts if part.isdecimal())


def checks(engine: Engine) -> tuple[Check, ...]:
    """What is missing for building and running images, with what to do about each."""
    fix = "`invoke doctor --fix` installs and starts it on Debian and Ubuntu"
    space = engine.free_gib
    return (
        Check(name="docker client", ok=bool(engine.client), found=engine.client, advice=fix),
        Check(
            name="docker engine",
            ok=version_of(engine.server) >= OLDEST,
            found=engine.server or engine.problem,
            advice=fix if not engine.server else f"Docker Engine {OLDEST[0]} or newer is needed",
        ),
        Check(name="docker buildx", ok=bool(engine.buildx), found=engine.buildx, advice=fix),
        Check(
            name="docker disk space",
            ok=space is None or space >= 15,
            found="" if space is None else f"{space:.0f} GiB free in {engine.root}",
            advice="An image takes 3 to 15 GiB: `docker system prune` makes room",
        ),
        Check(
            name="docker GPUs",
            ok=engine.has_gpus,
            found="nvidia runtime" if engine.has_gpus else "no nvidia runtime: jobs run on CPUs",
            advice="For GPUs install the NVIDIA driver and the NVIDIA Container Toolkit",
        ),
    )


def require(engine: Engine) -> None:
    """Raises ToolError, with the advice, for the first thing that a build cannot do without."""
    for check in checks(engine)[:3]:
        if not check.ok:
            raise ToolError(f"{check.name}: {check.found or 'not there'}", check.advice)


def plan_fix(engine: Engine) -> Steps[tuple[Command, ...]]:
    """What to run, as root, so that an engine is here and runs: nothing where it does.

    Asks this machine, changes nothing. Raises ToolError where it is neither Debian nor Ubuntu.
    """
    if engine.client and engine.buildx and version_of(engine.server) >= OLDEST:
        return ()
    installed = yield _shell("command -v dockerd && docker buildx version")
    commands: tuple[Command, ...] = ()
    if installed.returncode:
        commands = install((yield from distribution.probe()))
    return commands if engine.server else (*commands, *start())


def apply(commands: tuple[Command, ...]) -> Steps[None]:
    """Run what plan_fix planned. Raises ToolError at the first command that fails."""
    for each in commands:
        result = yield each
        if result.returncode:
            raise ToolError(f"`{each}` failed: {result.said}", "Run it as root to see more")


def install(found: Distribution) -> tuple[Command, ...]:
    """From the distribution's own archive. Debian 12's is too old: Debian 13's, pinned low."""
    engine = ["docker.io", "docker-buildx"] + ["docker-cli", "containerd"] * (found.id == "debian")
    old = found.id == "debian" and found.codename == "bookworm"
    sources = _trixie_commands(found) if old else ()
    wanted = [f"{name}/trixie" if old else name for name in engine]
    helpers = ("iptables", "debootstrap")
    return (
        *sources,
        command("apt-get", "update"),
        Command(
            argv=("apt-get", "install", "-y", "--no-install-recommends", *wanted, *helpers),
            env={"DEBIAN_FRONTEND": "noninteractive"},
        ),
    )


def _trixie_commands(found: Distribution) -> tuple[Command, ...]:
    source = (
        f"Types: deb\nURIs: {found.mirror}\nSuites: trixie\nComponents: main\n"
        f"Signed-By: {found.keyring}\n"
    )
    pin = "Package: *\nPin: release n=trixie\nPin-Priority: 100\n"
    return (
        command("tee", "/etc/apt/sources.list.d/gpu-profile-trixie.sources", stdin=source),
        command("tee", "/etc/apt/preferences.d/gpu-profile-trixie", stdin=pin),
    )


def start() -> tuple[Command, Command]:
    """Through systemd where it runs, otherwise in a session of its own; then wait for it."""
    return (
        _shell(
            "if [ -d /run/systemd/system ]; then systemctl enable --now docker;"
            f" else setsid dockerd >{_LOG} 2>&1 </dev/null & fi"
        ),
        _shell(
            f"for i in $(seq {_WAIT_S}); do docker version >/dev/null 2>&1 && exit 0; sleep 1;"
            f" done; echo 'no answer within {_WAIT_S} s: see {_LOG}' >&2; exit 1"
        ),
    )
