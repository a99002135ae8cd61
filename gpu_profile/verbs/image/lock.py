"""lock: write gpu-profile.lock with the exact versions and checksums of all downloads."""

import dataclasses
from pathlib import Path

from gpu_profile import process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.image import LockOptions
from gpu_profile.declared.base_name import distribution_of
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.engine import image_programs
from gpu_profile.errors import GateError, SettingsError, ToolError
from gpu_profile.files import write_atomically
from gpu_profile.image import auto, build, compatibility
from gpu_profile.image import downloads as machine
from gpu_profile.lock import distribution_packages, file, installed
from gpu_profile.lock.charts import resolve_chart
from gpu_profile.lock.distribution_packages import SECTION
from gpu_profile.lock.file import Lock
from gpu_profile.lock.python_index import find_target, make_index_environment
from gpu_profile.pins import http as download
from gpu_profile.pins.resolvers import Tools, get_architecture
from gpu_profile.progress import Progress
from gpu_profile.settings.places import ROOT
from gpu_profile.settings.settings import Settings

PATH = Path(file.NAME)


def lock(options: LockOptions) -> None:
    """Write gpu-profile.lock, or with --check compare it with the settings, or with the image."""
    settings = load_settings(options)
    if options.check:
        lock_file = file.read_lock(PATH)
        file.check_lock(settings, lock_file, get_architecture())
        if options.image:
            _check_image(str(apply_version(settings).image_ref), lock_file)
        print(f"{PATH} is of these settings" + (" and of the image" if options.image else ""))
        return
    if options.image:
        raise SettingsError("--image is for --check", "Add --check")
    check_rules(settings)
    decided = process.drive(auto.decide_settings(settings)).settings
    # And again: `auto` stands for a base that other rules are about.
    check_rules(decided)
    tools = _make_tools(settings, decided)
    new_lock = {
        **file.resolve_lock(settings, decided, tools, _fetch_digest, Progress().say),
        **resolve_chart(settings, tools.fetch),
    }
    new_lock |= _record_packages(settings, new_lock)
    before = PATH.read_text(encoding="utf-8") if PATH.exists() else ""
    text = file.render_lock(new_lock)
    write_atomically(PATH, text)
    print(
        f"{PATH} {'is as it was' if text == before else 'is written'}: {_format_summary(new_lock)}"
    )


def _record_packages(settings: Settings, new_lock: Lock) -> Lock:
    """Return the packages of the image that was built from this lock.

    Without such an image: those of the present lock, if it has the same pins.
    """
    old_lock = file.read_lock(PATH)
    old_packages = {SECTION: old_lock[SECTION]} if SECTION in old_lock else {}
    try:
        decided = process.drive(auto.decide_settings(file.apply_lock(settings, new_lock)))
        inputs = build.inputs_hash(decided.settings, ROOT)
        name = build.image_name(decided.settings, inputs)
        if process.drive(build.is_built(name, inputs, decided.base_digest)):
            text = process.drive(image_programs.read_image_file(name, str(installed.PATH)))
            return distribution_packages.record_packages(text)
    except ToolError:  # no engine here
        pass
    if {**new_lock, **old_packages} == old_lock:
        return old_packages
    Progress().say("it has no packages of the distribution yet: `invoke build`, then `invoke lock`")
    return {}


def _check_image(name: str, lock_file: Lock) -> None:
    """Raise GateError if another version is installed in the image than is pinned."""
    text = process.drive(image_programs.read_image_file(name, str(installed.PATH)))
    versions = installed.parse_components(text)
    differences = installed.list_differences(versions, installed.pinned_by_lock(lock_file))
    if differences:
        raise GateError(
            f"{name} was not built from {PATH}: {'; '.join(differences)}", "`invoke build`"
        )


def _format_summary(new_lock: Lock) -> str:
    count = sum(len(part.pinned) for part in new_lock.values())
    return f"{count} settings of {', '.join(sorted(new_lock))} are pinned; commit it"


def apply_lock_file(settings: Settings, *, unlocked: bool = False) -> Settings:
    """Return the settings with the lock's pins, if there is a lock.

    A lock of other settings raises GateError, or is ignored with `unlocked`.
    """
    check_rules(settings)
    lock_file = file.read_lock(PATH)
    if unlocked and file.list_drift(settings, lock_file, get_architecture()):
        return settings
    return file.apply_lock(settings, lock_file, get_architecture())


def apply_version(settings: Settings) -> Settings:
    """Return the settings with the tag that VERSION=auto stands for: the hash of the inputs."""
    if settings.version != "auto":
        return settings
    decided = process.drive(auto.decide_settings(apply_lock_file(settings, unlocked=True))).settings
    inputs = build.inputs_hash(decided, ROOT)
    tag = ImageRef.parse(build.image_name(decided, inputs)).tag
    return dataclasses.replace(settings, version=tag)


def check_rules(settings: Settings) -> None:
    """Raise SettingsError for settings that do not work together.

    The launcher's manifest in k8s/ is checked too.
    """
    manifest = ROOT / "k8s" / f"{settings.launcher}.yaml"
    compatibility.check_compatibility(
        settings, manifest=manifest.read_text() if manifest.exists() else ""
    )


def _make_tools(settings: Settings, decided: Settings) -> Tools:
    """Return web access with this machine's proxies and certificates, and its pip."""
    downloads = process.drive(machine.probe_downloads())
    bundle = settings.ca_bundle or downloads.ca_bundle
    proxies = {"http": settings.http_proxy, "https": settings.https_proxy, "no": settings.no_proxy}
    return Tools(
        fetch=download.make_fetch(ca_bundle=bundle, proxies=proxies),
        run=process.run,
        distribution=distribution_of(decided.base_image),
        architecture=get_architecture(),
        target=process.drive(find_target(decided.base_image, get_architecture())),
        index_environment=make_index_environment(downloads, ca_bundle=bundle, proxies=proxies),
    )


def _fetch_digest(base: str) -> str:
    from gpu_profile.engine import api
    from gpu_profile.registry import push  # imports the Docker SDK and boto3, which are slow

    ref = ImageRef.parse(base)
    try:
        return api.remote_digest(ref, None)
    except api.EngineRefusal as refusal:
        raise push.explain_refusal(str(refusal), ref) from refusal
