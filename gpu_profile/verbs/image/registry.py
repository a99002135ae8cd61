"""login, push and pull: the registry of the settings, its token for one command, its layers."""

import contextlib
import dataclasses
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpu_profile import process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.image import LoginOptions, PullOptions, PushOptions
from gpu_profile.cli.paths import records_file
from gpu_profile.cli.terminal import ask_user, run_or_raise
from gpu_profile.command import Command
from gpu_profile.engine.api import LayerEvent
from gpu_profile.errors import RegistryError, SettingsError
from gpu_profile.progress import Progress
from gpu_profile.registry import address, ecr
from gpu_profile.registry import login as logins
from gpu_profile.registry import push as registry_push
from gpu_profile.registry.address import Registry
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.image.lock import apply_version


@contextlib.contextmanager
def open_ecr_access(
    settings: Settings, environ: Mapping[str, str], command: Command
) -> Iterator[Command]:
    """While the body runs, the yielded command can pull from ECR.

    DOCKER_CONFIG is a temporary folder with the token. The command stays unchanged unless it names
    that registry, for its base image or for a cache.
    """
    where = parse_registry_setting(settings) if settings.registry else None
    # A tag names the registry, too, but `build` pushes nothing, so it needs no token for that.
    words = [settings.base_image, *(w for w in command.argv if not w.startswith("--tag="))]
    is_named = where is not None and any(where.host in word for word in words)
    auth = ecr.fetch_authorization(where) if where and is_named else None
    if auth is None:
        yield command
        return
    with logins.temporary_config(auth, docker_config(environ)) as env:
        yield dataclasses.replace(command, env={**command.env, **env})


def docker_config(environ: Mapping[str, str]) -> Path:
    """Return the path of docker's own configuration, which holds its logins."""
    home = Path(environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    return home / "config.json"


def parse_registry_setting(settings: Settings) -> Registry:
    """Return the registry of the settings. Raises SettingsError if it contradicts AWS_REGION."""
    where = address.parse_registry(settings.registry, settings.ecr_registry)
    if where.is_ecr and settings.aws_region not in ("", where.region):
        raise SettingsError(
            f"AWS_REGION is {settings.aws_region}, and REGISTRY is in {where.region}",
            "Change one of them",
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


def login(options: LoginOptions) -> None:
    """Log the docker CLI in, after showing what will be written and asking."""
    settings = load_settings(options)
    where = parse_registry_setting(settings)
    config = docker_config(options.environ)
    auth = None if options.dry_run else ecr.fetch_authorization(where)
    plan = logins.plan_login(where, auth, config, process.find_program)
    print(f"This {plan.says}.")
    if options.dry_run:
        return
    if plan.writes_secret and not ask_user("Go on?", yes=options.yes):
        raise SettingsError("nothing was written", "Use --yes where there is no terminal")
    if plan.config is not None:
        logins.write_config(config, plan.config)
    elif plan.command is not None and plan.command.stdin:
        result = process.run(plan.command)
        if result.returncode:
            raise RegistryError(f"docker login: {result.last_line}", "See REGISTRY")
    elif plan.command is not None:
        run_or_raise(plan.command, RegistryError)


def push(options: PushOptions) -> None:
    """Push the image and record its digest, which launchers of other machines run."""
    settings_of_user = load_settings(options)
    where = parse_registry_setting(settings_of_user)
    settings = apply_version(settings_of_user)
    if options.dry_run:
        print(f"docker push {settings.image_ref}  # credentials of {where.host} for this call only")
        return
    pushed = registry_push.publish_image(
        settings.image_ref,
        where,
        records_file(),
        show=LayerProgress(),
        upload=registry_push.Upload(
            immutable=settings.ecr_immutable_tags,
            scan=settings.ecr_scan_on_push,
            named_by_inputs=settings_of_user.version == "auto",
        ),
    )
    print(pushed)


def pull(options: PullOptions) -> None:
    """Pull the settings' image, with the registry's credentials for this call."""
    settings_of_user = load_settings(options)
    where = parse_registry_setting(settings_of_user)
    settings = apply_version(settings_of_user)
    if options.dry_run:
        print(f"docker pull {settings.image_ref}")
        return
    print(registry_push.pull_image(settings.image_ref, where, show=LayerProgress()))
