"""Log a docker CLI in to a registry, on request, after showing what will be written."""

import base64
import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_profile.analysis.store.files.temporary import TemporaryFolder
from gpu_profile.command import ENGINE, Command
from gpu_profile.engine.api import Auth
from gpu_profile.errors import RegistryError
from gpu_profile.files import PRIVATE, write_atomically
from gpu_profile.registry.address import Registry

_ECR_HELPER = "ecr-login"


@dataclass(frozen=True, kw_only=True)
class LoginPlan:
    """What `login` will do. Either `command` or `config` is set.

    `writes_secret`: a token will be in a file that this user's programs can read; ask first.
    """

    says: str
    writes_secret: bool
    command: Command | None = None
    config: Mapping[str, Any] | None = None


def read_config(path: Path) -> dict[str, Any]:
    """Return the docker CLI's config.json, empty if there is none."""
    try:
        config = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise RegistryError(f"{path} cannot be read: {error}", "Mend or move it") from error
    return config if isinstance(config, dict) else {}


def plan_login(
    where: Registry, auth: Auth | None, config_path: Path, which: Callable[[str], str | None]
) -> LoginPlan:
    """Return how to log in with as few stored secrets as possible.

    ECR with its credential helper: config.json names the helper and no secret is written. Another
    configured helper stores the token. Otherwise the token is written to config.json in base64,
    and the plan says so.
    """
    config = read_config(config_path)
    helper = config.get("credHelpers", {}).get(where.host) or config.get("credsStore", "")
    if where.is_ecr and which(f"docker-credential-{_ECR_HELPER}"):
        return _with_ecr_helper(where, config, config_path)
    if helper:
        says = f"keeps the credentials of {where.host} in the credential helper {helper}"
    else:
        says = (
            f"writes the credentials of {where.host} into {config_path}, in plain base64; "
            "a credential helper would keep them better, and push and pull need no log-in for ECR"
        )
    return LoginPlan(says=says, writes_secret=not helper, command=_docker_login(where, auth))


def _with_ecr_helper(where: Registry, config: dict[str, Any], path: Path) -> LoginPlan:
    helpers = {**config.get("credHelpers", {}), where.host: _ECR_HELPER}
    says = f"names the helper {_ECR_HELPER} for {where.host} in {path}; no secret is written"
    return LoginPlan(says=says, writes_secret=False, config={**config, "credHelpers": helpers})


def _docker_login(where: Registry, auth: Auth | None) -> Command:
    """Return the login command. ECR's token is its stdin; for others docker asks the user."""
    if auth is None:
        return Command(argv=(ENGINE, "login", where.host))
    # By standard input: all users of a machine can read a program's arguments.
    words = (ENGINE, "login", "--username", auth.username, "--password-stdin", where.host)
    return Command(argv=words, stdin=auth.password)


def write_config(path: Path, config: Mapping[str, Any]) -> None:
    """Replace config.json atomically, readable by its owner only."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(path, json.dumps(config, indent="\t") + "\n", mode=PRIVATE)


@contextlib.contextmanager
def temporary_config(auth: Auth, user_config: Path) -> Iterator[dict[str, str]]:
    """Yield the environment with a DOCKER_CONFIG in memory that holds these credentials.

    It also has the user's plug-ins, contexts and builders. It is removed when the body ends.
    """
    with TemporaryFolder(memory=True) as directory:
        config = read_config(user_config)
        word = base64.b64encode(f"{auth.username}:{auth.password}".encode()).decode()
        auths = {**config.get("auths", {}), auth.server: {"auth": word}}
        helpers = {k: v for k, v in config.get("credHelpers", {}).items() if k != auth.server}
        merged = {**config, "auths": auths, "credHelpers": helpers}
        merged.pop("credsStore", None)  # docker ignores `auths` if there is a credsStore
        write_config(Path(directory) / "config.json", merged)
        for name in ("cli-plugins", "contexts", "buildx"):
            if (user_config.parent / name).exists():
                (Path(directory) / name).symlink_to(user_config.parent / name)
        yield {"DOCKER_CONFIG": directory}
