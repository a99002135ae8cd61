"""profile --manifest: the job and the launcher of a file with the user's own objects."""

from collections.abc import Mapping
from pathlib import Path

from gpu_profile import process
from gpu_profile.cli.jobs import open_object
from gpu_profile.cli.options.jobs import ProfileOptions
from gpu_profile.cli.options.shared import LAUNCHER_OPTIONS
from gpu_profile.cli.terminal import ask_user
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.declared.kubernetes_settings import KubernetesSettings
from gpu_profile.errors import SettingsError
from gpu_profile.job import Job, NsysPlan, ProfileSpec, Resources
from gpu_profile.manifest.documents import YamlText
from gpu_profile.manifest.manifest_launcher import ManifestLauncher
from gpu_profile.manifest.target import Target
from gpu_profile.manifest.user_manifest import UserManifest
from gpu_profile.progress import Progress
from gpu_profile.registry.entrypoint import read_entrypoint
from gpu_profile.settings.settings import Settings

_OF_FILE = "Leave it out, or write it into that file"


def open_manifest(options: ProfileOptions, settings: Settings, text: str) -> ManifestLauncher:
    """Return the launcher of the object in --manifest. Raises SettingsError, one line each."""
    _refuse_flags(options, settings)
    yaml = YamlText(name=Path(options.manifest).name, text=text)
    manifest = UserManifest.read(yaml, container=options.container, template=options.template)
    images = manifest.list_images()
    manifest = manifest.with_entrypoints(
        {image: process.drive(read_entrypoint(image)) for image in images}
    )
    launcher = open_object(manifest.target.kind, settings, manifest)
    if options.dry_run:
        return launcher
    existing = process.drive(launcher.find_existing())
    return launcher if existing is None else launcher.replace_existing(existing)


def agree_to_replace(
    job: Job, plan: NsysPlan, launcher: ManifestLauncher, options: ProfileOptions
) -> None:
    """Show the change of an object that runs, and ask. Raises SettingsError without a yes."""
    if not launcher.replaces:
        return
    show_difference(job, plan, launcher)
    title = launcher.get_manifest().target.title
    if not ask_user(f"{title} runs: replace its pods by these?", yes=options.yes):
        raise SettingsError(f"{title} is left as it is", "Say yes, or --yes, to replace its pods")


def refuse_without_manifest(options: ProfileOptions) -> None:
    """Raise SettingsError for a flag that only a manifest gives a meaning."""
    flags = {"--container": options.container, "--template": options.template, "--yes": options.yes}
    for flag in (flag for flag, value in flags.items() if value):
        raise SettingsError(f"{flag} is for --manifest, which is not given", "Leave it out")


def make_manifest_job(name: str, launcher: ManifestLauncher) -> Job:
    """Return the job of the object: its command, its image, and its ranks as far as it says."""
    target = launcher.get_manifest().target
    container = next(container for container in target.containers if container.is_wrapped)
    nodes = max(1, min(target.pods, target.ranks))
    tasks = max(1, target.ranks // nodes)
    return Job(
        name=name,
        command=container.words or ("",),
        image=ImageRef.parse(container.image) if container.image else None,
        resources=Resources(nodes=nodes, gpus_per_node=target.gpus, tasks_per_node=tasks),
    )


def show_difference(job: Job, plan: NsysPlan, launcher: ManifestLauncher) -> None:
    """Print what the edit adds: a comment for each container, and the unified difference."""
    target = launcher.get_manifest().target
    for container in target.containers:
        print(f"# {target.title}: {container.describe()}")
    for line in _list_missing_gpus(target, job.profile or ProfileSpec()):
        print(f"# {line}")
    if job.carrier is None:
        print(f"# {_tell_carrying(target, is_by_torch=job.is_by_torch)}")
    if place := launcher.name_place(job.name):
        print(f"# reports come here, and stay in {place}")
    print(launcher.edit_manifest(job, plan).difference, end="")


def _tell_carrying(target: Target, *, is_by_torch: bool) -> str:
    """Return where the job's nsys, or with torch our agent, comes from."""
    what = "our agent" if is_by_torch else "nsys"
    if any(container.template.patches for container in target.containers):
        return f"{what}: the image's own, which has to hold it: a {target.kind.kind} gets none"
    how = "" if is_by_torch else " (--carry)"
    return f"{what}: the image's own; an init container brings ours where it has none{how}"


def _list_missing_gpus(target: Target, spec: ProfileSpec) -> list[str]:
    """Return a line where nsys does not trace CUDA, because no container asks for a GPU."""
    if target.gpus or spec.trace or spec.tool != "nsys":
        return []
    return ["no container asks for a GPU, so CUDA is not traced: --trace cuda,nvtx traces it"]


def tell_target(launcher: ManifestLauncher, spec: ProfileSpec) -> None:
    """Say which object and containers of the file are profiled, and which are left as they are."""
    manifest, progress = launcher.get_manifest(), Progress()
    for container in manifest.target.containers:
        progress.say(f"{manifest.target.title}: {container.describe()}")
    for line in _list_missing_gpus(manifest.target, spec):
        progress.say(line)
    others = manifest.list_others()
    if others:
        progress.say(f"applied as they are: {', '.join(others)}")


def read_manifest(path: str) -> str:
    """Return the text of --manifest as it is, with its line ends. Raises SettingsError."""
    try:
        return Path(path).read_bytes().decode()
    except OSError as error:
        raise SettingsError(f"--manifest {path}: {error.strerror}", "Name a file") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"--manifest {path} is not UTF-8 text", "Name a text file") from error


def _refuse_flags(options: ProfileOptions, settings: Settings) -> None:
    """Raise SettingsError for flags that the manifest decides, and settings without effect."""
    flags = list_launcher_flags(options, "namespace", "context", "report-to")
    refuse_decided(options, {"words after --": options.words, **flags})
    kube = settings.of(KubernetesSettings)
    if kube.injector != "none":
        what = f"KUBE_INJECTOR {kube.injector}: pods of a manifest get nsys by our wrapper"
        raise SettingsError(what, "Unset it")


def list_launcher_flags(options: ProfileOptions, *allowed: str) -> Mapping[str, object]:
    """Return the flags of launchers that are given, but for those that a file leaves open."""
    others = (option for option in LAUNCHER_OPTIONS if option.name not in allowed)
    return {f"--{option.name}": options.value_of(option) for option in others}


def refuse_decided(options: ProfileOptions, more: Mapping[str, object]) -> None:
    """Raise SettingsError for a flag that the file of --manifest decides."""
    decided = {
        "--on": options.on,
        "--nodes": options.nodes != 1,
        "--gpus": options.gpus != "all",
        "--gpus-per-node": options.gpus_per_node,
        "--image": options.image,
        "--ddp": options.ddp,
        "--processes": options.processes,
        "--env": options.env,
        "--mount": options.mount,
        "--baseline": options.baseline,
        **more,
    }
    for flag in (flag for flag, value in decided.items() if value):
        raise SettingsError(f"{flag}: {Path(options.manifest).name} decides that", _OF_FILE)
