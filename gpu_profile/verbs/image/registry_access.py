"""The registry of the settings, its token for one command, and the progress of its layers."""

import contextlib
import dataclasses
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpu_profile.command import Command
from gpu_profile.engine.api import LayerEvent
from gpu_profile.errors import SettingsError
from gpu_profile.progress import Progress
from gpu_profile.registry import address, ecr, login
from gpu_profile.registry.address import Registry
from gpu_profile.settings.settings import Settings


@contextlib.contextmanager
def open_ecr_access(
    settings: Settings, environ: Mapping[str, str], command: Command
) -> Iterator[Command]:
    """While the body runs, the yielded command can pull from ECR.

    DOCKER_CONFIG is a temporary folder with the token. The command stays unchanged unless it names
    that registry, for its base image or for a cache.
    """
    where = parse_registry_setting(settings) if settings.registry else None
    words = [settings.base_image, *(w for w in command.argv if not w.startswith("--tag="))]
    if where is None or not where.is_ecr or not any(where.host in word for word in words):
        yield command
        return
    auth = ecr.fetch_authorization(where)
    assert auth is not None
    with login.temporary_config(auth, docker_config(environ)) as env:
        yield dataclasses.replace(command, env={**command.env, **env})


def docker_config(environ: Mapping[str, str]) -> Path:
    home = Path(environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    return home / "config.json"


def parse_registry_setting(settings: Settings) -> Registry:
    where = address.parse_registry(settings.registry, settings.ecr_registry)
    if where.is_ecr and settings.aws_region not in ("", where.region):
        raise SettingsError(
            f"AWS_REGION is {settings.aws_region}, and REGISTRY is in {where.region}", "Mend one"
        )
    return where


class LayerProgress:
    """Shows each layer's progress: a changing line on a terminal, one line a layer elsewhere."""

    def __init__(self) -> None:
        self._progress = Progress()
        self._sizes: dict[str, tuple[int, int]] = {}

    def __call__(self, event: LayerEvent) -> None:
        if event.total:
            self._sizes[event.layer] = (event.current, event.total)
        if event.layer and event.status in {"Pushed", "Pull complete", "Layer already exists"}:
            self._progress.say(f"{event.layer}: {event.status.lower()}")
        elif not event.layer and event.status and "digest" not in event.status.lower():
            self._progress.say(event.status)
        elif sys.stderr.isatty():
            done = sum(current for current, _ in self._sizes.values())
            total = sum(total for _, total in self._sizes.values())
            self._progress.show(f"{done / 1e6:.0f} of {total / 1e6:.0f} MB in")
