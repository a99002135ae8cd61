"""build: make an image from the settings."""

import dataclasses
import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path

from gpu_profile import process, program_output, redact
from gpu_profile.analysis.store.files.temporary import TemporaryFolder
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.image import BuildOptions
from gpu_profile.cli.terminal import print_message, show_commands
from gpu_profile.command import Command, Steps
from gpu_profile.doctor import engine as engine_checks
from gpu_profile.engine import image_programs, probe
from gpu_profile.image import auto, downloads, oci_layout
from gpu_profile.image import build as image
from gpu_profile.image.auto import Decided
from gpu_profile.image.build import BuildxOptions
from gpu_profile.image.build_log import BuildLog
from gpu_profile.image.build_steps import BuildSteps
from gpu_profile.lock import distribution_packages, file
from gpu_profile.lock.installed import PATH as MANIFEST
from gpu_profile.progress import Progress
from gpu_profile.settings.places import ROOT, cache_folder
from gpu_profile.verbs.image.lock import PATH, apply_lock_file, check_rules
from gpu_profile.verbs.image.registry import open_ecr_access


def build(options: BuildOptions) -> None:
    """Build the image unless it is up to date; --dry-run prints the commands."""
    engine_checks.require_running_engine()
    decided = _decide_build(options)
    if options.dry_run:
        layout = _find_layout(decided)
        before = process.plan(_with_base(decided, layout))
        show_commands([*before, _build_command(decided, options, layout)])
        return
    for note in decided.notes:
        Progress().say(note)
    inputs = image.inputs_hash(decided.settings, ROOT)
    name = image.image_name(decided.settings, inputs)
    if _up_to_date(decided, name, inputs, options):
        print(f"{name} is up to date: it was built from the same inputs")
        _check_packages(decided, name, inputs, options)
        return
    layout = _find_layout(decided)
    build_command = _build_command(process.drive(_with_base(decided, layout)), options, layout)
    with open_ecr_access(decided.settings, options.environ, build_command) as allowed:
        run_build(allowed, verbose=options.verbose)
    _check_packages(decided, name, inputs, options)
    print_message(f"{name} is built; `invoke test` checks it, `invoke profile --ddp` uses it")


def _check_packages(decided: Decided, name: str, inputs: str, options: BuildOptions) -> None:
    """Raise GateError if the image's packages are not the lock's.

    An image that went to a registry or a file cannot be looked into here.
    """
    written = file.read_lock(PATH)
    if options.unlocked or distribution_packages.SECTION not in written:
        return
    if process.drive(image.is_built(name, inputs, decided.base_digest)):
        manifest = process.drive(image_programs.read_image_file(name, str(MANIFEST)))
        distribution_packages.check_packages(name, manifest, written)


def _decide_build(options: BuildOptions) -> Decided:
    """Return the settings to build, checked against the lock and the compatibility rules."""
    chosen = apply_lock_file(load_settings(options), unlocked=options.unlocked)
    decided = process.drive(auto.decide_settings(chosen, anew=options.rebuild_base))
    check_rules(decided.settings)
    if not options.unlocked:
        file.refuse_unlocked(decided.settings)
    return decided


def _up_to_date(decided: Decided, name: str, inputs: str, options: BuildOptions) -> bool:
    """Return whether the image exists with the same inputs, so that no build is needed.

    BuildKit decides if the base may have moved in its registry, or if the build makes more than an
    image (cache, SBOM).
    """
    more = options.cache_to or options.sbom or options.rebuild_base
    is_comparable = decided.base_digest or decided.settings.version == "auto"
    if more or decided.settings.build_opts or not is_comparable:
        return False
    return process.drive(image.is_built(name, inputs, decided.base_digest))


def _find_layout(decided: Decided) -> Path | None:
    """Return the path for the base's OCI layout if the builder sees no image of the engine."""
    apart = process.drive(oci_layout.sees_no_images(decided.settings))
    return (cache_folder() / "base").absolute() if apart else None


def _with_base(decided: Decided, layout: Path | None) -> Steps[Decided]:
    decided = yield from auto.with_base(decided)
    if layout:
        yield from oci_layout.save_layout(decided.settings.base_image, layout)
    return decided


def _build_command(decided: Decided, options: BuildOptions, layout: Path | None) -> Command:
    lock = {} if options.unlocked else file.read_lock(PATH)
    chosen = BuildxOptions(
        root=ROOT,
        apt_preferences=distribution_packages.render_preferences(lock),
        base=layout,
        plain=not _has_display(options.verbose),
        cache_from=options.cache_from,
        cache_to=options.cache_to,
        sbom=options.sbom,
    )
    return image.make_build_command(decided, process.drive(downloads.probe_downloads()), chosen)


def _has_display(verbose: bool) -> bool:
    """Return whether BuildKit draws its progress on this terminal.

    Otherwise a line a step is shown, or with --verbose its plain lines.
    """
    # drawn_lines() needs a pseudo-terminal, which only POSIX has.
    return sys.stderr.isatty() and os.name == "posix" and not verbose


def run_build(build_command: Command, *, verbose: bool = False) -> None:
    """Run the build with a TMPDIR of its own, and show its progress. Raises BuildError.

    buildx 0.13 writes the Dockerfile of `--file=-` to $TMPDIR/dockerfile123, and leaves it there.
    """
    log = BuildLog()
    with TemporaryFolder() as folder:
        command = dataclasses.replace(build_command, env={**build_command.env, "TMPDIR": folder})
        if _has_display(verbose):
            code = _follow_build(program_output.drawn_lines(command), log, lambda line: "")
        else:
            show = redact.url if verbose else BuildSteps().describe
            code = _follow_build(program_output.read_lines(command), log, show)
    # A daemon that died during the build is the cause, whatever the log says.
    if code:
        if not verbose:
            sys.stderr.writelines(f"  {redact.url(line)}\n" for line in log.last_lines)
        engine_checks.require_engine(process.drive(probe.probe_engine()))
        raise log.failure(code)


def _follow_build(
    lines: Generator[str, None, int], log: BuildLog, show: Callable[[str], str]
) -> int:
    """Return the exit code. `show` returns what is printed of a line, if anything."""
    while True:
        try:
            line = next(lines)
        except StopIteration as stop:
            return int(stop.value)
        log.feed(line)
        if text := show(line):
            print(text, file=sys.stderr, flush=True)
