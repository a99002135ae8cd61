"""lock: from what the settings ask for to what every build will take, in a file to commit."""

import dataclasses
import os
from pathlib import Path

from gpu_profile import process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.paths import ROOT
from gpu_profile.cli.table import Options, Verb
from gpu_profile.image import auto as decide
from gpu_profile.image import build as image
from gpu_profile.image import compatibility as rules
from gpu_profile.image import downloads as machine
from gpu_profile.image_ref import ImageRef
from gpu_profile.lock import file as locks
from gpu_profile.lock import http as download
from gpu_profile.lock.file import Lock
from gpu_profile.lock.resolvers import Tools, architecture, nvidia_distribution
from gpu_profile.progress import Progress
from gpu_profile.settings.settings import Settings

PATH = Path(locks.NAME)


def lock(verb: Verb, options: Options) -> None:
    chosen = load_settings(verb, options)
    if options["check"]:
        locks.check(chosen, locks.read(PATH))
        print(f"{PATH} is of these settings")
        return
    check_rules(chosen)
    decided = process.drive(decide.decide(chosen)).settings
    check_rules(decided)
    found = locks.resolve(chosen, decided, _tools(chosen, decided), _digest, Progress().say)
    before = PATH.read_text(encoding="utf-8") if PATH.exists() else ""
    text = locks.render(found)
    draft = PATH.with_name(f"{PATH.name}.{os.getpid()}.tmp")
    draft.write_text(text, encoding="utf-8")
    draft.replace(PATH)
    print(f"{PATH} {'is as it was' if text == before else 'is written'}: {_summary(found)}")


def _summary(found: Lock) -> str:
    count = sum(len(part.pinned) for part in found.values())
    return f"{count} settings of {', '.join(sorted(found))} are pinned; commit it"


def locked(chosen: Settings, *, unlocked: bool = False) -> Settings:
    """The settings with the lock's pins, where there is a lock. A lock of other settings is
    refused, or left aside where `unlocked` allows what it would have pinned."""
    check_rules(chosen)
    found = locks.read(PATH)
    return chosen if unlocked and locks.drift(chosen, found) else locks.apply(chosen, found)


def versioned(chosen: Settings) -> Settings:
    """VERSION=auto as the tag it stands for: the hash of all that goes into the image."""
    if chosen.version != "auto":
        return chosen
    decided = process.drive(decide.decide(locked(chosen, unlocked=True))).settings
    inputs = image.inputs_hash(decided, ROOT)
    tag = ImageRef.parse(image.image_name(decided, inputs)).tag
    return dataclasses.replace(chosen, version=tag)


def check_rules(chosen: Settings) -> None:
    """Refuse what cannot work together, by the settings and by the launcher's own manifest."""
    manifest = ROOT / "k8s" / f"{chosen.launcher}.yaml"
    rules.check(chosen, manifest=manifest.read_text() if manifest.exists() else "")


def _tools(chosen: Settings, decided: Settings) -> Tools:
    """The web as this machine reaches it, and pip as it is configured here."""
    bundle = chosen.ca_bundle or process.drive(machine.downloads()).ca_bundle
    proxies = {"http": chosen.http_proxy, "https": chosen.https_proxy, "no": chosen.no_proxy}
    return Tools(
        fetch=download.opener(ca_bundle=bundle, proxies=proxies),
        run=process.run,
        distribution=nvidia_distribution(decided.base_image),
        architecture=architecture(),
    )


def _digest(base: str) -> str:
    from gpu_profile.engine import api as engine_api
    from gpu_profile.registry import push  # the Docker SDK and boto3: only to ask a registry

    ref = ImageRef.parse(base)
    try:
        return engine_api.remote_digest(ref, None)
    except engine_api.EngineRefusal as refusal:
        raise push.explained(str(refusal), ref) from refusal
