"""profile --manifest: the service of a docker compose file, and what is added to it."""

import dataclasses
from pathlib import Path

from gpu_profile import process
from gpu_profile.cli.jobs import open_service
from gpu_profile.cli.options.jobs import ProfileOptions
from gpu_profile.command import Steps
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.engine import carrier_volume, compose
from gpu_profile.engine.engine_answers import NO_DAEMON
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.job import Job, NsysPlan
from gpu_profile.manifest.compose import OVERRIDE, ComposeService, is_compose
from gpu_profile.manifest.documents import YamlText, compare_texts
from gpu_profile.manifest.manifest_launcher import ServiceLauncher
from gpu_profile.manifest.user_manifest import Entrypoint
from gpu_profile.progress import Progress
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.jobs.own_file.manifest import list_launcher_flags, refuse_decided


def is_compose_text(path: str, text: str) -> bool:
    """Return whether the text of --manifest is a compose file. Raises SettingsError for no YAML."""
    return is_compose(YamlText(name=Path(path).name, text=text).parse())


def open_compose(
    options: ProfileOptions, settings: Settings
) -> tuple[ServiceLauncher, ComposeService]:
    """Return the launcher of the service of --container, and the service. Asks docker compose."""
    flags = list_launcher_flags(options)
    decided = {"words after --": options.words, "--template": options.template, **flags}
    refuse_decided(options, {**decided, "--yes": options.yes})
    file = Path(options.manifest)
    _tell_unread(file)
    reading = compose.read_compose_file(file, with_profiles=bool(options.container))
    config = process.drive(reading)
    service = ComposeService.choose(file, config, options.container)
    if not service.has_command:
        service = dataclasses.replace(service, image=process.drive(_read_entrypoint(service)))
    return open_service(service, settings), service


def _tell_unread(file: Path) -> None:
    """Say which file compose would read after this one, if it were not named.

    https://docs.docker.com/compose/how-tos/multiple-compose-files/merge/
    """
    names = [f"{file.stem}.override{suffix}" for suffix in (".yaml", ".yml")]
    for name in names if file.stem in {"compose", "docker-compose"} else ():
        if file.with_name(name).exists():
            hint = "`docker compose config > whole.yaml` joins them"
            Progress().say(f"note: {name} is not read: {hint}")


def _read_entrypoint(service: ComposeService) -> Steps[Entrypoint]:
    """Return what the image of the engine starts. Raises ToolError where it is not there yet."""
    try:
        config = yield from carrier_volume.read_config(ImageRef.parse(service.address))
    except ToolError as error:
        if NO_DAEMON in error.what:
            raise
        verb = "build" if service.facts.get("build") else "pull"
        hint = f"`docker compose --file={service.file} {verb} {service.name}` brings it"
        raise SettingsError(error.what, hint) from error
    words = {key: tuple(config.get(key) or ()) for key in ("Entrypoint", "Cmd")}
    return Entrypoint(entrypoint=words["Entrypoint"], cmd=words["Cmd"])


def show_service(
    job: Job, plan: NsysPlan, launcher: ServiceLauncher, service: ComposeService
) -> None:
    """Print what compose would read after the user's file."""
    print(f"# {service.describe()}")
    files = f"--file={service.file} --file={OVERRIDE}"
    print(f"# docker compose {files} run {service.name}, with this file of ours:")
    print(compare_texts(OVERRIDE, "", launcher.render_override(job, plan)), end="")


def tell_service(service: ComposeService) -> None:
    """Say how ranks are found, and what stays when the service is done."""
    progress = Progress()
    progress.say(service.describe())
    if service.starts_others:
        down = f"`docker compose --file={service.file} down`"
        progress.say(f"what it depends on is started and stays: {down} ends it")
