"""render, build, image-size: from settings to an image."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gpu_profile import decide, dockerfile, engine, engine_api, image, lock, machine, process
from gpu_profile.build_log import BuildLog
from gpu_profile.command import Command, command
from gpu_profile.decide import Decided
from gpu_profile.errors import BuildError, ToolError
from gpu_profile.image import BuildOptions
from gpu_profile.image_size import measure
from gpu_profile.progress import Progress
from gpu_profile.spec import ImageRef
from gpu_profile.verbs import Options, Verb
from gpu_profile.verbs.common import ROOT, load_settings, show, show_commands
from gpu_profile.verbs.lock import check_rules, locked
from gpu_profile.verbs.registry import lent


def render(verb: Verb, options: Options) -> None:
    decided = process.drive(decide.decide(locked(load_settings(verb, options))))
    sys.stdout.write(dockerfile.render(decided.settings))


def build(verb: Verb, options: Options) -> None:
    _require_engine()
    chosen = load_settings(verb, options)
    chosen = locked(chosen, unlocked=bool(options["unlocked"]))
    decided = process.drive(decide.decide(chosen, anew=bool(options["rebuild_base"])))
    check_rules(decided.settings)
    if not options["unlocked"]:
        lock.refuse_unlocked(decided.settings)
    downloads = process.drive(machine.downloads())
    text = dockerfile.render(decided.settings)
    with tempfile.TemporaryDirectory(prefix="gpu-profile-") as directory:
        file = Path(directory) / "Dockerfile"
        file.write_text(text, encoding="utf-8")
        made = image.build(decided.settings, decided.made, downloads, _build_options(file, options))
        if options["dry_run"]:
            show_commands([made])
            return
        _notes(decided)
        name = image.image_name(decided.settings, image.inputs_hash(text, ROOT))
        if chosen.version == "auto" and engine_api.local_image(ImageRef.parse(name)):
            print(f"{name} is there already: the same inputs are not built twice")
            return
        with lent(decided.settings, options, made) as allowed:
            _run_build(allowed, interactive=sys.stderr.isatty())
    print(f"{name} is built; `invoke test` checks it, `invoke profile --ddp` uses it")


def image_size(verb: Verb, options: Options) -> None:
    found = process.drive(measure(str(load_settings(verb, options).image_ref)))
    show(found, str(options["format"]))


def _build_options(file: Path, options: Options) -> BuildOptions:
    return BuildOptions(
        root=ROOT,
        file=file,
        plain=not sys.stderr.isatty(),
        cache_from=str(options["cache_from"]),
        cache_to=str(options["cache_to"]),
        sbom=bool(options["sbom"]),
    )


def _notes(decided: Decided) -> None:
    for note in decided.notes:
        Progress().say(note)


def _require_engine() -> None:
    """One quick question where all is well; the full answer where it is not."""
    try:
        asked = process.run(command("docker", "version", "--format={{.Server.Version}}"))
    except ToolError:
        asked = None
    if asked is None or asked.returncode:
        engine.require(process.drive(engine.probe()))


def _run_build(made: Command, *, interactive: bool) -> None:
    """BuildKit's own display on a terminal; elsewhere its plain lines, read for the failure."""
    if interactive:
        code = process.run_attached(made)
        if code:
            raise BuildError("The build failed", "The step and its last lines are above")
        return
    log = BuildLog()
    code = _echoed(process.lines(made), log)
    if code:
        engine.require(process.drive(engine.probe()))
        raise log.failure(code)


def _echoed(lines: Iterator[str], log: BuildLog) -> int:
    while True:
        try:
            line = next(lines)
        except StopIteration as stop:
            return int(stop.value)
        log.feed(line)
        print(line, file=sys.stderr, flush=True)
