"""Commands of docker compose, the plugin of the engine's command line, and what it says."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_profile.command import ENGINE, Command, Steps, make_command
from gpu_profile.errors import SettingsError, ToolError

_INSTALL = (
    "Install its package: docker-compose-plugin of Docker, docker-compose-v2 of Ubuntu,"
    " docker-compose of Debian 13"
)


def read_compose_file(file: Path, *, with_profiles: bool) -> Steps[Mapping[str, Any]]:
    """Return a compose file with all that it includes, as JSON. Raises ToolError without compose.

    Variables are replaced and anchors followed; nothing is started. `with_profiles`: also services
    that only a profile enables, which `docker compose run` enables for the service that it names.
    """
    version = yield make_command(ENGINE, "compose", "version", "--short")
    if version.returncode:
        raise ToolError(f"there is no docker compose here: {version.last_line}", _INSTALL)
    profiles = ["--profile=*"] if with_profiles else []
    words = ("compose", f"--file={file}", *profiles, "config", "--format=json")
    config = yield make_command(ENGINE, *words)
    if config.returncode:
        raise SettingsError(
            f"docker compose refuses {file.name}: {config.last_line}", "Mend the file"
        )
    facts: Mapping[str, Any] = json.loads(config.stdout or "{}")
    return facts


def run_service(file: Path, override: Path, service: str, name: str) -> Command:
    """Return the command that starts a service in a container of its own, with its ports and name.

    What the service depends on is started too. The service's own container is left as it is.
    """
    return make_command(
        *(ENGINE, "compose", f"--file={file}", f"--file={override}", "run", "--detach"),
        *("--no-TTY", f"--name={name}", "--service-ports", "--use-aliases", service),
    )
