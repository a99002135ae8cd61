"""Find Docker Engine and buildx: their address, answer and versions.

Each step is a Command; creating one runs nothing.
"""

import json
from dataclasses import dataclass

from packaging.version import Version

from gpu_profile.command import ENGINE, Command, Result, Steps, make_command
from gpu_profile.declared.version import parse_version

OLDEST = Version("23.0")
"""The first engine whose built-in Dockerfile frontend knows COPY --link."""
SOCKET_ADVICE = (
    "`sudo usermod -aG docker $USER` and a new log-in let you use it (the docker group has root's"
    " rights on this machine); or run this as root: `sudo ./inv …`"
)
"""What to do if the engine's socket refuses this user."""
_SYSTEM_SOCKETS = {"", "unix:///var/run/docker.sock", "unix:///run/docker.sock"}


@dataclass(frozen=True, kw_only=True)
class Engine:
    """What the docker client reports; an empty field means that it is missing.

    `problem` is the engine's message. `endpoint` is the address of the client, such as
    unix:///var/run/docker.sock: from DOCKER_HOST, `docker context`, or the default.
    `rootless_socket` is this user's own engine, if there is one that the client does not use.
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
        """Whether an engine runs but this user has no right to its socket."""
        local = self.endpoint.startswith("unix://") or not self.endpoint
        return not self.server and local and "permission denied" in self.problem.lower()

    @property
    def is_systems(self) -> bool:
        """Whether the client uses the system's engine, which apt installs and root starts."""
        return self.endpoint in _SYSTEM_SOCKETS

    @property
    def has_gpus(self) -> bool:
        return "nvidia" in self.runtimes


def probe_engine() -> Steps[Engine]:
    """Ask the client, the engine and buildx. Missing ones are empty fields, never errors."""
    version = yield _ask_engine("version --format '{{json .}}'")
    buildx = yield _ask_engine("buildx version")
    info_result = yield _ask_engine("info --format '{{json .}}'")
    endpoint = yield _ask_engine("context inspect --format '{{.Endpoints.docker.Host}}'")
    rootless = yield _make_shell_command(
        'socket=$XDG_RUNTIME_DIR/docker.sock; [ ! -S "$socket" ] || echo "$socket"'
    )
    version_fields, info = _parse_json(version.stdout), _parse_json(info_result.stdout)
    server = version_fields.get("Server") or {}
    root = str(info.get("DockerRootDir", ""))
    # -P: one line, also where the device has a long name.
    space = yield make_command("df", "-Pk", root or "/")
    return Engine(
        client=str((version_fields.get("Client") or {}).get("Version", "")),
        server=str(server.get("Version", "")),
        buildx=_parse_buildx_version(buildx),
        runtimes=tuple(sorted(info.get("Runtimes") or {})),
        root=root,
        free_gib=_parse_free_gib(space) if root else None,
        problem="" if server else version.last_line,
        endpoint=endpoint.stdout.strip() if endpoint.returncode == 0 else "",
        rootless="name=rootless" in (info.get("SecurityOptions") or []),
        rootless_socket=rootless.stdout.strip(),
    )


def _ask_engine(words: str) -> Command:
    return _make_shell_command(f"{ENGINE} {words}")


def _make_shell_command(line: str) -> Command:
    """Return a shell command: there a missing program is exit code 127, not an exception."""
    return make_command("sh", "-c", line)


def _parse_json(text: str) -> dict[str, dict[str, object]]:
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _parse_buildx_version(result: Result) -> str:
    words = result.stdout.split()
    return words[1].lstrip("v") if result.returncode == 0 and len(words) > 1 else ""


def _parse_free_gib(result: Result) -> float | None:
    words = result.stdout.splitlines()[-1].split() if result.returncode == 0 else []
    return int(words[3]) / 2**20 if len(words) > 3 and words[3].isdecimal() else None


def is_recent(server: str) -> bool:
    """Return whether an engine of this version, as in "29.0.1+dfsg", can build our images."""
    version = parse_version(server)
    return version is not None and version >= OLDEST
