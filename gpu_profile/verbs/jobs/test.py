"""test: the image's own checks, or the NCCL tests on any launcher."""

import sys

from gpu_profile import process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.jobs import load_launcher, name_launchers, with_image
from gpu_profile.cli.options.jobs import TestOptions
from gpu_profile.cli.terminal import show_commands
from gpu_profile.command import Command
from gpu_profile.errors import GateError, SettingsError
from gpu_profile.launcher import ImageFrom
from gpu_profile.settings.places import ROOT
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.image.lock import apply_version


def test(options: TestOptions) -> None:
    settings = apply_version(load_settings(options))
    if options.suite == "nccl":
        from gpu_profile.verbs.jobs.nccl import run_suite

        run_suite(settings, options)
    elif options.suite == "image":
        _run_checks(options, settings)
    else:
        raise SettingsError(f"--suite {options.suite!r} is not known", "Use image or nccl")


def _run_checks(options: TestOptions, settings: Settings) -> None:
    if ImageFrom.ENGINE not in load_launcher(settings.launcher).possible_images:
        local = name_launchers(lambda other: ImageFrom.ENGINE in other.possible_images)
        raise SettingsError(
            f"--on {settings.launcher} runs no image checks",
            f"They run in local Docker: --on {local}",
        )
    image = with_image(settings, options.image).image_ref
    junit = (f"--junitxml={options.junit}",) if options.junit else ()
    command = Command(
        argv=(
            *(sys.executable, "-m", "pytest", str(ROOT / "tests" / "image"), "--require=image"),
            *(f"--rootdir={ROOT}", f"--config-file={ROOT / 'pyproject.toml'}"),
            *(f"--image={image}", *junit, *options.words),
        )
    )
    if options.dry_run:
        show_commands([command])
        return
    if process.run_attached(command):
        raise GateError(f"{image} failed its checks", "The failed ones are named above")
