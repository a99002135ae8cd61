"""Push, pull and digests through the Docker Engine API, with credentials for each call.

The only module that uses the Docker SDK. A refusal of the engine is raised as EngineRefusal with
the engine's text; callers interpret it. The SDK is imported by the first call, because its import
takes as long as a build that has nothing to do.

Measured with docker 28.2 and engine 26.1, `docker push` and `docker pull` give the same texts, and
the digest. The SDK stays because no command asks the engine for a tag's digest in the registry:
`docker buildx imagetools inspect` connects from this machine, by its own settings. To a registry
with a certificate of its own it said "400 Bad Request" where `docker push` and
`inspect_distribution` went through. VERSION=auto would move a tag there that it must leave. With
the SDK an ECR token is in no file either.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_profile import process
from gpu_profile.command import make_engine_command
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.engine.probe import SOCKET_ADVICE
from gpu_profile.errors import ToolError

_TIMEOUT_S = 600
"""Seconds between two bytes of the engine's answer: a registry may take long to accept the last
part of a layer."""


@dataclass(frozen=True, kw_only=True)
class Auth:
    """Credentials of a registry for one call. They are not stored and not shown."""

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
    """One event of the engine's stream. `layer` is empty if it concerns the whole image."""

    status: str
    layer: str = ""
    current: int = 0
    total: int = 0
    digest: str = ""
    """The manifest's digest, in the last event of the stream."""


class EngineRefusal(Exception):
    """An error with the text of the engine or the registry."""


@contextlib.contextmanager
def _open_client() -> Iterator[Any]:
    import docker.errors
    import requests

    try:
        client = docker.APIClient(timeout=_TIMEOUT_S, use_ssh_client=True, **_find_address())
    except docker.errors.DockerException as error:
        raise _no_engine(error) from error
    responses: list[Any] = []
    client.hooks["response"].append(lambda response, **_: responses.append(response))
    try:
        yield client
    except docker.errors.APIError as error:
        raise EngineRefusal(str(error.explanation or error)) from error
    except docker.errors.DockerException as error:
        raise EngineRefusal(str(error)) from error
    except requests.exceptions.RequestException as error:
        raise _no_engine(error) from error
    finally:
        # The SDK leaves the socket of a stream open that was not read to its end.
        for response in responses:
            response.close()
        client.close()


def _find_address() -> dict[str, Any]:
    """Return the engine's address: DOCKER_HOST, otherwise that of the docker CLI's context.

    docker-py 7 does not read CLI contexts: https://github.com/docker/docker-py/issues/3146
    """
    import docker.context
    import docker.utils

    client_options: dict[str, Any] = docker.utils.kwargs_from_env()
    if "base_url" in client_options:
        return client_options
    with contextlib.suppress(ToolError):  # no docker CLI here: the default socket
        answer = process.run(make_engine_command("context", "show"))
        context = docker.context.ContextAPI.get_context(answer.stdout.strip() or "default")
        if answer.returncode == 0 and context and context.Host:
            return {"base_url": context.Host, "tls": context.TLSConfig or False}
    return client_options


def _no_engine(error: Exception) -> ToolError:
    if "permission denied" in str(error).lower():
        return ToolError("The Docker Engine refuses this user", SOCKET_ADVICE)
    return ToolError("No Docker Engine answers here", "`invoke doctor --fix` starts one")


def _find_credentials(ref: ImageRef, auth: Auth | None) -> dict[str, str]:
    """Return the given credentials, otherwise those that `docker login` or a helper stored."""
    import docker.auth

    if auth is not None:
        return auth.for_engine()
    host, _ = docker.auth.resolve_repository_name(ref.repository)
    auth_config = docker.auth.resolve_authconfig(docker.auth.load_config(), host)
    return dict(auth_config) if auth_config else {}


def push_layers(ref: ImageRef, auth: Auth | None) -> Iterator[LayerEvent]:
    """Upload the local image with this name and tag. Yields the engine's events."""
    with _open_client() as client:
        credentials = _find_credentials(ref, auth)
        stream = client.push(
            ref.repository, ref.tag, stream=True, decode=True, auth_config=credentials
        )
        yield from map(_parse_event, stream)


def pull_layers(ref: ImageRef, auth: Auth | None) -> Iterator[LayerEvent]:
    """Pull by digest if the reference has one, otherwise by tag. Yields the engine's events."""
    with _open_client() as client:
        credentials = _find_credentials(ref, auth)
        stream = client.pull(
            ref.repository,
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
    """Return the registry's digest for this tag, which the engine asks for."""
    with _open_client() as client:
        answer = client.inspect_distribution(str(ref), _find_credentials(ref, auth))
        return str(answer["Descriptor"]["digest"])


@dataclass(frozen=True, kw_only=True)
class LocalImage:
    """An image of the engine.

    `digests` are `registry/name@sha256:…`, one for each registry it was pushed to or pulled from.
    """

    id: str
    digests: tuple[str, ...]
    size: int


def local_image(ref: ImageRef) -> LocalImage | None:
    """Return the engine's image of this name, or None."""
    import docker.errors

    with _open_client() as client:
        try:
            image = client.inspect_image(str(ref))
        except docker.errors.ImageNotFound:
            return None
    digests = tuple(image.get("RepoDigests") or ())
    return LocalImage(id=image["Id"], digests=digests, size=image["Size"])
