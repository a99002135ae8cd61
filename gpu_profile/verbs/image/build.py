"""render, build, image-size: from settings to an image."""

import os
import sys
from collections.abc import Generator
from pathlib import Path

from gpu_profile import process, redact
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.paths import RECORDS, ROOT
from gpu_profile.cli.table import Options, Verb
from gpu_profile.cli.terminal import show, show_commands
from gpu_profile.command import Command, Steps, command
from gpu_profile.doctor import engine as engine_engine
from gpu_profile.engine import container
from gpu_profile.engine import probe as engine
from gpu_profile.errors import ToolError
from gpu_profile.image import auto as decide
from gpu_profile.image import build as image
from gpu_profile.image import dockerfile
from gpu_profile.image import downloads as machine
from gpu_profile.image import oci_layout as builder
from gpu_profile.image import sbom as bill_of_materials
from gpu_profile.image.auto import Decided
from gpu_profile.image.build import BuildOptions
from gpu_profile.image.build_log import BuildLog
from gpu_profile.image.size import measure
from gpu_profile.lock import file as lock
from gpu_profile.lock import installed as manifest
from gpu_profile.progress import Progress
from gpu_profile.verbs.image.lock import check_rules, locked
from gpu_profile.verbs.image.registry import lent


def render(verb: Verb, options: Options) -> None:
    decided = process.drive(decide.decide(locked(load_settings(verb, options))))
    sys.stdout.write(redact.url(dockerfile.render(decided.settings)))


def build(verb: Verb, options: Options) -> None:
    _require_engine()
    decided = _decided(verb, options)
    if options["dry_run"]:
        layout = _layout(decided)
        before = process.plan(_with_base(decided, layout))
        show_commands([*before, _build_command(decided, options, layout)])
        return
    for note in decided.notes:
        Progress().say(note)
    inputs = image.inputs_hash(decided.settings, ROOT)
    name = image.image_name(decided.settings, inputs)
    if _up_to_date(decided, name, inputs, options):
        print(f"{name} is up to date: it was built from the same inputs")
        return
    layout = _layout(decided)
    made = _build_command(process.drive(_with_base(decided, layout)), options, layout)
    with lent(decided.settings, options, made) as allowed:
        _run_build(allowed)
    print(f"{name} is built; `invoke test` checks it, `invoke profile --ddp` uses it")


def image_size(verb: Verb, options: Options) -> None:
    found = process.drive(measure(str(load_settings(verb, options).image_ref)))
    show(found, str(options["format"]))


def sbom(verb: Verb, options: Options) -> None:
    name = str(load_settings(verb, options).image_ref)
    look = command("docker", "image", "inspect", "--format={{.Id}}", name)
    identity = container.checked(process.run(look), f"looking for {name}").stdout.strip()
    read = command("docker", "run", "--rm", "--network=none", name, "cat", str(manifest.PATH))
    text = container.checked(process.run(read), f"reading the manifest of {name}").stdout
    sys.stdout.write(bill_of_materials.spdx(text, name, identity))


def _decided(verb: Verb, options: Options) -> Decided:
    """The settings to build, held against the lock and the rules."""
    chosen = locked(load_settings(verb, options), unlocked=bool(options["unlocked"]))
    decided = process.drive(decide.decide(chosen, anew=bool(options["rebuild_base"])))
    check_rules(decided.settings)
    if not options["unlocked"]:
        lock.refuse_unlocked(decided.settings)
    return decided


def _up_to_date(decided: Decided, name: str, inputs: str, options: Options) -> bool:
    """Whether BuildKit need not be asked. It knows more where a base may have moved in its
    registry, or where the build leaves more behind than the image."""
    more = any(options[flag] for flag in ("cache_to", "sbom", "rebuild_base"))
    known = decided.base_digest or decided.settings.version == "auto"
    if more or decided.settings.build_opts or not known:
        return False
    return process.drive(image.is_built(name, inputs, decided.base_digest))


def _layout(decided: Decided) -> Path | None:
    """Where the builder finds the embedded base, if it sees no image of the engine."""
    apart = process.drive(builder.sees_no_images(decided.settings))
    return RECORDS.with_name("base").absolute() if apart else None


def _with_base(decided: Decided, layout: Path | None) -> Steps[Decided]:
    decided = yield from decide.with_base(decided)
    if layout:
        yield from builder.save(decided.settings.base_image, layout)
    return decided


def _build_command(decided: Decided, options: Options, layout: Path | None) -> Command:
    chosen = BuildOptions(
        root=ROOT,
        base=layout,
        plain=not _draws(),
        cache_from=str(options["cache_from"]),
        cache_to=str(options["cache_to"]),
        sbom=bool(options["sbom"]),
    )
    return image.build(decided, process.drive(machine.downloads()), chosen)


def _require_engine() -> None:
    """One quick question where all is well; the full answer where it is not."""
    try:
        asked = process.run(command("docker", "version", "--format={{.Server.Version}}"))
    except ToolError:
        asked = None
    if asked is None or asked.returncode:
        engine_engine.require(process.drive(engine.probe()))


def _draws() -> bool:
    """Whether BuildKit's own display is to be shown; its plain lines otherwise."""
    return sys.stderr.isatty() and os.name == "posix"


def _run_build(made: Command) -> None:
    log = BuildLog()
    code = _followed(process.drawn_lines(made) if _draws() else process.lines(made), log)
    if code:
        engine_engine.require(process.drive(engine.probe()))
        raise log.failure(code)


def _followed(lines: Generator[str, None, int], log: BuildLog) -> int:
    while True:
        try:
            line = next(lines)
        except StopIteration as stop:
            return int(stop.value)
        log.feed(line)
        if not _draws():
            print(redact.url(line), file=sys.stderr, flush=True)
