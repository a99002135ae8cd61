"""The Docker Engine's own interface, for what needs credentials per call: push, pull, digests.

The one module that knows the Docker SDK. What the engine says against a call is raised as
EngineRefusal with its words; what they mean is for the caller to tell. The SDK takes as long to
import as a build that has nothing to do: it is imported by the first call.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_profile import process
from gpu_profile.command import make_command
from gpu_profile.engine.probe import SOCKET_ADVICE
from gpu_profile.errors import ToolError
from gpu_profile.image_ref import ImageRef

_TIMEOUT_S = 600
"""Between two bytes of the engine's answer: a layer's last piece may take long to be accepted."""


@dataclass(frozen=True, kw_only=True)
class Auth:
    """What a registry is told, for one call. Never stored, never shown."""

    username: str
    password: str = field(repr=False)
    server: str = ""

    def for_engine(self) -> dict[str, str]:
        return {
            "username": self.username,
            "password": self.password,
            "serveraddress": self.server,
        }


@dataclass(frozen=True, kw_only=True)
class LayerEvent:
    """One line of the engine's stream. `layer` is empty for what concerns the whole image."""

    status: str
    layer: str = ""
    current: int = 0
    total: int = 0
    digest: str = ""
    """Of the manifest, in the stream's last event."""


class EngineRefusal(Exception):
    """The engine's or the registry's own words."""


@contextlib.contextmanager
def _open_client() -> Iterator[Any]:
    import docker.errors
    import requests

    try:
        client = docker.APIClient(timeout=_TIMEOUT_S, use_ssh_client=True, **_address())
    except docker.errors.DockerException as error:
        raise _no_engine(error) from error
    try:
        yield client
    except docker.errors.APIError as error:
        raise EngineRefusal(str(error.explanation or error)) from error
    except docker.errors.DockerException as error:
        raise EngineRefusal(str(error)) from error
    except requests.exceptions.RequestException as error:
        raise _no_engine(error) from error
    finally:
        client.close()


def _address() -> dict[str, Any]:
    """Where the docker CLI finds its engine: DOCKER_HOST, else its context; the SDK knows none."""
    import docker.context
    import docker.utils

    client_options: dict[str, Any] = docker.utils.kwargs_from_env()
    if "base_url" in client_options:
        return client_options
    with contextlib.suppress(ToolError):  # the SDK alone, without the CLI, has the usual socket
        shown = process.run(make_command("docker", "context", "show"))
        context = docker.context.ContextAPI.get_context(shown.stdout.strip() or "default")
        if shown.returncode == 0 and context and context.Host:
            return {"base_url": context.Host, "tls": context.TLSConfig or False}
    return client_options


def _no_engine(error: Exception) -> ToolError:
    if "permission denied" in str(error).lower():
        return ToolError("The Docker Engine refuses this user", SOCKET_ADVICE)
    return ToolError("No Docker Engine answers here", "`invoke doctor --fix` starts one")


def _find_credentials(ref: ImageRef, auth: Auth | None) -> dict[str, str]:
    """The given ones, else what `docker login` stored, credential helpers included."""
    import docker.auth

    if auth is not None:
        return auth.for_engine()
    host, _ = docker.auth.resolve_repository_name(_format_repository(ref))
    auth_config = docker.auth.resolve_authconfig(docker.auth.load_config(), host)
    return dict(auth_config) if auth_config else {}


def _format_repository(ref: ImageRef) -> str:
    return f"{ref.registry}/{ref.name}" if ref.registry else ref.name


def push_layers(ref: ImageRef, auth: Auth | None) -> Iterator[LayerEvent]:
    """Upload the local image of this very name and tag."""
    with _open_client() as client:
        credentials = _find_credentials(ref, auth)
        stream = client.push(
            _format_repository(ref), ref.tag, stream=True, decode=True, auth_config=credentials
        )
        yield from map(_parse_event, stream)


def pull_layers(ref: ImageRef, auth: Auth | None) -> Iterator[LayerEvent]:
    """Fetch by digest where the reference has one, otherwise by tag."""
    with _open_client() as client:
        credentials = _find_credentials(ref, auth)
        stream = client.pull(
            _format_repository(ref),
            ref.digest or ref.tag,
            stream=True,
            decode=True,
            auth_config=credentials,
        )
        yield from map(_parse_event, stream)


def _parse_event(message: Mapping[str, Any]) -> LayerEvent:
    if "error" in message:
        raise EngineRefusal(str(message["error"]))
    detail = message.get("progressDetail") or {}
    status = str(message.get("status", ""))
    _, _, pulled = status.partition("Digest: ")
    return LayerEvent(
        status=status,
        layer=str(message.get("id", "")),
        current=int(detail.get("current", 0)),
        total=int(detail.get("total", 0)),
        digest=str((message.get("aux") or {}).get("Digest", pulled)),
    )


def remote_digest(ref: ImageRef, auth: Auth | None) -> str:
    """The digest that the registry has for this tag, asked through the engine."""
    with _open_client() as client:
        answer = client.inspect_distribution(str(ref), _find_credentials(ref, auth))
        return str(answer["Descriptor"]["digest"])


@dataclass(frozen=True, kw_only=True)
class LocalImage:
    """`digests` are `registry/name@sha256:…`, one for each place it was pushed to or came from."""

    id: str
    digests: tuple[str, ...]
    size: int


def local_image(ref: ImageRef) -> LocalImage | None:
    """What the engine has under this name; None where it has nothing."""
    import docker.errors

    with _open_client() as client:
        try:
            image = client.inspect_image(str(ref))
        except docker.errors.ImageNotFound:
            return None
    digests = tuple(image.get("RepoDigests") or ())
    return LocalImage(id=image["Id"], digests=digests, size=image["Size"])
