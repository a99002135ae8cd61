"""Docker Engine with buildx: where the client looks for it, what it answers, how new it is.

Every step is a Command: building them has no effects.
"""

import json
from dataclasses import dataclass

from gpu_profile.command import Command, Result, Steps, make_command

OLDEST = (23, 0)
"""The first engine whose own Dockerfile frontend knows COPY --link."""
SOCKET_ADVICE = (
    "`sudo usermod -aG docker $USER` and a new log-in let you use it (the docker group has root's"
    " rights on this machine); or run this as root: `sudo ./inv …`"
)
"""What a user can do whom the engine's socket refuses."""
_SYSTEM_SOCKETS = {"", "unix:///var/run/docker.sock", "unix:///run/docker.sock"}


@dataclass(frozen=True, kw_only=True)
class Engine:
    """What was found. Empty: not there. `problem` is the engine's own words.

    `endpoint` is the address that the client uses, as in unix:///var/run/docker.sock: that of
    DOCKER_HOST, of `docker context`, or the default. `rootless_socket` is this user's own engine,
    where there is one that the client does not use.
    """

    client: str = ""
    server: str = ""
    buildx: str = ""
    runtimes: tuple[str, ...] = ()
    root: str = ""
    free_gib: float | None = None
    problem: str = ""
    endpoint: str = ""
    rootless: bool = False
    rootless_socket: str = ""

    @property
    def refuses_user(self) -> bool:
        """Whether an engine is there whose socket this user has no right to."""
        local = self.endpoint.startswith("unix://") or not self.endpoint
        return not self.server and local and "permission denied" in self.problem.lower()

    @property
    def is_systems(self) -> bool:
        """Whether the client means the system's own engine, which apt installs and root starts."""
        return self.endpoint in _SYSTEM_SOCKETS

    @property
    def has_gpus(self) -> bool:
        return "nvidia" in self.runtimes


def probe_engine() -> Steps[Engine]:
    """Ask the client, the engine and buildx. Never raises for what is missing."""
    version = yield _make_shell_command("docker version --format '{{json .}}'")
    buildx = yield _make_shell_command("docker buildx version")
    info_result = yield _make_shell_command("docker info --format '{{json .}}'")
    endpoint = yield _make_shell_command(
        "docker context inspect --format '{{.Endpoints.docker.Host}}'"
    )
    rootless = yield _make_shell_command(
        'socket=$XDG_RUNTIME_DIR/docker.sock; [ ! -S "$socket" ] || echo "$socket"'
    )
    version_fields, info = _parse_json(version.stdout), _parse_json(info_result.stdout)
    server = version_fields.get("Server") or {}
    root = str(info.get("DockerRootDir", ""))
    space = yield make_command("df", "-Pk", root or "/")
    return Engine(
        client=str((version_fields.get("Client") or {}).get("Version", "")),
        server=str(server.get("Version", "")),
        buildx=_buildx_version(buildx),
        runtimes=tuple(sorted(info.get("Runtimes") or {})),
        root=root,
        free_gib=_free_gib(space) if root else None,
        problem="" if server else version.said,
        endpoint=endpoint.stdout.strip() if endpoint.returncode == 0 else "",
        rootless="name=rootless" in (info.get("SecurityOptions") or []),
        rootless_socket=rootless.stdout.strip(),
    )


def _make_shell_command(line: str) -> Command:
    """Through a shell, a program that is not there is an exit code like any other."""
    return make_command("sh", "-c", line)


def _parse_json(text: str) -> dict[str, dict[str, object]]:
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _buildx_version(result: Result) -> str:
    words = result.stdout.split()
    return words[1].lstrip("v") if result.returncode == 0 and len(words) > 1 else ""


def _free_gib(result: Result) -> float | None:
    words = result.stdout.splitlines()[-1].split() if result.returncode == 0 else []
    return int(words[3]) / 2**20 if len(words) > 3 and words[3].isdecimal() else None


def version_of(text: str) -> tuple[int, ...]:
    parts = text.split("+")[0].split("-")[0].split(".")
    return tuple(int(part) for part in parts if part.isdecimal())
